"""The configurations of docs/deployment, taken from the pages and run: real proxies in front of real servers.

Replaced are addresses, ports and the paths of certificates. Clients connect from 127.0.0.2 and 127.0.0.3, which are no
trusted proxies here, as the proxy at 127.0.0.1 is.
"""

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import trustme

from tally.accounts.accounts import create_account, find_person, set_password_hash
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.storage.database import open_database, transaction
from tests.support import proxies
from tests.support.app import CHROME, OWNER, ROOT, Answer
from tests.support.page_client import PASSWORD, PASSWORD_HASH
from tests.support.process import NO_RATE_LIMITS, Server, until

HOST = "stats.example.com"
CA = trustme.CA()
CLIENTS = ("127.0.0.2", "127.0.0.3")


class Case(NamedTuple):
    """A block of a page, what surrounds it, what is replaced in it, and the options of the server behind it."""

    program: str
    page: str
    language: str
    # CONFIGURATION is replaced by the block, CERT by a file with certificate and key.
    around: str
    replaced: Mapping[str, str] = {}
    options: tuple[str, ...] = ()
    prefix: str = ""
    collect: str = "/api/collect"


CADDY = "{\n  admin off\n  auto_https disable_redirects\n}\nCONFIGURATION"
CADDY_SITE = {f"{HOST} {{": f"https://{HOST}:PORT {{\n  tls CERT CERT"}
NGINX = proxies.nginx("LOCATION")
NGINX = NGINX[: NGINX.index("  upstream tally")] + "CONFIGURATION\n}\n"
NGINX_TLS = "listen 127.0.0.1:PORT ssl; ssl_certificate CERT; ssl_certificate_key CERT;"
NGINX_SITE = NGINX.replace("CONFIGURATION", f"server {{ {NGINX_TLS} CONFIGURATION }}")
CERTIFICATES = {
    f"/etc/letsencrypt/live/{HOST}/fullchain.pem": "CERT",
    f"/etc/letsencrypt/live/{HOST}/privkey.pem": "CERT",
}
OWN_PATHS = ("--script-path", "/w/site.js", "--collect-path", "/w/send")
CADDY_OWN = CADDY.replace("CONFIGURATION", f"https://{HOST}:PORT {{\n  tls CERT CERT\n  CONFIGURATION\n}}")
CASES = {
    "Caddy": Case("caddy", "deployment/caddy", "caddyfile", CADDY, CADDY_SITE),
    "nginx": Case(
        "nginx", "deployment/nginx", "nginx", NGINX, CERTIFICATES | {"listen 443 ssl": "listen 127.0.0.1:PORT ssl"}
    ),
    "HAProxy": Case(
        "haproxy",
        "deployment/haproxy",
        "haproxy",
        "CONFIGURATION",
        {"bind :443": "bind 127.0.0.1:PORT", f"/etc/haproxy/{HOST}.pem": "CERT"},
    ),
    "Apache": Case(
        "apache2",
        "deployment/apache",
        "apache",
        proxies.APACHE_BASE + "CONFIGURATION",
        CERTIFICATES | {"*:443": "127.0.0.1:PORT"},
    ),
    "Traefik": Case(
        "traefik",
        "deployment/traefik",
        "yaml",
        "CONFIGURATION\ntls:\n  certificates:\n    - certFile: CERT\n      keyFile: CERT\n",
        {"        certResolver: letsencrypt\n": "        options: default\n"},
    ),
    "nginx, path kept": Case("nginx", "deployment", "nginx", NGINX_SITE, {}, ("--base-path", "/stats"), "/stats"),
    "Caddy, path removed": Case(
        "caddy",
        "deployment",
        "caddyfile",
        CADDY,
        {"example.com {": f"https://{HOST}:PORT {{\n  tls CERT CERT"},
        (),
        "/stats",
    ),
    "nginx, own domain": Case("nginx", "deployment/first-party", "nginx", NGINX_SITE, {}, OWN_PATHS, collect="/w/send"),
    "Caddy, own domain": Case(
        "caddy", "deployment/first-party", "caddyfile", CADDY_OWN, {}, OWN_PATHS, collect="/w/send"
    ),
}


def block(page: str, language: str) -> str:
    """Return the one block of a page in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / f"{page}.md").read_text(), re.M | re.S)
    return str(found)


class Installation:
    """A server with an account and a website, behind a proxy."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, db = case, folder / "analytics.db"
        with closing(open_database(db, create=True)) as connection, transaction(connection):
            owner = create_account(connection, OWNER, "business", None, 0)
            set_password_hash(connection, find_person(connection, OWNER).number, PASSWORD_HASH)
            self.website = add_website(connection, owner, "example.com", "example.com", (), 0)
            self.key = create_api_key(connection, owner, "", 0)
        options = (*NO_RATE_LIMITS, "--trusted-proxy", "127.0.0.1/32", *case.options)
        self.server = Server(db, options, {}, folder / "log", [])
        port = urlsplit(self.server.url).port
        text = block(case.page, case.language)
        for old, new in case.replaced.items():
            assert old in text, f"docs/{case.page}.md has no {old!r}"
            text = text.replace(old, new)
        assert "127.0.0.1:8000" in text
        file = folder / "site.pem"
        issued = CA.issue_cert(HOST)
        file.write_bytes(b"".join(one.bytes() for one in (issued.private_key_pem, *issued.cert_chain_pems)))
        text = case.around.replace("CONFIGURATION", text.replace("127.0.0.1:8000", "UPSTREAM"))
        try:
            self.proxy = proxies.Proxy(
                case.program, text.replace("CERT", str(file)), f"127.0.0.1:{port}", folder / "proxy"
            )
        except BaseException:
            self.server.kill()
            raise

    def answers(self) -> bool:
        """Return whether the proxy has read its configuration: Traefik listens before."""
        try:
            return self.send("HEAD", "/").status > 0
        except (ssl.SSLError, ConnectionError):
            return False

    def close(self) -> None:
        """Stop both."""
        self.proxy.stop()
        self.server.kill()

    def send(self, method: str, path: str, body: Any = None, client: str = CLIENTS[0], **headers: str) -> Answer:
        """Send a request through the proxy from an address; names of headers have _ for -."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        CA.configure_trust(context)
        connection = http.client.HTTPSConnection(HOST, timeout=60, context=context)
        plain = socket.create_connection(("127.0.0.1", self.proxy.port), 60, source_address=(client, 0))
        connection.sock = context.wrap_socket(plain, server_hostname=HOST)
        sent = {"User-Agent": CHROME} | {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())


@pytest.fixture(params=CASES)
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    one = Installation(CASES[request.param], tmp_path)
    try:
        until(one.answers)
        yield one
    finally:
        one.close()


def test_a_configuration_of_the_pages(installation: Installation) -> None:
    """Client address, scheme, host, prefix, cookies and /metrics, whatever clients send in the headers of proxies."""
    one, case = installation, installation.case
    event = {"type": "pageview", "url": "https://example.com/", "website_id": one.website}
    forged = {"X_Forwarded_Proto": "http", "X_Forwarded_Prefix": "/forged"}
    # RFC 9110, 7.6.1: a proxy removes what Connection names; it must not be what the proxy adds.
    connection = "close, X-Forwarded-For, X-Forwarded-Proto"
    page = forged | {"Origin": "https://example.com", "Cookie": "own=1", "Connection": connection}
    for client, claimed in ((CLIENTS[0], "198.51.100.1"), (CLIENTS[0], "198.51.100.2"), (CLIENTS[1], "198.51.100.3")):
        sent = one.send("POST", case.prefix + case.collect, event, client, X_Forwarded_For=claimed, **page)
        assert sent.status == 202, sent.text
    path = case.options[1] if case.options and case.collect == "/api/collect" else ""
    read = one.server.request(
        "GET",
        f"{path}/api/v1/websites/{one.website}/top/pathname",
        headers={"Authorization": f"Bearer {one.key}"},
    )
    assert read.json["data"] == [{"value": "/", "visitors": 2, "pageviews": 3, "events": 0}], "two client addresses"
    if case.collect != "/api/collect":
        # Relative to the script.
        assert b'"send"' in one.send("GET", "/w/site.js").body
        for hidden in ("/login", "/api/v1/openapi.yaml", "/metrics"):
            assert b"tally" not in one.send("GET", hidden).body.lower(), "only the paths of the tracker are passed"
        return
    # Without Sec-Fetch-Site the Origin has to be the request's own: scheme and host arrive.
    login = one.send(
        "POST",
        f"{case.prefix}/api/account/login",
        {"email": OWNER, "password": PASSWORD},
        Content_Type="application/json",
        Origin=f"https://{HOST}",
        **forged,
    )
    assert login.status == 200, login.text
    cookies = login.headers.get_all("Set-Cookie")  # type: ignore[attr-defined]
    name = "__Secure-tally.stats" if case.prefix else "__Host-tally"
    assert [line for line in cookies if line.startswith(f"{name}=") and "; Secure" in line], cookies
    own = {"Cookie": cookies[0].partition(";")[0], "Sec_Fetch_Site": "same-origin"}
    assert one.send("GET", f"{case.prefix}/api/account", **own).json["data"]["email"] == OWNER
    described = one.send("GET", f"{case.prefix}/api/v1/openapi.yaml", **forged).text
    assert f"\n  - url: {case.prefix or '/'}\n" in described
    assert one.send("GET", f"{case.prefix}/metrics").status == 403


def test_the_caddyfile_of_compose(tmp_path: Path) -> None:
    """deploy/Caddyfile, with the name of the service replaced."""
    case = CASES["Caddy"]
    text = (ROOT / "deploy" / "Caddyfile").read_text().replace("tally:8000", "127.0.0.1:8000")
    assert (
        re.sub(r"\s+", " ", text.replace("{$TALLY_DOMAIN}", HOST).partition("\n")[2]).strip()
        == re.sub(r"\s+", " ", block(case.page, case.language)).strip()
    ), "it is the configuration of the page, which the test above runs"
