"""Sign-in by a header through the real nginx, Caddy, HAProxy and Apache, which set it or remove it.

What the server does with the header is in tests/api/test_auth_header.py.
"""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import proxies
from tests.support.process import Command, Serve

OWNER, OTHER = "owner@example.com", "other@example.com"
# How each proxy removes a header; the lines that set one are those of the Origin in tests/support/proxies.py.
REMOVED = {
    "caddy": ("header_up Origin ORIGIN", "header_up -Remote-Email"),
    "nginx": (f"proxy_set_header Origin {proxies.ORIGIN};", 'proxy_set_header Remote-Email "";'),
    "haproxy": ("http-request set-header Origin ORIGIN", "http-request del-header Remote-Email"),
    "apache2": ("RequestHeader set Origin ORIGIN", "RequestHeader unset Remote-Email"),
}
FORGED = (
    [("Remote-Email", OTHER)],
    [("remote-email", OTHER)],
    [("Remote-Email", OTHER), ("Remote-Email", OTHER)],
    [("Remote_Email", OTHER)],
    [("Remote-Email", OTHER), ("Connection", "Remote-Email")],
)
NOBODY = (401, "not_logged_in")


def asked(port: int, *headers: tuple[str, str]) -> tuple[int, Any]:
    """Return the status of GET /api/account, and whom it shows or its error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.putrequest("GET", "/api/account")
        for name, value in (("Sec-Fetch-Site", "same-origin"), *headers):
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        shown = json.loads(answer.read() or b"{}")
    finally:
        connection.close()
    return answer.status, shown.get("data", {}).get("email") or shown.get("error", {}).get("code")


@pytest.mark.parametrize("proxy", REMOVED)
def test_the_address_is_the_one_of_the_proxy(proxy: str, command: Command, serve: Serve, tmp_path: Path) -> None:
    """Whatever clients send beside it; without one of the proxy nobody is signed in."""
    for email in (OWNER, OTHER):
        created = command("account", "create", email, "--password-stdin", stdin="correct horse battery\n")
        assert created.returncode == 0, created.stderr
    server = serve("--auth-header", "Remote-Email", "--auth-header-from", "127.0.0.1")
    upstream = server.url.removeprefix("http://")
    before, removing = REMOVED[proxy]
    setting = before.replace("Origin ORIGIN", f"Remote-Email {OWNER}").replace(
        f"Origin {proxies.ORIGIN}", f"Remote-Email {OWNER}"
    )
    text = proxies.SHARING[proxy]
    assert text.count(before) == 1
    for name, line, expected in (("set", setting, (200, OWNER)), ("removed", removing, NOBODY)):
        front = proxies.Proxy(proxy, text.replace(before, line), upstream, tmp_path / name)
        try:
            assert asked(front.port) == expected
            for forged in FORGED:
                # Apache removes what Connection names after it has set it, so that nobody is signed in.
                is_named = proxy == "apache2" and forged[-1][0] == "Connection"
                assert asked(front.port, *forged) == (NOBODY if is_named else expected), forged
        finally:
            front.stop()
