"""Real reverse proxies in front of a real server: Caddy, nginx, HAProxy, Apache and Traefik.

The tests of a proxy that is not installed are skipped; with TALLY_MUST_PROXY=1, as in .ci/run, they fail, but for
those of DOWNLOADS.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

# The proxies set this Origin, which no website allows. So a stored event was in a request that the proxy did not
# recognise.
ORIGIN = "https://proxied.example"

# At most two connections to the server, so that clients share them.
CADDY = """{
  admin off
  auto_https off
}
http://:PORT {
  bind 127.0.0.1
  reverse_proxy UPSTREAM {
    header_up Origin ORIGIN
    transport http {
      max_conns_per_host 2
    }
  }
}
"""
# A single process, so that no worker remains when it is killed. LOCATION is replaced by a location block.
_NGINX = """daemon off;
master_process off;
USER
pid FOLDER/nginx.pid;
error_log FOLDER/error.log;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path FOLDER/body;
  proxy_temp_path FOLDER/proxy;
  fastcgi_temp_path FOLDER/fastcgi;
  uwsgi_temp_path FOLDER/uwsgi;
  scgi_temp_path FOLDER/scgi;
  upstream tally { server UPSTREAM; keepalive 2; }
  server {
    listen 127.0.0.1:PORT;
    LOCATION
  }
}
"""


def nginx(location: str) -> str:
    """Return a configuration of nginx with one location."""
    return _NGINX.replace("LOCATION", location)


NGINX = nginx(
    f"""location / {{
      proxy_pass http://tally;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header Origin {ORIGIN};
      proxy_request_buffering off;
    }}"""
)
HAPROXY = """defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  timeout queue 5s
frontend in
  bind 127.0.0.1:PORT
  default_backend tally
backend tally
  http-reuse always
  http-request set-header Origin ORIGIN
  server tally UPSTREAM maxconn 2
"""
# Without its configuration of Debian. -X below is a single process.
APACHE_BASE = (
    "".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"
        for name in ("mpm_event", "authz_core", "headers", "proxy", "proxy_http", "socache_shmcb", "ssl")
    )
    + """ServerRoot FOLDER
DefaultRuntimeDir FOLDER
PidFile FOLDER/pid
ErrorLog FOLDER/error.log
ServerName localhost
User www-data
Group www-data
Listen 127.0.0.1:PORT
"""
)
APACHE = (
    APACHE_BASE
    + """ProxyPreserveHost On
ProxyPass / http://UPSTREAM/ max=2
RequestHeader set Origin ORIGIN
"""
)
COMMANDS = {
    "apache2": ["apache2", "-X", "-f"],
    "caddy": ["caddy", "run", "--adapter", "caddyfile", "--config"],
    "nginx": ["nginx", "-p", "FOLDER", "-c"],
    "haproxy": ["haproxy", "-db", "-f"],
    "traefik": ["traefik", "--entrypoints.websecure.address=127.0.0.1:PORT", "--providers.file.filename"],
}
# A minimal configuration of nginx: no proxy_set_header, and HTTP/1.0 to the server.
BARE_NGINX = nginx("location / { proxy_pass http://UPSTREAM; }")
# The same with the defaults of nginx 1.29.7 and later: HTTP/1.1, no Connection header, the upstream's address as Host.
HIDDEN_NGINX = nginx(
    'location / { proxy_pass http://UPSTREAM; proxy_http_version 1.1; proxy_set_header Connection ""; }'
)
SHARING = {"caddy": CADDY, "nginx": NGINX, "haproxy": HAPROXY, "apache2": APACHE}
PACKAGES = "apt-get install caddy nginx-light haproxy apache2"
# What Debian does not have.
DOWNLOADS = {"traefik": "https://github.com/traefik/traefik/releases"}


class Proxy:
    """A reverse proxy in a process of its own, in front of `upstream` (host:port, or unix:path for nginx)."""

    def __init__(self, name: str, configuration: str, upstream: str, folder: Path) -> None:
        if shutil.which(name) is None:
            where = DOWNLOADS.get(name, PACKAGES)
            assert name in DOWNLOADS or not os.environ.get("TALLY_MUST_PROXY"), f"install {name}: {where}"
            pytest.skip(f"NOT TESTED: {name} is not installed ({where})")
        folder.mkdir()
        self._log = folder / "log"
        user = "user root;" if os.geteuid() == 0 else ""
        for _ in range(3):
            self.port = free_port()
            # Traefik goes by the ending.
            file = folder / "configuration.yaml"
            text = configuration.replace("UPSTREAM", upstream).replace("ORIGIN", ORIGIN).replace("USER", user)
            file.write_text(text.replace("PORT", str(self.port)).replace("FOLDER", str(folder)))
            words = [word.replace("FOLDER", str(folder)).replace("PORT", str(self.port)) for word in COMMANDS[name]]
            # Caddy stores certificates and its last configuration in these directories.
            environment = os.environ | {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
            with self._log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*words, str(file)], stdout=log, stderr=log, env=environment, cwd=folder
                )
            if self._answers():
                return
        raise AssertionError(f"{name} did not start: {self.log()[-3000:]}")

    def _answers(self) -> bool:
        deadline = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            except OSError:
                time.sleep(0.02)
        self.stop()
        return False

    def log(self) -> str:
        """Return what the proxy has printed."""
        return self._log.read_text()

    def stop(self) -> None:
        """Kill the proxy."""
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
