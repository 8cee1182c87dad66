"""The clients of clients/ against a real server: every operation that an API key may call, events, attempts, errors.

The client for Python runs in a thread, that for Node.js as a process. Both call the application in this process, or
its recording proxy (tests/browser/customer_site.py) where a response has to be dropped.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tally_client import CollectClient, ManageClient, ReadClient, TallyError, Visitor
from tally_client.connection import VERSION

from clients.generate import CLIENTS, DOCUMENT, FILES, management, operations, snake
from tally.accounts.api_keys import Grant
from tally.http.request_paths import MANAGED_PATHS, READ_PATHS
from tests.browser.customer_site import RecordingProxy, Reply, age_s
from tests.browser.test_compat_packages import package
from tests.support.app import NOON_MS, ROOT, SAFARI_IPHONE, App, MakeApp, ManualClock
from tests.support.endpoints import ENDPOINTS
from tests.support.process import until

GERMAN = "91.64.0.1"

# Operation: arguments of the path, parameters, filters, and the request that they are.
CALLS: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any], str]] = {
    "listWebsites": ((), {"stats": "7d"}, {}, "?stats=7d"),
    **{
        endpoint.operation["operationId"]: (endpoint.arguments, *endpoint.given(), endpoint.request)
        for endpoint in ENDPOINTS
    },
}
# What owners save.
EMPTY = {"getGoalsReport"} | {endpoint.operation["operationId"] for endpoint in ENDPOINTS if endpoint.is_saved}


async def node(script: str, *arguments: Any) -> Any:
    """Return what a script gives that has the client as `client` and its arguments as `given`."""
    text = (
        f"import * as client from {json.dumps(str(CLIENTS / 'js' / 'index.js'))};"
        "const given = JSON.parse(process.argv[1]);"
        f"console.log(JSON.stringify(await (async () => {{ {script} }})()));"
    )
    if shutil.which("node") is None:
        assert not os.environ.get("TALLY_MUST_PACKAGES"), "install Node.js"
        pytest.skip("NOT TESTED: Node.js is not installed")
    process = await asyncio.create_subprocess_exec(
        *("node", "--input-type=module", "-e", text, json.dumps(arguments)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


def address(app: App) -> str:
    return str(app.client.make_url("")).rstrip("/")


@pytest.mark.parametrize("name", FILES)
def test_generated_files_are_current(name: str) -> None:
    if name.startswith("js/"):
        package("prettier")
    assert (CLIENTS / name).read_text() == FILES[name](), f"clients/{name} is out of date: python clients/generate.py"


@pytest.mark.slow
def test_the_npm_package(tmp_path: Path) -> None:
    """The files of `npm pack`, and a program that uses the types to which package.json refers."""
    tools = package("typescript").parent
    command = ["npm", "pack", "--json", "--pack-destination", str(tmp_path)]
    done = subprocess.run(command, cwd=CLIENTS / "js", capture_output=True, text=True, check=True)
    [packed] = json.loads(done.stdout)
    assert sorted(file["path"] for file in packed["files"]) == [
        *("LICENSE", "README.md", "browser.d.ts", "browser.js", "index.d.ts", "index.js", "operations.js"),
        *("package.json", "schema.d.ts"),
    ]
    installed = tmp_path / "node_modules" / packed["name"]
    with tarfile.open(tmp_path / packed["filename"]) as archive:
        archive.extractall(tmp_path, filter="data")
    installed.parent.mkdir()
    (tmp_path / "package").rename(installed)
    shutil.copy(ROOT / "tests" / "js" / "client_sample.ts", tmp_path / "sample.mts")
    command = [str(tools / ".bin" / "tsc"), "--noEmit", "--strict", "--target", "ES2022", "--module", "NodeNext"]
    done = subprocess.run([*command, "sample.mts"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_clients_have_the_license_and_one_version() -> None:
    text = (CLIENTS / "python" / "pyproject.toml").read_text()
    versions = {json.loads((CLIENTS / "js" / "package.json").read_text())["version"], VERSION}
    assert versions == {tomllib.loads(text)["project"]["version"]}
    for name in ("js", "python"):
        assert (CLIENTS / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


async def test_every_operation(app: App) -> None:
    website, key = await app.website(), await app.key()
    common: dict[str, Any] = {"website_id": website, "session_id": "session-of-ann"}
    events: list[dict[str, Any]] = [
        {"type": "pageview", "url": "https://example.com/pricing"},
        {
            "type": "event",
            "event_name": "signup",
            "event_data": {"the plan": "pro"},
            "url": "https://example.com/docs/b",
        },
        {"type": "pageview", "url": "https://example.com/docs/b"},
        {"type": "vitals", "url": "https://example.com/docs/b", "vitals": {"cls": 0.02}},
        {"type": "heatmap", "url": "https://example.com/docs/a%20b", "viewport_width": 1440, "x": 0.5, "y": 30},
        {"type": "ab_assign", "experiment": "button", "variant": "green"},
        {"type": "pageview", "url": "nowhere"},
    ]
    answer = await app.collect({"events": [common | one for one in events]}, ip=GERMAN)
    assert (answer.status, answer.json["rejected"]) == (202, 1)
    # On the day before more visitors, of another page.
    old = {
        "type": "pageview",
        "website_id": website,
        "url": "https://example.com/old",
        "timestamp": NOON_MS - 86_400_000,
    }
    answer = await app.collect({"events": [old | {"session_id": f"session-{n}"} for n in range(40)]}, ip=GERMAN)
    assert answer.status == 202, answer.text
    await app.node.tick()  # stores the count of rejected events
    assert {one["operationId"] for _, one in operations()} == set(CALLS)
    expected = {}
    for name, (_, _, _, request) in CALLS.items():
        at = "" if name == "listWebsites" else f"/{website}"
        response = await app.get(f"/api/v1/websites{at}{request}", key)
        assert response.status == 200, response.text
        expected[name] = response.json
        assert name in EMPTY or response.json["data"], name

    def by_python() -> dict[str, Any]:
        reader, answers = ReadClient(address(app), key), {}
        for name, (path, parameters, filters, _) in CALLS.items():
            given = {("from_" if key == "from" else key): value for key, value in parameters.items()}
            given |= {"filters": filters} if filters else {}
            own = [] if name == "listWebsites" else [website]
            answers[name] = getattr(reader, snake(name))(*own, *path, **given)
        return answers

    by_node = """
        const [url, apiKey, website, calls] = given;
        const reader = new client.ReadClient({ url, apiKey });
        const answers = {};
        for (const [name, [path, parameters, filters]] of Object.entries(calls)) {
          const own = name === "listWebsites" ? [] : [website];
          answers[name] = await reader[name](...own, ...path, { ...parameters, filters });
        }
        return answers;
    """
    assert await asyncio.to_thread(by_python) == expected
    assert await node(by_node, address(app), key, website, CALLS) == expected


CHANGES: dict[str, list[Any]] = {
    "createAnnotation": [{"from": "2026-11-20", "text": "Launch"}],
    "updateWebsite": [{"name": "Shop"}],
    "createShareLink": [{"name": "Readers", "badges": True}],
    "beginUpload": [{"name": "e.ndjson", "format": "tally", "size": 4}],
    "removeUpload": [],
}


def test_every_other_operation_is_in_both_clients() -> None:
    """Those of the management API and of imports."""
    documented = {
        one["operationId"]
        for path, methods in DOCUMENT["paths"].items()
        for method, one in methods.items()
        if path.startswith((READ_PATHS, *MANAGED_PATHS)) and (method != "get" or one["operationId"] not in CALLS)
    }
    assert {one["operationId"] for _, _, one in management()} == documented
    assert len(documented) > 20
    assert {snake(name) for name in documented} <= set(dir(ManageClient))


async def test_management(app: App) -> None:
    """Both clients do the same, with bodies, with none, and with a part of a file."""
    website, key = await app.website(), await app.key(grant=Grant(("manage", "import")))

    def by_python() -> Any:
        client = ManageClient(address(app), key)
        answers = [getattr(client, snake(name))(website, *given) for name, given in CHANGES.items()]
        client.begin_upload(website, {"name": "e.ndjson", "format": "tally", "size": 4})
        answers.append(client.add_piece(website, 0, b"\x00{}\n")["data"]["upload"]["received"])
        answers.append(client.remove_upload(website)["data"]["upload"])
        try:
            client.delete_website(website, {"domain": "other.example"})
        except TallyError as error:
            answers.append([error.status, error.code, error.field])
        return answers

    by_node = """
        const [url, apiKey, website, changes] = given;
        const manage = new client.ManageClient({ url, apiKey });
        const answers = [];
        for (const [name, own] of Object.entries(changes)) {
          answers.push((await manage[name](website, ...own)) ?? null);
        }
        await manage.beginUpload(website, { name: "e.ndjson", format: "tally", size: 4 });
        answers.push((await manage.addPiece(website, 0, new Uint8Array([0, 123, 125, 10]))).data.upload.received);
        answers.push((await manage.removeUpload(website)).data.upload);
        await manage.deleteWebsite(website, { domain: "other.example" }).catch((error) => {
          answers.push([error.status, error.code, error.field]);
        });
        return answers;
    """
    answers = [await asyncio.to_thread(by_python), await node(by_node, address(app), key, website, CHANGES)]
    for found in answers:
        # Random values.
        assert re.fullmatch("[0-9a-f]{16}", found[0]["data"].pop("id"))
        # The second client's website has the link of the first.
        del found[1]["data"]["share_links"]
        assert found[2]["data"].pop("path").startswith("/share/")
        assert re.fullmatch("[0-9a-f]{16}", found[2]["data"].pop("id"))
        assert found[-3:] == [4, None, [400, "invalid_field", "domain"]]
    assert answers[0] == answers[1]


async def test_csv_and_times(app: App) -> None:
    """A response as CSV; a time as a value of the language."""
    website, key = await app.website(), await app.key()
    await app.collect({"type": "pageview", "website_id": website, "url": "https://example.com/"})
    path = f"/api/v1/websites/{website}/timeseries?format=csv&interval=hour"
    expected = (await app.get(f"{path}&from=2026-11-18T11:00:00Z&to=2026-11-18T13:00:00Z", key)).text
    assert expected.splitlines()[-1] == "2026-11-18T12:00:00.000+00:00,1,1,1,0"

    def by_python() -> str:
        reader = ReadClient(address(app), key)
        times = [datetime(2026, 11, 18, hour, tzinfo=UTC) for hour in (11, 13)]
        return reader.csv(reader.get_timeseries, website, interval="hour", from_=times[0], to=times[1])

    by_node = """
        const [url, apiKey, website] = given;
        const [from, to] = [11, 13].map((hour) => new Date(Date.UTC(2026, 10, 18, hour)));
        return new client.ReadClient({ url, apiKey }).csv("getTimeseries", website, { interval: "hour", from, to });
    """
    assert await asyncio.to_thread(by_python) == expected
    assert await node(by_node, address(app), key, website) == expected


async def test_events(app: App) -> None:
    """Events of each method, and of a visitor whose address and headers a trusted server passes on."""
    website, key = await app.website(), await app.key()

    def by_python() -> Any:
        collect = CollectClient(address(app), website, context={"app_version": "2.4.1"})
        visitor = Visitor(GERMAN, SAFARI_IPHONE, "fr-CH, fr;q=0.9")
        # As frameworks pass on headers that are not ASCII.
        collect.pageview("https://example.com/", visitor=Visitor(user_agent="Browser \u2013 \udce4"))
        collect.pageview("https://example.com/a", referrer="https://news.example.org/", visitor=visitor)
        collect.screen_view("b", session_id="session-of-ann")
        collect.track("c", {"plan": "pro"}, url="https://example.com/c", visitor=visitor)
        return collect.send([{"type": "app_event"}, {"type": "pageview", "url": "nowhere"}])

    by_node = """
        const [url, websiteId, address, userAgent] = given;
        const collect = new client.CollectClient({ url, websiteId, context: { app_version: "2.4.1" } });
        const visitor = { address, userAgent, language: "fr-CH, fr;q=0.9" };
        await collect.pageview("https://example.com/a", { referrer: "https://news.example.org/", visitor });
        await collect.screenView("b", { session_id: "session-of-ann" });
        await collect.track("c", { plan: "pro" }, { url: "https://example.com/c", visitor });
        return collect.send([{ type: "app_event" }, { type: "pageview", url: "nowhere" }]);
    """
    names = (
        "type",
        "pathname",
        "event_name",
        "event_data",
        "country",
        "browser",
        "language",
        "referrer",
        "app_version",
    )
    passed = ("DE", "Safari", "fr-CH", "news.example.org", "2.4.1")
    for run in (
        lambda: asyncio.to_thread(by_python),
        lambda: node(by_node, address(app), website, GERMAN, SAFARI_IPHONE),
    ):
        answer = await run()
        assert (answer["accepted"], answer["rejected"]) == (1, 1)
        assert (answer["errors"][0]["index"], answer["errors"][0]["code"]) == (1, "invalid_url")
        stored = (await app.get(f"/api/v1/websites/{website}/events?limit=4", key)).json["data"]
        assert [tuple(row[name] for name in names) for row in reversed(stored)] == [
            ("pageview", "/a", None, None, *passed),
            ("screen_view", "/b", None, None, None, None, None, None, "2.4.1"),
            ("event", "/c", "c", {"plan": "pro"}, *passed),
            ("app_event", None, None, None, None, None, None, None, "2.4.1"),
        ]


@pytest.fixture
async def proxy(app: App) -> AsyncIterator[RecordingProxy]:
    proxy = RecordingProxy(lambda: address(app))
    yield proxy
    await asyncio.to_thread(proxy.close)


# Sends an event to a URL and a website; returns 1, or status, code, whether it is temporary, and message of the error.
Send = Callable[[str, str, str, dict[str, Any]], Awaitable[Any]]


async def send_by_python(url: str, website: str, name: str, options: dict[str, Any]) -> Any:
    def send() -> Any:
        try:
            return CollectClient(url, website, **options).track(name)["accepted"]
        except TallyError as error:
            return [error.status or 0, error.code, error.is_temporary, str(error)]

    return await asyncio.to_thread(send)


async def send_by_node(url: str, website: str, name: str, options: dict[str, Any]) -> Any:
    named = {"timeout_s": "timeout", "max_wait_s": "maxWait"}
    own = {named.get(key, key): value * (1000 if key in named else 1) for key, value in options.items()}
    script = """
        const [url, websiteId, name, options] = given;
        const collect = new client.CollectClient({ url, websiteId, ...options });
        return collect.track(name).then(
          ({ accepted }) => accepted,
          (error) => [error.status, error.code, error.isTemporary, error.message],
        );
    """
    return await node(script, url, website, name, own)


SENDERS = pytest.mark.parametrize("send", [send_by_python, send_by_node])


@SENDERS
async def test_an_event_that_is_sent_again_counts_once(app: App, proxy: RecordingProxy, send: Send) -> None:
    """After 503, 429 and a response that was lost: the server then has the event already."""
    website, key = await app.website(), await app.key()
    wait = {"Retry-After": "0"}
    proxy.replies = [Reply(0, reaches=True), Reply(503, wait), Reply(429, wait)]
    assert await send(f"http://127.0.0.1:{proxy.port}/", website, "once", {}) == 1
    assert [sent.status for sent in proxy.posts] == [202, 503, 429, 202]
    [event_id] = {sent.events[0]["event_id"] for sent in proxy.posts}
    assert 0 <= age_s(event_id) < 3_600
    stored = await app.get(f"/api/v1/websites/{website}/events", key)
    assert [row["event_name"] for row in stored.json["data"]] == ["once"]


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_change_whose_response_is_lost_is_made_once(app: App, proxy: RecordingProxy, language: str) -> None:
    """It may have been made, so that it is not sent again, as it is after 429."""
    website, key = await app.website(), await app.key(grant=Grant(("manage",)))
    url, sent = f"http://127.0.0.1:{proxy.port}", {"from": "2026-11-20", "text": "Launch"}

    def by_python() -> Any:
        try:
            ManageClient(url, key).create_annotation(website, sent)
        except TallyError as error:
            return error.code
        return "made"

    by_node = """
        const [url, apiKey, website, sent] = given;
        const manage = new client.ManageClient({ url, apiKey });
        return await manage.createAnnotation(website, sent).then(() => "made", (error) => error.code);
    """
    for replies, outcome in (([Reply(0, reaches=True)], "no_response"), ([Reply(429, {"Retry-After": "0"})], "made")):
        proxy.replies = replies
        if language == "python":
            found = await asyncio.to_thread(by_python)
        else:
            found = await node(by_node, url, key, website, sent)
        assert found == outcome
    assert [one.status for one in proxy.posts] == [201, 429, 201]
    assert app.sql("select count(*) from definition") == [(2,)]


@SENDERS
async def test_a_client_waits_for_retry_after(
    make_app: MakeApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, send: Send
) -> None:
    """A full queue and a limit of the real server, which end while the client waits."""
    app = await make_app(client_per_minute=60)
    website = await app.website()
    proxy = RecordingProxy(lambda: address(app))
    url = f"http://127.0.0.1:{proxy.port}"

    async def refused(status: int) -> None:
        await asyncio.to_thread(until, lambda: proxy.posts and proxy.posts[-1].status == status)

    with monkeypatch.context() as full:
        full.setattr("tally.sqlite.group_commit.MAX_QUEUED_EVENTS", 0)
        sending = asyncio.ensure_future(send(url, website, "first", {}))
        await refused(503)
    assert await sending == 1
    event = {"type": "event", "event_name": "many", "website_id": website}
    while (await app.collect(event, ip=proxy.address)).status == 202:
        pass
    sending = asyncio.ensure_future(send(url, website, "second", {}))
    await refused(429)
    clock.advance(1)
    assert await sending == 1
    status, code, temporary, message = await send(url, website, "third", {"max_wait_s": 0.5})
    assert (status, code, temporary) == (429, "rate_limited", True)
    assert message.startswith("429 rate_limited: ")
    statuses = [status for status, _ in groupby(sent.status for sent in proxy.posts)]
    assert statuses == [503, 202, 429, 202, 429]
    await asyncio.to_thread(proxy.close)


@SENDERS
async def test_errors(proxy: RecordingProxy, app: App, send: Send) -> None:
    url, website = f"http://127.0.0.1:{proxy.port}", await app.website()
    unknown = await send(url, "c66653dc-e3f4-4325-a39f-da606931a543", "x", {})
    assert unknown[:3] == [404, "unknown_website", False]
    assert unknown[3].startswith("404 unknown_website: ")
    assert (await send(url, website, "", {}))[:3] == [400, "no_valid_event", False]
    assert len(proxy.posts) == 2
    # Not a response of Tally.
    proxy.replies = [Reply(502)]
    assert (await send(url, website, "x", {"retries": 0}))[:3] == [502, "http_error", True]
    # No response in time, and none at all.
    proxy.held.clear()
    late = await send(url, website, "x", {"timeout_s": 0.2, "retries": 0})
    proxy.held.set()
    assert late[:3] == [0, "no_response", True]
    assert f"no response from {url}: time" in late[3]
    proxy.is_cut = True
    assert (await send(url, website, "x", {"retries": 0}))[:3] == [0, "no_response", True]


async def test_reading_errors(app: App) -> None:
    website, key = await app.website(), await app.key()

    def by_python() -> Any:
        found = []
        for own, limit in (("wrong", 10), (key, 5000)):
            with pytest.raises(TallyError) as caught:
                ReadClient(address(app), own).get_top(website, "pathname", limit=limit)
            found.append([caught.value.status, caught.value.code, caught.value.field])
        return found

    by_node = """
        const [url, key, website] = given;
        const found = [];
        for (const [apiKey, limit] of [["wrong", 10], [key, 5000]]) {
          const reader = new client.ReadClient({ url, apiKey });
          const error = await reader.getTop(website, "pathname", { limit }).catch((caught) => caught);
          found.push([error.status, error.code, error.field ?? null]);
        }
        return found;
    """
    expected = [[401, "invalid_api_key", None], [400, "invalid_parameter", "limit"]]
    assert await asyncio.to_thread(by_python) == expected
    assert await node(by_node, address(app), key, website) == expected
