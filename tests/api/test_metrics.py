"""/metrics: the figures on both request paths, labels with a bounded number of values, and the documentation.

Permissions are tested in tests/api/test_read_errors.py.
"""

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tally import errors
from tally.api.reports import REPORTS
from tally.latency_histogram import Histogram
from tally.web.routes import ROUTES
from tests.support.aged_database import built_database, sql
from tests.support.app import ROOT, App, MakeApp
from tests.support.process import Serve, Server

NAMES = [report.name for report in REPORTS]
HIGH_LIMITS = ("--client-per-minute=1000000", "--website-per-minute=1000000")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CANARY")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """Return every sample of a Prometheus text, by its name and labels."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}
    assert len(found) == len(samples), "a sample occurs twice"
    return found


async def read_metrics(app: App) -> Samples:
    return parsed((await app.get("/metrics")).text)


def requests(samples: Samples) -> dict[tuple[str, str, str], float]:
    return {
        tuple(value for _, value in labels): number  # type: ignore[misc]
        for (name, labels), number in samples.items()
        if name == "tally_requests_total" and ("route", "/metrics") not in labels
    }


def codes(samples: Samples, name: str) -> dict[str, float]:
    return {labels[0][1]: number for (found, labels), number in samples.items() if found == name}


def one(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def view(website: str) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": "https://example.com/"}


# Histograms


@given(st.lists(st.integers(0, 40)))
def test_a_histogram_counts_each_value_once(numbers: list[int]) -> None:
    """In Prometheus a bucket `le` contains the values less than or equal to its bound."""
    histogram = Histogram((1, 5, 20))
    for number in numbers:
        histogram.add(number)
    assert (histogram.count, histogram.total) == (len(numbers), sum(numbers))
    for n, bound in enumerate(histogram.bounds):
        assert sum(histogram.counts[: n + 1]) == sum(number <= bound for number in numbers)


async def test_histograms_have_the_format_of_prometheus(app: App) -> None:
    website, key = await app.website(), await app.key()
    for events in (1, 1, 5, 6, 50):
        body = {"website_id": website, "events": [view(website)] * events}
        assert (await app.collect(body)).status == 202
    for _ in range(3):
        assert (await app.get(f"/api/v1/websites/{website}/stats", key)).status == 200
    samples = await read_metrics(app)
    bounds = {labels[0][1]: n for (name, labels), n in samples.items() if name == "tally_commit_events_bucket"}
    assert bounds == {"1": 2, "5": 3, "20": 4, "100": 5, "500": 5, "2000": 5, "+Inf": 5}
    assert one(samples, "tally_commit_events_count") == one(samples, "tally_commit_seconds_count") == 5
    assert one(samples, "tally_commit_events_sum") == 63
    for endpoint in NAMES:
        assert one(samples, "tally_query_seconds_count", endpoint=endpoint) == (3 if endpoint == "stats" else 0)
        assert one(samples, "tally_query_seconds_bucket", endpoint=endpoint, le="+Inf") == (
            3 if endpoint == "stats" else 0
        )


# Requests


async def test_requests_by_route_and_status(app: App) -> None:
    website, key = await app.website(), await app.key()
    stats = "/api/v1/websites/{id}/stats"
    for path, given_key in ((website, key), (website, None), ("0" * 36, key), (f"{website}?from=x", key)):
        await app.get(f"/api/v1/websites/{path.replace('?', '/stats?') if '?' in path else path + '/stats'}", given_key)
    await app.get(f"/api/v1/websites/{website}/stats", key, method="HEAD")
    await app.get(f"/api/v1/websites/{website}/stats", method="OPTIONS")
    await app.get(f"/api/v1/websites/{website}/stats", method="DELETE")
    await app.get("/nowhere")
    await app.collect(view(website))
    await app.collect(view(website), path="/api/v1/collect")
    await app.collect(view(website) | {"url": "x"})
    await app.collect("{")
    samples = await read_metrics(app)
    assert requests(samples) == {
        ("GET", stats, "2xx"): 1,
        ("GET", stats, "4xx"): 3,
        ("HEAD", stats, "2xx"): 1,
        ("OPTIONS", stats, "2xx"): 1,
        ("none", "none", "4xx"): 2,
        ("POST", "/api/collect", "2xx"): 2,
        ("POST", "/api/collect", "4xx"): 2,
    }
    assert codes(samples, "tally_requests_refused_total") == {
        **{"missing_api_key": 1, "unknown_website": 1, "invalid_parameter": 1, "method_not_allowed": 1, "not_found": 1},
        **{"no_valid_event": 1, "invalid_json": 1},
    }
    assert codes(samples, "tally_events_rejected_total") == {"invalid_url": 1}
    assert one(samples, "tally_events_accepted_total") == 2


async def test_a_custom_path_counts_as_collect(make_app: MakeApp) -> None:
    app = await make_app(collect_path="/js/send")
    website = await app.website()
    assert (await app.collect(view(website), path="/js/send")).status == 202
    assert requests(await read_metrics(app)) == {("POST", "/api/collect", "2xx"): 1}


async def test_a_rejected_pixel_request_is_counted(app: App) -> None:
    assert (await app.get("/pixel.gif", params={"website_id": "0" * 36})).status == 200
    samples = await read_metrics(app)
    assert requests(samples) == {("GET", "/pixel.gif", "2xx"): 1}
    assert sum(codes(samples, "tally_requests_refused_total").values()) == 1


async def test_a_bug_is_5xx(app: App) -> None:
    website = await app.website()
    poison = "create trigger poison before insert on event begin select raise(abort, 'poisoned'); end"
    await app.admin(lambda connection: connection.execute(poison))
    assert (await app.collect(view(website))).status == 500
    samples = await read_metrics(app)
    assert requests(samples) == {("POST", "/api/collect", "5xx"): 1}
    assert codes(samples, "tally_requests_refused_total") == {"internal_error": 1}
    assert one(samples, "tally_commits_failed_total") == 1


def plain(server: Server, path: str, body: bytes) -> int:
    """Send a request in one piece, as browsers do, and return the status."""
    at = urlsplit(server.url)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection((at.hostname, at.port), timeout=60) as client:
        client.sendall(head + body)
        return int(client.recv(65_536).split()[1])


def test_both_paths_are_counted(serve: Serve, tmp_path: Any) -> None:
    """A plain POST takes the fast path (tally/ingest/fast_path.py); one whose events are rejected does not."""
    server = serve(*HIGH_LIMITS, db=built_database(tmp_path / "data"))
    website = sql(server.db, "select id from website")[0][0]
    good = b'{"type":"pageview","website_id":"%b","url":"https://1.example.com/"}' % website.encode()
    for path in ("/api/collect", "/api/v1/collect"):
        assert plain(server, path, good) == 202
        assert server.request("POST", path, good).status == 202
        assert plain(server, path, good.replace(b"https", b"")) == 400
    sql(server.db, "create trigger poison before insert on event begin select raise(abort, 'poisoned'); end")
    assert plain(server, "/api/collect", good) == 500
    samples = parsed(server.request("GET", "/metrics").text)
    assert requests(samples) == {
        ("POST", "/api/collect", "2xx"): 4,
        ("POST", "/api/collect", "4xx"): 2,
        ("POST", "/api/collect", "5xx"): 1,
    }
    assert codes(samples, "tally_requests_refused_total") == {"no_valid_event": 2, "internal_error": 1}
    assert one(samples, "tally_events_accepted_total") == 4
    assert one(samples, "tally_database_bytes") == server.db.stat().st_size
    assert one(samples, "tally_log_bytes") > 0
    assert one(samples, "tally_disk_free_bytes") > 0
    assert one(samples, "process_resident_memory_bytes") > 10_000_000
    assert one(samples, "tally_connections") == 1
    assert one(samples, "tally_storage_state", state="well") == 1
    # The database file is deleted while the server runs.
    server.db.rename(server.db.with_name("elsewhere.db"))
    samples = parsed(server.request("GET", "/metrics").text)
    assert one(samples, "tally_database_bytes") == 0
    states = {labels[0][1]: number for (name, labels), number in samples.items() if name == "tally_storage_state"}
    assert [state for state, number in states.items() if number] == ["missing"]


# Labels


KNOWN_CODES = {kind.code for kind in vars(errors).values() if isinstance(kind, errors.Kind)}


async def odd_requests(app: App, canary: str) -> None:
    """Send requests with the canary in every part."""
    website, key = await app.website(), await app.key()
    paths = [f"/{canary}", f"/api/v1/websites/{canary}/stats", f"/api/v1/websites/{website}/top/{canary}"]
    paths += [f"/api/v1/websites/{website}/{canary}", f"/assets/{canary}", f"/share/{canary}", f"/tracker/{canary}.js"]
    paths += [f"/api/v1/websites/{website}/stats?{canary}={canary}&filter_{canary}=1", f"/api/share/{canary}/stats"]
    headers = {"User-Agent": canary, "Referer": f"https://{canary}.example/", "X-Forwarded-For": canary}
    for path in paths:
        for method in METHODS:
            await app.get(path, key, headers=headers, method=method)
    event = view(website)
    for body in (
        *({canary: canary}, event | {"type": canary}, event | {"website_id": canary}, event | {canary: 1}),
        *(event | {"url": canary}, event | {"event_data": {canary: canary}}, {"events": [canary]}, [canary], canary),
        {"type": "vitals", "website_id": website, "vitals": {canary: 1}},
    ):
        await app.collect(body, headers=headers | {"Origin": f"https://{canary}.example"})
        await app.collect(body)


async def test_requests_cannot_create_labels(app: App) -> None:
    """The number of label values is bounded by the code, so clients cannot fill the memory of a metrics server."""
    await odd_requests(app, "canary-one")
    await read_metrics(app)
    before = await read_metrics(app)
    await odd_requests(app, "canary-two")
    after = await read_metrics(app)
    assert after.keys() == before.keys(), "requests with other texts create no other series"
    assert "canary" not in str(after).lower()
    routes = {route.path for route in ROUTES} | {"none"}
    for (name, labels), _ in after.items():
        label_values = dict(labels)
        assert label_values.get("route", "none") in routes
        assert label_values.get("method", "none") in {"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "none"}
        assert label_values.get("endpoint", "stats") in NAMES
        assert label_values.get("class", "link") in {"account", "link"}
        if name == "tally_requests_refused_total":
            assert label_values["code"] in KNOWN_CODES
        assert set(label_values) <= {
            "route",
            "method",
            "status",
            "endpoint",
            "class",
            "code",
            "le",
            "state",
            "field",
            "list",
            "percent",
            "version",
            "sqlite",
            "python",
        }


# Documentation


async def test_every_metric_is_documented(make_app: MakeApp, tmp_path: Any) -> None:
    (tmp_path / "backups").mkdir()
    app = await make_app(backup_dir=tmp_path / "backups")
    await app.node.tick()
    while "tally_backup_seconds" not in (text := (await app.get("/metrics")).text):
        await app.node.tick()
    page = (ROOT / "docs" / "monitoring.md").read_text()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE tally_")}
    assert len(names) > 25
    undocumented = sorted(name for name in names if f"`{name}`" not in page)
    assert undocumented == [], f"add a row to docs/monitoring.md for: {undocumented}"


@pytest.mark.parametrize("kind", ["counter", "gauge", "histogram"])
async def test_every_metric_has_a_type(kind: str, app: App) -> None:
    families = list(text_string_to_metric_families((await app.get("/metrics")).text))
    assert [family for family in families if family.type == kind]
    assert [family.name for family in families if not family.documentation or family.type == "unknown"] == []
