"""Every setting of the server: name, default, help. One table for the command line, the environment and the docs.

A setting `client_per_minute` is the option `--client-per-minute` and the variable ANALYTICS_CLIENT_PER_MINUTE. The
option takes precedence over the variable, the variable over the default. An invalid value stops the command with an
error that names the option and the value; no invalid value is replaced by a default.

To add a setting, add a line in Settings and one in docs/configuration.md (tests/unit/test_docs.py compares them), and
pass its value to what uses it (tally/web/components.py, tally/web/application.py).
"""

import contextlib
import difflib
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tally.base_path import normal_prefix

UNIX = "unix:"
# Linux allows 108 bytes with the terminating zero; the temporary name of the socket needs some of them.
MAX_PATH_BYTES = 96

# The most events of a request, as in tally/events/validation.py, which this module cannot import: a batch of that size
# has to fit into a limit.
MIN_HOURLY_EVENTS = 50
ENVIRONMENT_PREFIX = "ANALYTICS_"
# The default of --port with --acme.
ACME_PORT = 443
# Let's Encrypt's, and that of most others.
MAX_DOMAINS = 100
# RFC 1035, 2.3.4, with a dot; no address and no wildcard. In lower case.
_DOMAIN = r"(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!\d+$)[a-z0-9-]{2,63}"
_BASE_URL = re.compile(
    r"https?://(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:/[a-z0-9._~%-]+)*/?", re.IGNORECASE
)


class BadSetting(ValueError):
    """An invalid value; the message names the option, the allowed values and the value."""


def _token(value: str) -> str:
    # RFC 9110, section 5.5: characters of a header value that need no quoting.
    if not re.fullmatch(r"[\x21-\x7e]{0,256}", value.strip()):
        raise BadSetting("must be printable ASCII without spaces")
    return value.strip()


def _hosts(value: str) -> tuple[str, ...]:
    hosts = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    for host in hosts:
        is_path = re.fullmatch(r"unix:/[^\x00-\x1f,]+", host) and len(host.encode()) <= len(UNIX) + MAX_PATH_BYTES
        if not is_path and not re.fullmatch(r"(?!unix:)[A-Za-z0-9._:%-]{1,255}", host):
            raise BadSetting(
                "must be an address or host name of this machine, such as 127.0.0.1 (0.0.0.0 and :: mean all), or"
                f" unix:/PATH with a path of at most {MAX_PATH_BYTES} bytes"
            )
    return hosts


def _domains(value: str) -> tuple[str, ...]:
    domains = tuple(dict.fromkeys(part.strip().lower().rstrip(".") for part in value.split(",") if part.strip()))
    for domain in domains:
        if not re.fullmatch(_DOMAIN, domain):
            raise BadSetting(
                "must be domains such as stats.example.com, in ASCII (international names as xn--), without wildcards"
            )
    if len(domains) > MAX_DOMAINS:
        raise BadSetting(f"must be at most {MAX_DOMAINS} domains")
    return domains


def _email(value: str) -> str:
    if value and not re.fullmatch(r"[\x21-\x7e]{1,128}@[A-Za-z0-9.-]{1,128}", value):
        raise BadSetting("must be an email address")
    return value


def _https_url(value: str) -> str:
    if not re.fullmatch(r"https://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?/[\x21-\x7e]{0,1000}", value):
        raise BadSetting("must be a URL that begins with https://")
    return value


def _port(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value) or int(value) > 65_535:
        raise BadSetting("must be between 0 and 65535; 0 picks a free port")
    return int(value)


def _count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", value) or int(value) < 1:
        raise BadSetting("must be a whole number of at least 1")
    return int(value)


def _hourly(value: str) -> int:
    # A batch has up to 50 events: with a smaller limit it would never be accepted.
    if not re.fullmatch(r"[0-9]{1,12}", value) or 0 < int(value) < MIN_HOURLY_EVENTS:
        raise BadSetting(f"must be a whole number of at least {MIN_HOURLY_EVENTS}, or 0 for no limit")
    return int(value)


def _percentage(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", value) or int(value) > 100:
        raise BadSetting("must be a percentage between 1 and 100, or 0 for no limit")
    return int(value)


def _size_mb(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise BadSetting("must be a whole number of megabytes; 0 switches it off")
    return int(value)


def _keep_days(value: str) -> int:
    # 5: tally/maintenance/retention.py MIN_KEEP_DAYS; late events may arrive for 72 hours.
    if not re.fullmatch(r"[0-9]{1,6}", value) or 0 < int(value) < 5:
        raise BadSetting("must be at least 5 days, or 0 for unlimited")
    return int(value)


def _file_days(value: str) -> int:
    if not _keep_days(value):
        raise BadSetting("must be at least 5 days")
    return int(value)


def _days(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value):
        raise BadSetting("must be a whole number of days; 0 is unlimited")
    return int(value)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in allowed:
            raise BadSetting(f"must be one of {', '.join(allowed)}")
        return value.lower()

    return read


def _seconds(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value):
        raise BadSetting("must be a whole number of seconds; 0 switches it off")
    return int(value)


def _hour(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", value) or int(value) > 23:
        raise BadSetting("must be an hour between 0 and 23, in UTC")
    return int(value)


def path_of(value: str) -> Path:
    """Return a path. Raises BadSetting for a text that cannot be one."""
    if not value or "\0" in value:
        raise BadSetting("must be a path")
    return Path(value)


def _optional_path(value: str) -> Path | None:
    return path_of(value) if value else None


def backup_url(value: str) -> str:
    """Return the URL of a place for backups. Raises BadSetting, without the URL, which may contain a password."""
    try:
        url = urlsplit(value)
        is_valid = url.scheme in ("s3", "sftp", "https", "http") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_valid = False
    if value and (not is_valid or not re.fullmatch(r"[\x21-\x7e]+", value) or url.fragment):
        raise BadSetting(
            "must be a URL such as s3://BUCKET/PREFIX, sftp://USER@HOST/PATH or https://HOST/PATH (WebDAV)"
        )
    if value and url.password is not None:
        raise BadSetting("must not contain a password: see docs/backup.md, Credentials")
    return value


def _age_recipients(value: str) -> tuple[str, ...]:
    recipients = tuple(part.strip() for part in value.split(",") if part.strip())
    for recipient in recipients:
        if not re.fullmatch("age1[02-9ac-hj-np-z]{58}", recipient):
            raise BadSetting("must be public keys of age, which begin with age1 and have 62 characters")
    return recipients


def _networks(value: str) -> tuple[str, ...]:
    networks = tuple(part.strip() for part in value.split(",") if part.strip())
    if not networks:
        raise BadSetting("must be an address, a network such as 10.0.0.0/8, or none")
    return networks


def _header_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", value):
        raise BadSetting("must be the name of a header, such as X-Real-IP")
    return value


def _optional_header_name(value: str) -> str:
    return _header_name(value) if value else ""


def _web_url(value: str) -> str:
    if value and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]{1,253}(?:/[\x21-\x7e]{0,1000})?", value):
        raise BadSetting("must be a URL that begins with https:// or http://")
    return value


def _smtp_url(value: str) -> str:
    """Return the URL of a mail server. Raises BadSetting, without the URL, which may contain a password."""
    if not value:
        return value
    try:
        url = urlsplit(value)
        is_valid = url.scheme in ("smtp", "smtps") and bool(url.hostname) and url.port != 0 and url.path in ("", "/")
        is_valid = is_valid and url.query in ("", "tls=none") and not url.fragment
    except ValueError:
        is_valid = False
    if not is_valid or not re.fullmatch(r"[\x21-\x7e]{1,500}", value):
        raise BadSetting("must be a URL such as smtp://USER@HOST:587 (STARTTLS) or smtps://USER@HOST:465")
    if url.password is not None:
        raise BadSetting("must not contain a password: set --smtp-password-file")
    if url.query and (url.scheme == "smtps" or url.username is not None):
        raise BadSetting("must not have tls=none with smtps or a user: a password is sent with TLS alone")
    return value


def _mailbox(value: str) -> str:
    address = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}"
    if value and not re.fullmatch(rf"{address}|[^<>\"\\\x00-\x1f\x7f-\x9f]{{0,100}}<{address}>", value.strip()):
        raise BadSetting("must be an address such as stats@example.com, or Tally <stats@example.com>")
    return value.strip()


def _printable(value: str) -> str:
    if not value.isprintable() or len(value) > 200:
        raise BadSetting("must be at most 200 characters on one line")
    return value.strip()


def _issuer(value: str) -> str:
    if not value:
        return value
    try:
        url = urlsplit(value)
        is_here = url.scheme == "http" and url.hostname in ("localhost", "127.0.0.1", "::1")
        is_valid = (url.scheme == "https" or is_here) and bool(url.hostname) and url.port != 0 and "@" not in url.netloc
    except ValueError:
        is_valid = False
    if not is_valid or not re.fullmatch(r"[\x21-\x7e]{1,500}", value) or "?" in value or "#" in value:
        raise BadSetting("must be a URL such as https://id.example.com, or with http of this machine")
    if re.fullmatch(
        r"https://login\.(?:[a-z.]*)microsoftonline\.[a-z]+/(?:common|organizations|consumers)(?:/.*)?", value
    ):
        raise BadSetting("must name one tenant: the tokens of common, organizations and consumers have other issuers")
    return value


def _group_roles(value: str) -> tuple[str, ...]:
    pairs = tuple(part.strip() for part in value.split(",") if part.strip())
    for pair in pairs:
        group, _, role = pair.rpartition("=")
        if not group or not pair.isprintable() or role not in ("viewer", "editor", "admin"):
            raise BadSetting("must be GROUP=ROLE with a role of viewer, editor or admin")
    return pairs


def _session_hours(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", value) or not 1 <= int(value) <= 8_760:
        raise BadSetting("must be a whole number of hours between 1 and 8760")
    return int(value)


def _base_url(value: str) -> str:
    # Appears in headers, links and the log: no characters with a meaning there, and no line break.
    if value and not _BASE_URL.fullmatch(value):
        raise BadSetting(
            "must be a URL such as https://stats.example.com: a host in ASCII (international names as xn--),"
            " optionally a port and a path, without user name, query or spaces"
        )
    return value.rstrip("/")


def _own_path(value: str) -> str:
    # Characters that need no quoting anywhere; a leading dot would be a hidden file or a parent directory.
    if not re.fullmatch(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8}", value):
        raise BadSetting("must be a path such as /js/site.js: letters, digits and . _ ~ - between slashes")
    return value


def _base_path(value: str) -> str:
    prefix = normal_prefix(value)
    if prefix is None:
        raise BadSetting("must be a path such as /stats: letters, digits and . _ ~ - between slashes")
    return prefix


def _script_path(value: str) -> str:
    if not value.endswith(".js"):
        raise BadSetting("must be a path that ends in .js, such as /js/site.js")
    return _own_path(value)


def _clickhouse_urls(value: str) -> tuple[str, ...]:
    urls = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for url in urls:
        if not re.fullmatch(r"https?://(?:[!-+\--.0-?A-~]{1,256}@)?[A-Za-z0-9.\[\]:-]{1,253}/?", url):
            raise BadSetting("must be URLs such as http://clickhouse.internal:8123, with USER:PASSWORD@ where needed")
    return urls


def _database_name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", value):
        raise BadSetting("must be lower-case letters, digits and _, such as tally")
    return value


def _setting(default: Any, help: str, read: Callable[[str], Any], value: str = "") -> Any:
    return field(default=default, metadata={"help": help, "read": read, "value": value})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server (docs/configuration.md)."""

    host: tuple[str, ...] = _setting(
        ("127.0.0.1",), "address to listen on, or unix:/PATH; repeatable; 0.0.0.0 and :: are all addresses", _hosts
    )
    port: int = _setting(8000, "port to listen on; 0 picks a free one", _port)
    db: Path = _setting(Path("analytics.db"), "the database file", path_of, "file")
    trusted_proxy: tuple[str, ...] = _setting(
        ("127.0.0.0/8", "::1/128"),
        "network of proxies whose forwarded header is used; repeatable; replaces the default; none trusts no proxy",
        _networks,
        "network",
    )
    forwarded_header: str = _setting(
        "X-Forwarded-For", "the one header in which a trusted proxy names the client", _header_name
    )
    auth_header: str = _setting(
        "",
        "the header in which a proxy names the email address of who is signed in, such as Remote-Email",
        _optional_header_name,
        "header",
    )
    auth_header_from: tuple[str, ...] = _setting(
        (),
        "network of proxies whose --auth-header signs people in, or unix for a Unix socket; repeatable",
        _networks,
        "network",
    )
    auth_header_create: str = _setting(
        "none",
        "role of people whom --auth-header names and who have no invitation: none (they are refused), viewer, editor or"
        " admin",
        _one_of("none", "viewer", "editor", "admin"),
    )
    auth_logout_url: str = _setting(
        "", "where the pages go after logging out of the proxy of --auth-header", _web_url, "URL"
    )
    password_login: str = _setting(
        "yes",
        "sign-in by password: yes, or no where --auth-header or --oidc-issuer is the only way",
        _one_of("yes", "no"),
    )
    oidc_issuer: str = _setting(
        "", "issuer of the OpenID provider that signs people in, such as https://id.example.com", _issuer, "URL"
    )
    oidc_client_id: str = _setting("", "id of this server at the provider", _printable, "id")
    oidc_client_secret_file: Path | None = _setting(
        None, "file with the client's secret; a public client has none", _optional_path, "file"
    )
    oidc_name: str = _setting("", "name of the provider, for the button of the login page", _printable, "text")
    oidc_scopes: str = _setting("openid email profile", "scopes that are requested", _printable, "scopes")
    oidc_create: str = _setting(
        "none",
        "role of people whom the provider signs in and who have no invitation: none (they are refused), viewer, editor"
        " or admin",
        _one_of("none", "viewer", "editor", "admin"),
    )
    oidc_role: tuple[str, ...] = _setting(
        (),
        "role of a group of the provider, which people then have from sign-in to sign-in; owners keep theirs;"
        " repeatable",
        _group_roles,
        "group=role",
    )
    oidc_groups_claim: str = _setting("groups", "claim that holds the groups of --oidc-role", _printable, "claim")
    oidc_trust_email: str = _setting(
        "no",
        "take every address of the provider for verified: yes only where people cannot set theirs",
        _one_of("yes", "no"),
    )
    oidc_session_hours: int = _setting(
        24, "time after which a session of single sign-on ends and the provider decides again", _session_hours, "hours"
    )
    oidc_logout: str = _setting(
        "no", "end the provider's session too when a person logs out: yes or no", _one_of("yes", "no")
    )
    tls_cert: Path | None = _setting(
        None,
        "certificate with its chain, in PEM format, for HTTPS; read again on SIGHUP; needs --tls-key",
        _optional_path,
        "file",
    )
    tls_key: Path | None = _setting(
        None, "private key of the certificate, in PEM format, without a passphrase", _optional_path, "file"
    )
    acme: tuple[str, ...] = _setting(
        (),
        "domain of a certificate that the server gets and renews itself (ACME), which agrees to the terms of service of"
        " the certificate authority; repeatable; listens on all addresses, --port 443 and port 80 unless set otherwise",
        _domains,
        "domain",
    )
    acme_email: str = _setting("", "contact for the certificate authority; optional", _email, "address")
    acme_directory: str = _setting(
        "https://acme-v02.api.letsencrypt.org/directory",
        "directory URL of the certificate authority; the default is Let's Encrypt",
        _https_url,
        "URL",
    )
    acme_store: Path | None = _setting(
        None,
        "directory of the account keys and certificates of --acme; by default beside the database, FILE.acme",
        _optional_path,
        "directory",
    )
    acme_http_port: int = _setting(
        80,
        "port for the validation of --acme, which comes to port 80 of the domain; all else is redirected to HTTPS",
        _port,
    )
    base_url: str = _setting("", "the server's public address, such as https://stats.example.com, for links", _base_url)
    base_path: str = _setting("", "the path below which everything is served, such as /stats", _base_path)
    script_path: str = _setting(
        "/tracker.js",
        "another path of the tracker, such as /js/site.js; its parts are then below /js/site/",
        _script_path,
    )
    collect_path: str = _setting(
        "/api/collect", "another path of the collect API, to which the tracker then sends, such as /js/send", _own_path
    )
    geoip_db: Path | None = _setting(
        None,
        "an MMDB file of countries, or of cities, in place of the bundled one of countries",
        _optional_path,
        "file",
    )
    lists_dir: Path | None = _setting(
        None,
        "directory of newer lists of crawlers and referrer spam (crawlers.json, referrer_spam.txt), read again on"
        " SIGHUP",
        _optional_path,
        "directory",
    )
    datacenter_ranges: Path | None = _setting(
        None,
        "file of networks of data centers, one a line, which websites may exclude, read again on SIGHUP",
        _optional_path,
        "file",
    )
    free_events: int = _setting(100_000, "events per month of an account on the free plan", _count, "events")
    pro_events: int = _setting(10_000_000, "events per month of an account on the pro plan", _count, "events")
    client_per_minute: int = _setting(600, "collect requests per minute of one client", _count, "requests")
    website_per_minute: int = _setting(
        120, "collect requests per minute of one client to one website", _count, "requests"
    )
    client_events_per_hour: int = _setting(
        0, f"events per hour of one client, at least {MIN_HOURLY_EVENTS}; 0 is unlimited", _hourly, "events"
    )
    client_month_share: int = _setting(
        0,
        "percentage of an account's events per month that one client may use; 0 is all of them",
        _percentage,
        "percent",
    )
    max_new_values: int = _setting(
        10_000, "new values per website, field and day; further ones are stored as (other)", _count, "values"
    )
    max_new_names: int = _setting(
        1_000,
        "new names of events, properties, experiments, variants and goals per website and day; further ones are"
        " stored as (other)",
        _count,
        "names",
    )
    max_event_data: int = _setting(
        200,
        "MB of event_data per website and day; further events are stored without it; 0 is unlimited",
        _size_mb,
        "MB",
    )
    min_free_disk: int = _setting(
        1_000,
        "free disk space below which events are refused; 5 percent of the file system if that is less; 0 switches the"
        " check off",
        _size_mb,
        "MB",
    )
    max_upload: int = _setting(
        1_000, "largest file in MB that a browser may upload to be imported; 0 switches uploads off", _size_mb, "MB"
    )
    key_per_minute: int = _setting(
        600,
        "read requests per minute of one API key, of one account's sessions, and of one client by share links",
        _count,
        "requests",
    )
    max_connections: int = _setting(
        10_000, "connections open at once; beyond it, those idle longest are closed", _count, "connections"
    )
    client_connections: int = _setting(
        500, "connections open at once of one client that is not a trusted proxy", _count, "connections"
    )
    idle_seconds: int = _setting(
        75, "time after which an idle connection is closed; longer than that of the proxy in front", _count, "seconds"
    )
    max_identities: int = _setting(
        200_000, "visitors kept in memory; the least recently used are evicted first", _count, "visitors"
    )
    query_seconds: int = _setting(10, "time after which a query is refused with 503 query_timeout", _count, "seconds")
    keep_days: int = _setting(
        0,
        "time for which raw events are kept, at least 5 days, unless a website has its own; 0 is unlimited",
        _keep_days,
        "days",
    )
    audit_days: int = _setting(400, "days for which lines of the audit log are kept; 0 is unlimited", _days, "days")
    notify_networks: tuple[str, ...] = _setting(
        (),
        "network that is not public to which notices may be sent, such as that of a ntfy server, also by http;"
        " repeatable; none",
        _networks,
        "network",
    )
    smtp_url: str = _setting(
        "",
        "mail server that takes notices: smtp://USER@HOST:587 with STARTTLS, smtps://USER@HOST:465, or without TLS and"
        " password smtp://HOST:25?tls=none",
        _smtp_url,
        "URL",
    )
    smtp_password_file: Path | None = _setting(
        None, "file with the password of the user of --smtp-url", _optional_path, "file"
    )
    mail_from: str = _setting(
        "", 'sender of mail, such as "Tally <stats@example.com>"; needed by --smtp-url', _mailbox, "address"
    )
    log_format: str = _setting("logfmt", "format of the log: logfmt or json", _one_of("logfmt", "json"))
    log_level: str = _setting(
        "info",
        "minimum level that is logged: debug, info, warning or error",
        _one_of("debug", "info", "warning", "error"),
    )
    backup_dir: Path | None = _setting(None, "directory for a checked backup every night", _optional_path)
    backup_keep: int = _setting(7, "number of nightly backups that are kept", _count, "backups")
    backup_hour: int = _setting(3, "hour, in UTC, of the nightly backup", _hour, "hour")
    backup_to: str = _setting(
        "",
        "a place on another machine for a backup every night: s3://BUCKET/PREFIX, sftp://USER@HOST/PATH or"
        " https://HOST/PATH (WebDAV)",
        backup_url,
        "url",
    )
    backup_credentials: Path | None = _setting(
        None, "file with the user and password for --backup-to", _optional_path, "file"
    )
    backup_encrypt_to: tuple[str, ...] = _setting(
        (), "public key of age for which backups to --backup-to are encrypted; repeatable", _age_recipients, "recipient"
    )
    backup_increment_seconds: int = _setting(
        0, "time after which new events are sent to --backup-to; 0 sends them with the nightly backup alone", _seconds
    )
    upgrade_backup: str = _setting(
        "yes", "copy the database before it is upgraded: yes, or no for an upgrade without a copy", _one_of("yes", "no")
    )
    clickhouse: tuple[str, ...] = _setting(
        (),
        "ClickHouse server that follows the database; repeatable, for the replicas of one cluster",
        _clickhouse_urls,
        "URL",
    )
    cluster_mode: str = _setting(
        "none",
        "follow: ship every commit to --clickhouse, which then answers reports, while the database stays complete;"
        " keep: the same, and answer 202 only once ClickHouse has the events",
        _one_of("none", "follow", "keep"),
    )
    cluster_ack_seconds: int = _setting(
        5,
        "with keep: time after which a request that ClickHouse has not confirmed is closed unanswered",
        _count,
        "seconds",
    )
    cluster_keep_days: int = _setting(
        7,
        "with keep: time for which the database keeps events that ClickHouse has, at least 5 days",
        _file_days,
        "days",
    )
    cluster_name: str = _setting("tally", "name of the database in ClickHouse", _database_name)
    cluster_key: Path | None = _setting(
        None,
        "key file of age that encrypts accounts and websites in ClickHouse; needed by --cluster-mode keep",
        _optional_path,
        "file",
    )
    standby: str = _setting(
        "no", "answer 503 until there is a database, as `cluster recover` makes it: yes or no", _one_of("yes", "no")
    )
    metrics_token: str = _setting(
        "", "bearer token that /metrics requires; without it, /metrics answers this machine alone", _token
    )


SETTINGS: tuple[Field[Any], ...] = fields(Settings)


def option_name(setting: Field[Any]) -> str:
    """`client_per_minute` -> `--client-per-minute`."""
    return "--" + setting.name.replace("_", "-")


def variable_name(setting: Field[Any]) -> str:
    """`client_per_minute` -> `ANALYTICS_CLIENT_PER_MINUTE`."""
    return ENVIRONMENT_PREFIX + setting.name.upper()


def settings_from(options: Mapping[str, Sequence[str] | None], environment: Mapping[str, str]) -> Settings:
    """Return the settings from options (name -> the values given, in order) and environment variables.

    Raises BadSetting for an invalid value and for an unknown ANALYTICS_ variable.
    """
    known = {variable_name(setting) for setting in SETTINGS}
    for variable in environment:
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known:
            near = difflib.get_close_matches(variable, known, n=1, cutoff=0.8)
            meant = f" (did you mean {near[0]}?)" if near else ""
            raise BadSetting(
                f"{variable} is not a setting{meant}: correct or unset it; see `analytics-server serve --help`"
            )
    values = {setting.name: _value(setting, options, environment) for setting in SETTINGS}
    if values["acme"]:
        # One option makes a server that the internet reaches.
        for name, default in (("host", _all_hosts()), ("port", ACME_PORT)):
            if not options.get(name) and f"{ENVIRONMENT_PREFIX}{name.upper()}" not in environment:
                values[name] = default
    if os.path.islink(values["db"]):
        # SQLite finds the log by the name of the file itself, and so does everything else.
        try:
            values["db"] = values["db"].resolve()
        except (OSError, RuntimeError):
            raise BadSetting(f"--db: {values['db']} is a symbolic link that leads nowhere: name a file") from None
    return Settings(**values)


def _all_hosts() -> tuple[str, ...]:
    """Return 0.0.0.0, and :: where this machine has IPv6: listening there would fail otherwise."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.bind(("::", 0))
        return "0.0.0.0", "::"
    return ("0.0.0.0",)


# They are, or may contain, a secret: an error does not show them.
_SECRET = ("metrics_token", "backup_to", "smtp_url", "clickhouse")


def _value(setting: Field[Any], options: Mapping[str, Sequence[str] | None], environment: Mapping[str, str]) -> Any:
    given = options.get(setting.name)
    if given:
        # Of a setting that is not repeatable, the last value is used, as other programs do.
        source, text = option_name(setting), ",".join(given) if isinstance(setting.default, tuple) else given[-1]
    elif variable_name(setting) in environment:
        source, text = variable_name(setting), environment[variable_name(setting)]
    else:
        return setting.default
    try:
        return setting.metadata["read"](text)
    except BadSetting as bad:
        given_text = "" if setting.name in _SECRET else f" (got {text!r})"
        raise BadSetting(f"{source} {bad}{given_text}") from None
