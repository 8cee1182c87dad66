"""Files for Compose, ClickHouse, Kubernetes, Fly.io, Render and systemd: their variables, paths and ports are those of
the server.

Their form is checked by .ci/deploy_forms.py. Those for Compose, Kubernetes, Fly.io and Render are not run.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import trustme
import yaml

from tally.events.client import parse_proxies
from tally.settings import ENVIRONMENT_PREFIX, Settings, settings_from
from tally.web.routes import ROUTES
from tests.support.app import ROOT
from tests.support.cases import cases
from tests.support.process import Serve, clean_environment

DEPLOY, PAGES = ROOT / "deploy", ROOT / "docs" / "deployment"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
IMAGE = dict(re.findall(r"(ANALYTICS_\w+)=(\S+)", DOCKERFILE))
USER = 10001


def block(page: str, language: str) -> str:
    """Return the blocks of a page in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", (PAGES / page).read_text(), re.M | re.S)
    assert found
    return "".join(found)


def compose(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / name).read_text()))


KUBERNETES = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
POD = KUBERNETES["StatefulSet"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
FLY, RENDER = tomllib.loads(block("hosting.md", "toml")), yaml.safe_load(block("hosting.md", "yaml"))["services"][0]


def variables(text: str) -> dict[str, str]:
    """Return the variables of a file of NAME=VALUE lines."""
    return dict(re.findall(r"^(ANALYTICS_\w+)=(.*)$", text, re.M))


CLUSTER: dict[str, Any] = compose("clickhouse/compose.yaml")["services"]


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "compose.yaml": compose("compose.yaml")["services"]["tally"]["environment"],
    "compose.caddy.yaml": compose("compose.caddy.yaml")["services"]["tally"]["environment"],
    **{f"clickhouse {name}": service["environment"] for name, service in CLUSTER.items() if name.startswith("tally")},
    "kubernetes.yaml": {one["name"]: one["value"] for one in CONTAINER["env"]},
    "Fly.io": FLY["env"],
    "Render": {one["key"]: one["value"] for one in RENDER["envVars"]},
    **{
        page: variables(block(page, "ini"))
        for page in ("cloudflare.md", "first-party.md", "systemd.md", "tls.md", "acme.md", "debian.md")
    },
}


@cases("name", ENVIRONMENTS)
def test_variables_are_settings(name: str) -> None:
    given = {key: re.sub(r"\$\{\w+[^}]*\}", "stats.example.com", value) for key, value in ENVIRONMENTS[name].items()}
    assert given
    assert given.pop("PORT", IMAGE["ANALYTICS_PORT"]) == IMAGE["ANALYTICS_PORT"], "Render sends requests to PORT"
    assert {key for key in given if not key.startswith(ENVIRONMENT_PREFIX)} == set()
    parse_proxies(settings_from({}, IMAGE | given).trusted_proxy)


def test_ports_paths_and_users_are_those_of_the_image() -> None:
    settings, port = settings_from({}, IMAGE), int(IMAGE["ANALYTICS_PORT"])
    data = str(settings.db.parent)
    assert f"USER {USER}:{USER}\n" in DOCKERFILE
    for name in ("compose.yaml", "compose.caddy.yaml"):
        services = compose(name)["services"]
        tally = services["tally"]
        assert tally["volumes"] == [f"tally:{data}"]
        assert (tally["read_only"], tally["cap_drop"]) == (True, ["ALL"])
        assert (DEPLOY / tally["build"]["context"] / tally["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
        assert tally.get("ports", [f"127.0.0.1:{port}:{port}"]) == [f"127.0.0.1:{port}:{port}"]
        for volume in services.get("caddy", {}).get("volumes", []):
            assert not volume.startswith("./") or (DEPLOY / volume.split(":")[0]).is_file()
    assert f"tally:{port}" in (DEPLOY / "Caddyfile").read_text()
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": port}]
    assert [mount["mountPath"] for mount in CONTAINER["volumeMounts"]] == [data]
    security = POD["securityContext"]
    assert [security[name] for name in ("runAsUser", "runAsGroup", "fsGroup")] == [USER] * 3
    assert KUBERNETES["StatefulSet"]["spec"]["replicas"] == RENDER["numInstances"] == 1
    assert FLY["http_service"]["internal_port"] == port
    assert FLY["mounts"]["destination"] == RENDER["disk"]["mountPath"] == data
    for path in (FLY["build"]["dockerfile"], RENDER["dockerfilePath"]):
        assert (ROOT / path).is_file()


def test_the_parts_of_a_cluster_know_each_other() -> None:
    """deploy/clickhouse: names, ports, variables and volumes. tests/cluster/test_replicas.py and
    tests/robustness/test_standby_proxy.py start programs with these files."""
    folder = DEPLOY / "clickhouse"
    server, users = (ElementTree.parse(folder / name / "tally.xml").getroot() for name in ("config.d", "users.d"))
    machines = {name: one for name, one in CLUSTER.items() if name.startswith("clickhouse")}
    tallies = {name: one for name, one in CLUSTER.items() if name.startswith("tally")}
    quorum = [(one.findtext("id"), one.findtext("hostname")) for one in server.iter("server")]
    assert quorum == [(one["environment"]["TALLY_NUMBER"], name) for name, one in machines.items()]
    assert [node.findtext("host") for node in server.iter("node")] == list(machines)
    assert {node.findtext("port") for node in server.iter("node")} == {server.findtext("keeper_server/tcp_port")}
    read = {one.attrib["from_env"] for root in (server, users) for one in root.iter() if "from_env" in one.attrib}
    assert server.findtext("macros/shard")
    for name, one in machines.items():
        assert one["hostname"] == one["environment"]["TALLY_NAME"] == name
        assert set(one["environment"]) == read
    assert users.findtext("users/tally/grants/query") == f"GRANT ALL ON {Settings().cluster_name}.*"
    password = "${TALLY_CLICKHOUSE_PASSWORD}"
    for name, one in tallies.items():
        settings = settings_from(
            {}, {"ANALYTICS_CLICKHOUSE": one["environment"]["ANALYTICS_CLICKHOUSE"].replace(password, "x")}
        )
        assert settings.clickhouse == tuple(f"http://tally:x@{machine}:8123" for machine in machines)
        assert f" {name} {name}:{IMAGE['ANALYTICS_PORT']} check" in (folder / "haproxy.cfg").read_text()
        assert (folder / one["build"]["context"] / one["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    volumes = [volume.split(":")[0] for one in CLUSTER.values() for volume in one["volumes"]]
    files = {volume for volume in volumes if volume.startswith("./")}
    assert all((folder / file).is_file() for file in files)
    assert set(volumes) - files == set(compose("clickhouse/compose.yaml")["volumes"])


def test_probes_ask_for_routes() -> None:
    probes = [CONTAINER["startupProbe"], CONTAINER["livenessProbe"]]
    paths = {one["httpGet"]["path"] for one in probes} | {RENDER["healthCheckPath"]}
    paths |= {one["path"] for one in FLY["http_service"]["checks"]}
    assert "/healthz" in paths
    assert paths <= {route.path for route in ROUTES if route.method == "GET"}


@pytest.mark.parametrize("has_tls", [False, True])
def test_the_health_check_of_the_image(has_tls: bool, serve: Serve, tmp_path: Path) -> None:
    match = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.M)
    assert match is not None
    words = [sys.executable, *json.loads(match[1])[1:]]
    files = {"cert": tmp_path / "cert.pem", "key": tmp_path / "key.pem"}
    issued = trustme.CA().issue_cert("stats.example.com")
    issued.cert_chain_pems[0].write_to_path(files["cert"])
    issued.private_key_pem.write_to_path(files["key"])
    tls = {f"ANALYTICS_TLS_{name.upper()}": str(path) for name, path in files.items()} if has_tls else {}
    server = serve(env=tls)
    environment = tls | {"ANALYTICS_PORT": server.url.rpartition(":")[2]}
    assert subprocess.run(words, env=clean_environment(**environment)).returncode == 0
    server.terminate()
    assert subprocess.run(words, env=clean_environment(**environment), stderr=subprocess.DEVNULL).returncode != 0


def test_defaults_that_pages_name() -> None:
    """docs/deployment/cloudflare.md and tls.md: loopback is trusted already."""
    assert Settings().trusted_proxy == ("127.0.0.0/8", "::1/128")
