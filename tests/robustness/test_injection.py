"""Injection: line breaks in headers, host names from requests, markup in every field.

Also: secrets are compared in constant time, no file is readable by other users, no core is dumped, and no other host is
contacted.
"""

import ast
import contextlib
import csv
import io
import json
import os
import re
import resource
import signal
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tally.accounts.accounts import AccountError
from tally.accounts.api_keys import revoke_api_key
from tally.events.dimensions import FIELDS
from tally.settings import BadSetting, settings_from
from tests.api.test_response_headers import raw
from tests.support.app import ROOT, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import LINK, PASSWORD, PageClient, logged_in
from tests.support.process import Serve, Server, need_strace

EVIL = "evil.example"

# --- line breaks in headers (response splitting)

BREAKS = ("\r\n", "\n", "\r", "\u2028", "\x85", "\0")
BAD_TEXTS = {
    "base_url": (
        *(
            f"https://stats.example.com{tail}{rest}"
            for tail in (*BREAKS, " ", "/ ", "?", "/?a=b", "#")
            for rest in ("x",)
        ),
        *("https://stats.example.com/<b>", 'https://stats.example.com/"', "https://stats.example.com/ä", "https://"),
        *("https://user@stats.example.com", "https://stats.example.com\\@evil.example", "https://bücher.example"),
        *("https:stats.example.com", "//stats.example.com", "javascript:alert(1)", "https://a..b", "https://[::1"),
    ),
    "metrics_token": (*(f"a{tail}b" for tail in (*BREAKS, " ", "\t")), "ä", "a\x7f", "x" * 257),
    "host": (*(f"127.0.0.1{tail}x" for tail in (*BREAKS, " ", "/")), "", "[::1]", "http://localhost"),
    "forwarded_header": (*(f"X-Real-IP{tail}x" for tail in (*BREAKS, ":", " ")), "", "ä"),
    "script_path": (*(f"/js/{tail}.js" for tail in (*BREAKS, " ", "?", "<b>", "..", "%0d%0a")), "js/x.js", "//evil.js"),
    "collect_path": (*(f"/js/{tail}send" for tail in (*BREAKS, " ", "?", "../", "%0d%0a")), "js/send"),
}
GOOD_TEXTS = {
    "base_url": (
        "https://stats.example.com",
        "http://localhost:8000",
        "https://a.b/stats",
        "http://[::1]:8",
        "HTTPS://A.B",
    ),
    "metrics_token": ("", "x", "a.b~c!/+=", "x" * 256),
    "host": ("127.0.0.1", "::1", "::", "0.0.0.0", "localhost", "fe80::1%eth0", "stats-1.internal"),
}


@cases(("name", "text"), [(name, text) for name, texts in BAD_TEXTS.items() for text in texts])
def test_settings_with_line_breaks_are_rejected(name: str, text: str) -> None:
    """These settings become part of headers, links and logs."""
    for options, environment in (({name: [text]}, {}), ({}, {f"ANALYTICS_{name.upper()}": text})):
        with pytest.raises(BadSetting, match="must be"):
            settings_from(options, environment)


@cases(("name", "text"), [(name, text) for name, texts in GOOD_TEXTS.items() for text in texts])
def test_a_good_setting_is_taken(name: str, text: str) -> None:
    assert getattr(settings_from({name: [text]}, {}), name) == ((text,) if name == "host" else text)


INJECTED = "\r\nX-Injected: 1\r\nSet-Cookie: tally=1\r\n\r\n<script>alert(1)</script>"


class Site:
    """An application with a website, two events and an API key."""

    def __init__(self, app: App, website: str, key: str) -> None:
        self.app, self.website, self.key = app, website, key

    async def send(self, target: str, *lines: str, line: str = "GET {} HTTP/1.1") -> Answer:
        """Send a request as raw bytes, since HTTP clients would correct or refuse it."""
        head = [line.format(target), *(lines or ("Host: localhost",)), f"Authorization: Bearer {self.key}", "", ""]
        return await raw(self.app, "\r\n".join(head).encode("utf-8", "surrogateescape"))


async def new_site(make_app: MakeApp, **settings: Any) -> Site:
    app = await make_app(**settings)
    website = await app.website()
    for path in ("/a", "/b"):
        view = {"type": "pageview", "website_id": website, "url": f"https://example.com{path}"}
        assert (await app.collect(view)).status == 202
    return Site(app, website, await app.key())


async def test_requests_cannot_add_response_headers(make_app: MakeApp) -> None:
    """Send line breaks, plain and percent-encoded, in every parameter and header that a response may repeat."""
    site = await new_site(make_app, base_url="https://stats.example.com")
    base = f"/api/v1/websites/{site.website}"
    for text in (quote(INJECTED), quote(quote(INJECTED)), INJECTED.replace("\r\n", "%0a")):
        targets = [f"{base}/{text}", f"/{text}", f"/assets/{text}", f"/share/{text}", f"/tracker/{text}.js"]
        targets += [f"/api/share/{text}/stats", f"/api/v1/websites/{text}/stats", f"{base}/top/{text}"]
        for name in ("from", "to", "tz", "interval", "format", "limit", "cursor", "compare", "filter_pathname", text):
            targets += [f"{base}/{what}?{name}={text}" for what in ("stats", "timeseries", "events")]
        targets += [f"{base}/events?format=csv&limit=1&filter_country={value}&filter_country=" for value in ("", text)]
        links = 0
        for target in targets:
            answer = await site.send(target.replace(" ", "%20").replace("<", "%3C").replace(">", "%3E"))
            assert answer.status in (200, 400, 404), target
            assert not {"X-Injected", "Set-Cookie"} & set(answer.headers), target
            assert "<script>" not in str(answer.headers)
            links += "Link" in answer.headers
        assert links == 2, "filter values are repeated in the link to the next page"
    for name in ("If-None-Match", "Accept", "Origin", "Referer", "X-Forwarded-Proto", "Accept-Encoding", "Cookie"):
        answer = await site.send(f"{base}/stats", "Host: localhost", f"{name}: x\x0bX-Injected: 1 <script>")
        assert answer.status in (200, 400)
        assert "X-Injected" not in answer.headers


# --- host names


@pytest.mark.parametrize("base_url", ["", "https://stats.example.com"])
async def test_responses_do_not_repeat_the_host_of_a_request(make_app: MakeApp, base_url: str) -> None:
    """Clients choose the Host header, so responses name only the host of the settings."""
    site = await new_site(make_app, base_url=base_url)
    base = f"/api/v1/websites/{site.website}"
    spoofs = (
        (f"Host: {EVIL}",),
        (f"Host: {EVIL}:8000",),
        ("Host: localhost", f"X-Forwarded-Host: {EVIL}", f"Forwarded: for=1.2.3.4;host={EVIL};proto=https"),
        ("Host: localhost", f"X-Original-URL: https://{EVIL}/", f"X-Rewrite-URL: //{EVIL}/", f"X-Host: {EVIL}"),
    )
    targets = [
        f"{base}/events?limit=1&format=csv",
        f"{base}/stats",
        "/",
        "/login",
        "/tracker.js",
        "/healthz",
        "/nothing",
    ]
    targets += ["/api/account/state", "/api/v1/openapi.yaml", f"{base}/events?limit=1"]
    for target in targets:
        for lines in spoofs:
            await _check_does_not_name_the_host(site, await site.send(target, *lines), base_url)
        absolute = await site.send(target, f"Host: {EVIL}", line=f"GET http://{EVIL}{{}} HTTP/1.1")
        await _check_does_not_name_the_host(site, absolute, base_url)


async def _check_does_not_name_the_host(site: Site, answer: Answer, base_url: str) -> None:
    assert answer.status in (200, 404)
    assert EVIL not in answer.text + str(dict(answer.headers))
    if "Link" in answer.headers:
        assert answer.headers["Link"].startswith(f"<{base_url}/api/v1/websites/{site.website}/events?")


# --- markup in every field

SCRIPTS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></sCrIpT>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "<a href=javascript:alert(1)>x</a>",
    "<form action=//evil.example><button>x",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href=//evil.example>",
    "<link rel=stylesheet href=//evil.example>",
    "<style>@import '//evil.example'</style>",
    "<object data=//evil.example>",
    "<embed src=//evil.example>",
    "<template><script>alert(1)</script></template>",
    "<!--<script>alert(1)//-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version='1.0'?><x/>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "`-alert(1)-`",
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "\u003cscript\u003ealert(1)\u003c/script\u003e",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\ufeff<script>alert(1)</script>",
    "\u202e<script>",
    "<scr\tipt>alert(1)</scr\nipt>",
    '=HYPERLINK("http://evil.example","x")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "__proto__",
    "constructor",
]
FORMULA = re.compile(r"[=+\-@\t\r\n]")


def events_with(n: int, text: str) -> list[dict[str, Any]]:
    """Return events with the text in every field that accepts one."""
    labels = dict.fromkeys(("platform", "app_version", "os_version", "browser", "os"), text)
    page = f"https://example.com/{text}?utm_source={quote(text)}&utm_medium={quote(text)}&utm_campaign={quote(text)}"
    page = re.sub(r"[\t\n]", "", page)
    ids = {"session_id": f"session-{n}", "event_id": f"e{n}"}
    return [
        {"type": "pageview", "url": page, "referrer": "https://google.com/" + quote(text), **labels, **ids},
        {"type": "screen_view", "name": text, **labels},
        {"type": "event", "event_name": text, "event_data": {text: text, "b": [text][0]}, "url": page, **labels},
        {"type": "app_event", "event_name": text, "name": text, **labels},
        {"type": "ab_assign", "experiment": text, "variant": text, **labels},
        {"type": "ab_convert", "experiment": text, "variant": text, "goal": text, "value": 1, **labels},
        {"type": "vitals", "vitals": {"lcp": 1, text: 2}, "name": text, **labels},
    ]


async def test_markup_in_every_field_is_data(make_app: MakeApp) -> None:
    """Payloads in all fields are stored, and returned as JSON or CSV that no browser renders as a document."""
    app = await make_app(website_per_minute=10_000)
    website, key = await app.website(), await app.key()
    for n, text in enumerate(SCRIPTS):
        answer = await app.collect({"website_id": website, "events": events_with(n, text)})
        assert (answer.status, answer.json["rejected"]) == (202, 0), answer.text
    base = f"/api/v1/websites/{website}"
    seen = ""
    for target in ("stats", "timeseries", "realtime", "events?limit=1000", *(f"top/{f}?limit=1000" for f in FIELDS)):
        plain = await app.get(f"{base}/{target}", key, headers={"Accept": "text/html"})
        _check_is_no_document(plain, "application/json")
        seen += json.dumps(plain.json, ensure_ascii=False)
        if target not in ("stats", "realtime"):
            table = await app.get(f"{base}/{target}{'&' if '?' in target else '?'}format=csv", key)
            _check_is_no_document(table, "text/csv")
            _check_equal(plain.json["data"], table.text)
    for text in SCRIPTS:
        assert json.dumps(text, ensure_ascii=False)[1:-1] in seen, text


def _check_is_no_document(answer: Answer, kind: str) -> None:
    assert answer.status == 200
    assert answer.headers["Content-Type"].split(";")[0] == kind
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


def _check_equal(rows: list[dict[str, Any]], text: str) -> None:
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert not rows or header == list(rows[0])
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        for value, cell in zip(row.values(), line, strict=True):
            if isinstance(value, str):
                assert cell == ("'" if FORMULA.match(value) else "") + value
                assert FORMULA.match(cell) is None


async def test_markup_in_names_of_websites_and_keys_is_data(app: App) -> None:
    """Payloads in names of websites and keys are returned as JSON, and so are error responses."""
    owner = await logged_in(app)
    for text in SCRIPTS:
        named = text.replace("\t", " ").replace("\n", " ")
        for path, body in (
            ("/api/account/websites", {"domain": "other.example", "name": named, "again": True}),
            ("/api/account/keys", {"name": named}),
        ):
            made = await owner("POST", path, body)
            assert made.status in (201, 400), made.text
            assert made.headers["Content-Type"] == "application/json"
            if made.status == 201:
                assert named.strip() in [row["name"] for row in (await owner("GET", path)).json["data"]]
        for path, body in (
            ("/api/account/websites", {"domain": text}),
            ("/api/account", {"time_zone": text}),
            ("/api/account/login", {"email": text, "password": text}),
            ("/api/account/keys", {text: text}),
        ):
            answer = await owner("PATCH" if path == "/api/account" else "POST", path, body)
            # Some payloads are valid host names.
            assert (
                answer.status == 201
                if text.strip("_").isalpha() and path.endswith("websites")
                else 400 <= answer.status < 500
            )
            assert answer.headers["Content-Type"] == "application/json"


# --- comparison of secrets

SECRET = re.compile(r"(?:^|_)(?:token|secret|digest|hash|salt|cookie|seal|signature|password|setup)s?(?:_|$)")
# Comparisons whose operands no client sends, and why.
NOT_FROM_CLIENTS = {
    "changes.py: password_hash_of(connection, person) != password_hash": "two hashes from the database",
    "auth_header.py: settings.password_login == 'no'": "a setting that is yes or no",
    "components.py: settings.password_login == 'yes'": "a setting that is yes or no",
    "assistants.py: digest != current": "keyed hashes, of which the row was looked up",
    "assistants.py: digest == current": "keyed hashes, of which the row was looked up",
    "second_factor.py: secret_of(connection, person) != instead_of": "two secrets from the database",
    "accounts.py: getpass.getpass('Again: ') != password": "the same user types both",
    "backup.py: _salt(path) == salt": "two files of the owner's own",
    "importer.py: self._value(self._token_name) != self._token": "a token that an import stored in the database",
    "reader_process.py: source.digest != digest": "the content of a file of the owner's own",
    "control.py: digests == self._copied": "the content of tables, without a key",
    "control.py: digests != self._copied": "the content of tables, without a key",
    "control.py: digests[1] != self._copied[1]": "the content of tables, without a key",
    "load.py: await digest_of(_rows(connection, website, days)) != (stored.events, stored.digest)": "as in archive.py",
    "unloader.py: stored != await digest_of(exported(client, copy.copy, offset_ms, days))": "events, without a key",
    "archive.py: await digest_of(read) == (days.events, days.digest)": "events, without a key",
}


def comparisons() -> Iterator[str]:
    """Yield every `==` and `!=` in the code with an operand whose name is that of a secret."""
    for path in [*sorted((ROOT / "tally").rglob("*.py")), ROOT / "analytics_server.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and any(isinstance(how, ast.Eq | ast.NotEq) for how in node.ops):
                parts = [node.left, *node.comparators]
                sizes = any(isinstance(part, ast.Call) and ast.unparse(part.func) == "len" for part in parts)
                if not sizes and any(SECRET.search(name) for part in parts for name in _names(part)):
                    yield f"{path.name}: {ast.unparse(node)}"


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr


def test_secrets_are_compared_in_constant_time() -> None:
    """The duration of `==` shows how much of a guess is right: use secrets.compare_digest, or look up a keyed hash."""
    assert set(comparisons()) == set(NOT_FROM_CLIENTS)


def test_secrets_are_looked_up_by_keyed_hash() -> None:
    """Keys and sessions are looked up by hashes with the database's salt; no statement holds the clear value."""
    schema = (ROOT / "schema.sql").read_text()
    for table, column in (("api_key", "digest"), ("login", "digest"), ("device_cookie", "digest")):
        assert re.search(rf"create table {table} \([^;]*\b{column}\b", schema), table


# --- the process: system calls, files, core dumps


def use_everything(server: Server) -> None:
    """Use every part of the server: setup, collecting, pages, queries, refused requests, signing in and out."""
    link = re.search(r"/setup#(\S+)", server.stderr())
    assert link is not None
    own = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    sent = {"token": link[1], "email": "a@b.example", "password": PASSWORD}
    made = server.request("POST", "/api/account/setup", sent, own)
    assert made.status == 201, made.text
    own |= {"Cookie": made.headers["Set-Cookie"].partition(";")[0]}
    website = server.request("POST", "/api/account/websites", {"domain": "example.com"}, own).json["data"]["id"]
    key = server.request("POST", "/api/account/keys", {"name": "x"}, own).json["data"]["value"]
    web = {"Origin": "https://example.com", "Referer": "https://evil.example/", "X-Forwarded-For": "8.8.8.8"}
    for n in range(50):
        url = f"https://example.com/{n}"
        view = {"type": "pageview", "website_id": website, "url": url, "referrer": "https://evil.example/"}
        assert server.request("POST", "/api/collect", view, web).status == 202
    server.request("GET", f"/pixel.gif?website_id={website}", None, web)
    link_made = server.request("POST", f"/api/account/websites/{website}/share-links", LINK, own).json["data"]["path"]
    bearer = {"Authorization": f"Bearer {key}"}
    for what in ("stats", "timeseries", "top/country", "events", "realtime"):
        assert server.request("GET", f"/api/v1/websites/{website}/{what}", None, bearer).status == 200
        assert server.request("GET", f"/api/account/websites/{website}/{what}", None, own).status == 200
        assert server.request("GET", f"/api{link_made}/{what}").status == 200
    for path in ("/", "/tracker.js", "/assets/app.js", "/healthz", "/metrics", "/api/v1/openapi.yaml", "/nothing"):
        assert server.request("GET", path).status in (200, 403, 404)
    wrong = {"email": "a@b.example", "password": "http://evil.example/"}
    assert server.request("POST", "/api/account/login", wrong, own).status == 401
    assert server.request("POST", "/api/account/logout", {}, own).status == 204


def test_no_other_host_is_contacted(serve: Serve, tmp_path: Path) -> None:
    """The process opens no connection and sends no datagram, whatever it receives."""
    need_strace()
    trace = tmp_path / "trace"
    calls_of = "trace=connect,sendto,sendmsg,sendmmsg,accept4"
    server = serve(prefix=["strace", "-f", "-qq", "-o", str(trace), "-e", calls_of])
    (traced,) = map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())
    try:
        use_everything(server)
    finally:
        os.kill(traced, signal.SIGTERM)  # strace ends when the server does
    assert server.terminate() == 0
    calls = trace.read_text().splitlines()
    # Control: strace recorded the calls of this process.
    assert sum("accept4(" in call for call in calls) >= 50
    assert [call for call in calls if "connect(" in call and "AF_UNIX" not in call] == []
    # A call with an address sends a datagram; responses are sent on connections, without one.
    assert [call for call in calls if "sin_addr" in call and "accept4" not in call and "resumed" not in call] == []


def test_no_file_is_readable_by_other_users(serve: Serve, tmp_path: Path, command: Any) -> None:
    """With umask 0, every file that the server and its commands create is accessible only to its owner."""
    home = tmp_path / "home"
    home.mkdir()
    server = serve(db=home / "analytics.db", prefix=["sh", "-c", 'umask 0; exec "$@"', "sh"])
    use_everything(server)
    with contextlib.closing(sqlite3.connect(home / "analytics.db")) as connection:
        website = connection.execute("select id from website").fetchone()[0]
    for words in (("backup", "copy.db"), ("export", website, "events.ndjson"), ("export", website, "events.ndjson.gz")):
        done = command(*words, "--db", "analytics.db", cwd=home)
        assert done.returncode == 0, done.stderr
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    server.kill()
    assert {"analytics.db", "analytics.db-wal", "analytics.db-shm", "analytics.db.lock", "copy.db"} <= set(modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_core_dumps_are_disabled(serve: Serve) -> None:
    """A core file would contain secrets that are only in memory. The server is started with core files allowed."""
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if most == 0:
        pytest.skip("NOT TESTED: the system allows no core files at all")
    server = serve(prefix=["sh", "-c", 'ulimit -S -c unlimited; exec "$@"', "sh"])
    limits = Path(f"/proc/{server.pid}/limits").read_text()
    found = re.search(r"^Max core file size +(\S+)", limits, re.MULTILINE)
    assert found is not None
    assert found[1] == "0"


async def test_a_share_link_opens_one_website_and_can_be_withdrawn(app: App) -> None:
    """SECURITY.md: share links are stored in clear, so that their owner can see them again. A link gives access to one
    website, and to nothing after it was revoked."""
    owner = await logged_in(app)
    website, other = await app.website(), await app.website("other.example")
    link = (await owner("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]
    token = link["path"].removeprefix("/share/")
    assert len(token) == 24  # 144 bits
    visitor = PageClient(app)
    assert (await visitor("GET", f"/api/share/{token}/stats")).status == 200
    headers: dict[str, str | None] = {"Authorization": f"Bearer {token}", "Cookie": f"tally={token}"}
    for path in (f"/api/v1/websites/{website}/stats", f"/api/account/websites/{other}/stats", "/api/account/keys"):
        assert (await visitor("GET", path, headers=headers)).status == 401
    assert app.sql("select token from share_link") == [(token,)]
    await owner("DELETE", f"/api/account/websites/{website}/share-links/{link['id']}")
    assert (await visitor("GET", f"/api/share/{token}/stats")).status == 404
    assert app.sql("select token from share_link") == []
    with pytest.raises(AccountError):
        await app.admin(lambda connection: revoke_api_key(connection, token))
