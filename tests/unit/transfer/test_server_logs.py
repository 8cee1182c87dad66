"""Access logs that real servers write, in formats that their configurations name, are imported by the command."""

import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from tally.transfer import values
from tally.transfer.records import Skip
from tests.support.cases import cases
from tests.support.imports import Imports
from tests.support.proxies import APACHE_BASE, Proxy, nginx
from tests.unit.transfer.test_access_log import CHROME, GOOGLEBOT


class Sent(NamedTuple):
    """A request: path, User-Agent and referrer, and whether it is a pageview of a browser."""

    path: str
    agent: str
    referrer: str
    is_view: bool


FORWARDED = "203.0.113.9, 10.0.0.1"
SENT = (
    Sent("/a?utm_source=letter", CHROME, "https://r.example/", True),
    Sent("/quotes", CHROME + ' "x" y', 'https://q.example/?a="b c" d', True),
    Sent("/caf%C3%A9", CHROME, "https://xn--9ca.example/\\x", True),
    Sent("/bot", GOOGLEBOT, "https://r.example/", False),
    Sent("/bot-with-quotes", GOOGLEBOT, 'https://q.example/?a="b" "c"', False),
    Sent("/style.css", CHROME, "", False),
)
VIEWS = ("/a", "/quotes", "/caf%C3%A9")
ORDER = {path: number for number, path in enumerate(VIEWS)}
# Formats that have no host, though their names do, and those with X-Forwarded-For.
WITHOUT_HOST = ("json_msec", "json_default")
WITH_FORWARDED = ("main", "forwarded", "caddy")


def send(port: int) -> None:
    for path, agent, referrer, _ in SENT:
        lines = [f"GET {path} HTTP/1.1", "Host: shop.example.com", f"User-Agent: {agent}", "Connection: close"]
        lines += [f"Referer: {referrer}"] if referrer else []
        lines += [f"X-Forwarded-For: {FORWARDED}", "Accept-Language: de-DE", "", ""]
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall("\r\n".join(lines).encode())
            while connection.recv(65_536):
                pass


@contextmanager
def log_of(name: str, configuration: str, folder: Path) -> Iterator[Path]:
    """Yield the directory with the logs of a server that got the requests."""
    proxy = Proxy(name, configuration, "127.0.0.1:9", folder)
    try:
        send(proxy.port)
    finally:
        # Servers write a line after the response; a killed one loses what it has buffered, which these do not.
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not is_complete(folder):
            time.sleep(0.02)
        proxy.stop()
    yield folder


def is_complete(folder: Path) -> bool:
    logs = [*folder.glob("*.access")] or [folder / "log"]
    return all(path.read_bytes().count(b"style.css") == 1 and path.read_bytes().endswith(b"\n") for path in logs)


COMMON = "$remote_addr - $remote_user [$time_local]"
AFTER = '"$request" $status $body_bytes_sent'
FROM = '"$http_referer" "$http_user_agent"'
NGINX = {
    "combined": f"'{COMMON} {AFTER} {FROM}'",
    "main": f"""'{COMMON} {AFTER} {FROM} "$http_x_forwarded_for"'""",
    "request_time": f"'{COMMON} {AFTER} $request_time {FROM}'",
    "times": f"""'{COMMON} {AFTER} rt=$request_time uct="$upstream_connect_time" {FROM} $request_length'""",
    "host": f"'$host {COMMON} {AFTER} {FROM}'",
    "quoted_host": f"""'"$host" {COMMON} {AFTER} {FROM}'""",
    "host_after": f"'{COMMON} $host {AFTER} {FROM}'",
    "ovh": f"'$remote_addr $host $remote_user [$time_local] {AFTER} {FROM}'",
    "forwarded": f"'$http_x_forwarded_for - $remote_user [$time_local] {AFTER} {FROM}'",
    "swapped": f"""'{COMMON} {AFTER} "$http_user_agent" "$http_referer"'""",
    "iso": f"'$remote_addr - $remote_user [$time_iso8601] {AFTER} {FROM}'",
    "json": """escape=json '{"time_local":"$time_local","remote_addr":"$remote_addr","request":"$request",'
      '"status":"$status","body_bytes_sent":"$body_bytes_sent","request_time":"$request_time",'
      '"http_referrer":"$http_referer","http_user_agent":"$http_user_agent","host":"$host"}'""",
    "json_msec": """escape=json '{"ts":$msec,"client_ip":"$remote_addr","method":"$request_method",'
      '"uri":"$request_uri","status":$status,"size":$bytes_sent,"referer":"$http_referer",'
      '"user_agent":"$http_user_agent","type":"$sent_http_content_type"}'""",
    "json_default": """'{"time":"$time_iso8601","remote_addr":"$remote_addr","method":"$request_method","uri":"$uri",'
      '"args":"$args","status":$status,"referrer":"$http_referer","user_agent":"$http_user_agent"}'""",
}


def test_logs_of_nginx(imports: Imports) -> None:
    logs = "".join(
        f"log_format {name}_ {text};\n  access_log FOLDER/{name}.access {name}_;\n  " for name, text in NGINX.items()
    )
    configuration = nginx('location / { return 200 "page"; }').replace("access_log off;", logs)
    with log_of("nginx", configuration, imports.directory / "nginx") as folder:
        for name in NGINX:
            check(imports, folder / f"{name}.access", name)


# %b and %O are sizes, %D microseconds.
APACHE = {
    "combined": r'"%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""',
    "vhost_combined": r'"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""',
    "duration": r'"%h %l %u %t \"%r\" %>s %b %D \"%{Referer}i\" \"%{User-Agent}i\""',
    "forwarded": r'"%{X-Forwarded-For}i %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""',
    "json": r'"{ \"time\":\"%{%Y-%m-%dT%T%z}t\", \"remoteIP\":\"%a\", \"host\":\"%V\", \"request\":\"%U\",'
    r" \"query\":\"%q\", \"method\":\"%m\", \"status\":\"%>s\", \"userAgent\":\"%{User-agent}i\","
    r' \"referer\":\"%{Referer}i\" }"',
}


def test_logs_of_apache(imports: Imports) -> None:
    configuration = APACHE_BASE.replace("ServerName localhost", "ServerName shop.example.com")
    configuration += "LoadModule rewrite_module /usr/lib/apache2/modules/mod_rewrite.so\n"
    configuration += "RewriteEngine On\nRewriteRule ^ - [R=200]\n"
    configuration += "".join(f"CustomLog FOLDER/{name}.access {text}\n" for name, text in APACHE.items())
    with log_of("apache2", configuration, imports.directory / "apache") as folder:
        for name in APACHE:
            check(imports, folder / f"{name}.access", name)


CADDY = """{
  admin off
  auto_https off
}
http://:PORT {
  bind 127.0.0.1
  log {
    output file FOLDER/caddy.access
    format json
  }
  header Content-Type text/html
  respond "page"
}
"""
# HAProxy drops a line that a thread cannot write because another one writes.
HAPROXY = """global
  nbthread 1
  log stdout format raw local0
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend in
  bind 127.0.0.1:PORT
  log global
  option httplog clf
  capture request header User-Agent len 500
  capture request header Referer len 500
  http-request return status 200 content-type text/html string "page"
"""


@cases(("name", "configuration"), [("caddy", CADDY), ("haproxy", HAPROXY)])
def test_logs_of_other_servers(imports: Imports, name: str, configuration: str) -> None:
    with log_of(name, configuration, imports.directory / name) as folder:
        check(imports, folder / ("caddy.access" if name == "caddy" else "log"), name)


def check(imports: Imports, log: Path, name: str) -> None:
    """Compare the pageviews of a log, and what is skipped, with the requests."""
    items = imports.items("access-log", log.read_bytes())
    # Some variables of servers are decoded paths, and some servers write a line later than that of the next request.
    views = sorted(
        (item for item in items if isinstance(item, dict) and item["type"] == "pageview"),
        key=lambda view: ORDER.get(quote(view["pathname"], safe="/%"), -1),
    )
    shown = name, log.read_text("utf-8", "replace"), items
    assert [quote(view["pathname"], safe="/%") for view in views] == list(VIEWS), shown
    assert {one["browser"] for one in views} == {"Chrome"}, shown
    assert [values.referrer(one["referrer"]) for one in views] == ["r.example", "q.example", "xn--9ca.example"], shown
    assert views[0]["utm_source"] == "letter", shown
    # Whether the server is up is asked by a connection without a request.
    skipped = Counter(item.reason for item in items if isinstance(item, Skip) and "GET" not in item.reason)
    assert skipped == {"assets": 1}, shown
    crawls = [item for item in items if isinstance(item, dict) and item["type"] == "crawler_day"]
    assert [item["crawler"] for item in crawls] == ["Googlebot"] * 2, shown
    has_host = any(word in name for word in ("host", "ovh", "json", "caddy"))
    assert {one["hostname"] for one in views} <= {"shop.example.com", "example.com"}, shown
    assert (views[0]["hostname"] == "shop.example.com") == (has_host and name not in WITHOUT_HOST), shown
    if name in WITH_FORWARDED:
        assert all(one["visitor"].startswith("203.0.113.9 ") for one in views), shown
