"""Requests in GoatCounter's format, /count and POST /api/v0/count: what is stored, and what is answered."""

from typing import Any
from urllib.parse import urlencode

from tally.http.responses import GIF
from tests.api.test_rejected_events import counted
from tests.support.app import CHROME, FIREFOX, GOOGLEBOT, Answer, App
from tests.support.cases import cases
from tests.support.compat import newest, stored, website_of

PAGE = {"Origin": "https://www.example.com", "Referer": "https://www.example.com/"}
VIEW = {"p": "/pricing?a=1", "t": "Pricing", "r": "https://duckduckgo.com/", "s": "1920,1080,1", "b": "0", "rnd": "ab1"}


async def count(app: App, query: dict[str, str] | str, *, path: str = "/count", **how: Any) -> Answer:
    """Send a beacon: a POST without a body."""
    sent = query if isinstance(query, str) else urlencode(query)
    return await app.collect(b"", path=f"{path}?{sent}", **({"headers": PAGE} | how))


def is_gif(answer: Answer, status: int = 200) -> str:
    """Check the GIF; return the reason in X-Goatcounter."""
    assert (answer.status, answer.body) == (status, GIF)
    assert answer.headers["Content-Type"] == "image/gif"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    return answer.headers.get("X-Goatcounter", "")


async def test_a_pageview_by_beacon_and_by_image(app: App) -> None:
    website = await website_of(app)
    for method in ("POST", "GET"):
        assert is_gif(await count(app, VIEW | {"q": "?utm_medium=mail&ref=hn"}, method=method)) == ""
        event = await newest(app, website)
        assert (event["type"], event["pathname"], event["hostname"]) == ("pageview", "/pricing", "www.example.com")
        assert (event["referrer"], event["utm_source"], event["utm_medium"]) == ("duckduckgo.com", "hn", "mail")
    assert len(await stored(app, website)) == 2
    head = await count(app, VIEW, method="HEAD")
    assert (head.status, len(await stored(app, website))) == (200, 2)


@cases(
    ("query", "pathname"),
    [
        ("p=%2Fa", "/a"),
        ("p=a%2Fb", "/a/b"),
        ("p=%2F%2Fa", "/a"),
        ("p=%2Fa%23b", "/a"),
        ("p=%2F", "/"),
        ("p=%2Fa%FF", "/a%EF%BF%BD"),
        ("p=%2Fcaf%C3%A9+1", "/caf%C3%A9%201"),
        ("p=%2F%25d8%25b3", "/%D8%B3"),
    ],
)
async def test_the_path(app: App, query: str, pathname: str) -> None:
    website = await website_of(app)
    assert is_gif(await count(app, query)) == ""
    assert (await newest(app, website))["pathname"] == pathname


@cases("e", ["true", "1", "on", "TRUE"])
async def test_an_event(app: App, e: str) -> None:
    website = await website_of(app)
    assert is_gif(await count(app, {"p": "click-buy", "t": "Buy", "e": e})) == ""
    event = await newest(app, website)
    assert (event["type"], event["event_name"]) == ("event", "click-buy")


@cases(
    ("query", "source", "campaign"),
    [
        ("?src=a&source=b", "a", None),
        ("?utm_source=u&ref=b&campaign=c", "u", "c"),
        ("?utm_campaign=x&campaign=c", None, "x"),
        ("&".join(f"a{n}=1" for n in range(200)), None, None),
    ],
)
async def test_campaigns(app: App, query: str, source: str | None, campaign: str | None) -> None:
    website = await website_of(app)
    # A visitor for each row: the first source of a visit is that of all its events.
    assert is_gif(await count(app, {"p": "/c", "q": query}, ip=f"203.0.113.{len(query) % 251}")) == ""
    event = await newest(app, website)
    assert (event["utm_source"], event["utm_campaign"]) == (source, campaign)


@cases(
    ("how", "path"),
    [
        ({"headers": {"Origin": "https://blog.example.com"}}, "/count"),
        ({"headers": {"Referer": "https://example.com/x"}}, "/count"),
        ({"headers": {"Host": "stats.example.com:8000"}}, "/count"),
        ({"headers": {}}, "/count/example.com"),
        ({"headers": {}}, "/count/{id}"),
    ],
    ids=["the Origin", "the Referer", "the host of the request", "a domain in the path", "an id in the path"],
)
async def test_the_website(app: App, how: dict[str, Any], path: str) -> None:
    website = await website_of(app)
    before = len(await stored(app, website))
    assert is_gif(await count(app, VIEW, path=path.replace("{id}", website), **how)) == ""
    assert len(await stored(app, website)) == before + 1


async def test_a_page_of_another_origin(app: App) -> None:
    website = await website_of(app)
    other = {"headers": {"Origin": "https://other.example"}}
    assert is_gif(await count(app, VIEW, path=f"/count/{website}", **other), 403).startswith("This page's origin")
    assert is_gif(await count(app, VIEW, **other), 404).startswith("There is no website")
    assert is_gif(await count(app, VIEW, headers={"Origin": "null"}), 400)
    assert await counted(app, website) == {"origin_not_allowed": 1}
    assert await stored(app, website) == []


async def test_crawlers(app: App) -> None:
    website = await website_of(app)
    assert is_gif(await count(app, VIEW, ua=GOOGLEBOT)).startswith("The User-Agent is a crawler's")
    assert await counted(app, website) == {"crawler": 1}
    for hint in ("150", "153"):
        assert is_gif(await count(app, VIEW | {"b": hint})) == ""
    assert await stored(app, website) == []


@cases("headers", [{"Sec-Purpose": "prefetch;prerender"}, {"X-Moz": "prefetch"}, {"Purpose": "prefetch"}])
async def test_a_prefetch_is_not_counted(app: App, headers: dict[str, str]) -> None:
    website = await website_of(app)
    assert is_gif(await count(app, VIEW, headers=PAGE | headers)) == ""
    assert await stored(app, website) == []


@cases(
    "query",
    [
        *({}, {"p": ""}, {"p": "x" * 2_049}, {"p": "/", "b": "1"}, {"p": "/", "b": "149"}, {"p": "/", "b": "x"}),
        *({"p": "/", "b": "\u0661"}, {"p": "/", "b": "9" * 5_000}, {"p": "/", "b": "-1"}, {"p": "\0"}),
    ],
)
async def test_faults(app: App, query: dict[str, str]) -> None:
    await website_of(app)
    assert "see errors" not in is_gif(await count(app, query), 400)


async def test_hits_of_a_server(app: App) -> None:
    """Each hit is a visitor of its own; the token is the website's id or domain."""
    website = await website_of(app)
    hits = [
        {"path": "/a", "ip": "81.2.69.160", "user_agent": FIREFOX, "ref": "https://duckduckgo.com/", "title": "A"},
        {"path": "/b", "ip": "81.2.69.161", "user_agent": FIREFOX, "query": "?ref=hn"},
        {"path": "buy", "event": True, "session": "s1", "created_at": "2026-11-18T11:00:00Z"},
        {"path": "/crawler", "user_agent": GOOGLEBOT},
    ]
    hits.insert(0, {"path": "/marked", "bot": 1})
    for token in (website, "example.com"):
        headers = {"Authorization": f"Bearer {token}"}
        answer = await app.collect({"hits": hits}, path="/api/v0/count", headers=headers, ua="curl/8")
        assert (answer.status, answer.json) == (202, {"status": "ok"})
    assert await counted(app, website) == {"crawler": 2}
    events = sorted((await stored(app, website)), key=lambda event: (event["pathname"], event["type"]))
    assert [event["event_name"] or event["pathname"] for event in events] == ["buy", "buy", "/a", "/a", "/b", "/b"]
    assert {event["timestamp"][:16] for event in events[:2]} == {"2026-11-18T11:00"}
    assert {(event["country"], event["browser"]) for event in events[2:]} == {("GB", "Firefox")}
    assert {event["utm_source"] for event in events[4:]} == {"hn"}
    stats = await app.get(f"/api/v1/websites/{website}/stats", await app.key())
    assert stats.json["data"]["visitors"] == 3
    faulty = [hits[0], {"path": ""}, hits[1], 7]
    answer = await app.collect({"hits": faulty}, path="/api/v0/count", headers=headers)
    assert (answer.status, list(answer.json), list(answer.json["errors"])) == (400, ["errors"], ["1", "3"])
    assert len(await stored(app, website)) == 7


@cases(
    ("token", "body", "status", "code"),
    [
        (None, {"hits": [{"path": "/"}]}, 401, "missing_api_key"),
        ("Basic eDp5", {"hits": [{"path": "/"}]}, 401, "missing_api_key"),
        ("Bearer ", {"hits": [{"path": "/"}]}, 401, "missing_api_key"),
        ("Bearer unknown.test", {"hits": [{"path": "/"}]}, 404, "unknown_website"),
        ("Bearer example.com", {"hits": []}, 400, "invalid_body"),
        ("Bearer example.com", {"hits": 1}, 400, "invalid_body"),
        ("Bearer example.com", [], 400, "invalid_body"),
        ("Bearer example.com", b"{", 400, "invalid_json"),
        ("Bearer example.com", {"hits": [{"path": "/"}] * 51}, 400, "too_many_events"),
    ],
)
async def test_faults_of_hits(app: App, token: str | None, body: Any, status: int, code: str) -> None:
    await website_of(app)
    headers = {"Authorization": token} if token else {}
    answer = await app.collect(body, path="/api/v0/count", headers=headers, ua=CHROME)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


@cases("hits", [[1, {}, {"path": 7}], [{"path": "/", "created_at": "x"}]])
async def test_no_hit_is_valid(app: App, hits: list[Any]) -> None:
    await website_of(app)
    headers = {"Authorization": "Bearer example.com"}
    answer = await app.collect({"hits": hits}, path="/api/v0/count", headers=headers)
    assert (answer.status, list(answer.json)) == (400, ["errors"])
    assert [*answer.json["errors"]] == [str(place) for place in range(len(hits))]


async def test_an_api_key_is_no_token(app: App) -> None:
    """A key reads an account; collecting needs none, and a key on the servers of visitors would give that away."""
    await website_of(app)
    headers = {"Authorization": f"Bearer {await app.key()}"}
    answer = await app.collect({"hits": [{"path": "/"}]}, path="/api/v0/count", headers=headers)
    assert (answer.status, answer.json["error"]["code"]) == (401, "missing_api_key")


async def test_a_batch_of_tallys_own(app: App) -> None:
    website = await website_of(app)
    batch = {"website_id": website, "context": {}, "events": [{"type": "event", "event_name": "x"}]}
    answer = await app.collect(batch, path="/count", headers=PAGE)
    assert (answer.status, answer.json["accepted"]) == (202, 1)
    # HEAD stores nothing, whatever its body is.
    assert (await app.collect(batch, path="/count", headers=PAGE, method="HEAD")).status == 400
    assert len(await stored(app, website)) == 1
