"""Exclusions of a website: events that are not counted by address, country, page or host, and the lists' checks."""

import random
import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.api_keys import Grant
from tally.api.exclusions import MAX_CHARACTERS, MAX_VALUES
from tally.events.exclusions import KINDS, Exclusions
from tests.api.test_rejected_events import counted
from tests.support.app import GOOGLEBOT, OWNER, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in

EMPTY: dict[str, Any] = {kind: [] for kind in KINDS} | {
    **{"referrer_spam": True, "crawlers": "reject", "only_countries": False}
}
GERMAN, AMERICAN = "85.214.132.117", "8.8.8.8"


class Own:
    """A website, its owner's browser, and an API key."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self) -> None:
        self.owner, self.website, self.key = await logged_in(self.app), await self.app.website(), await self.app.key()
        self.path = f"/api/account/websites/{self.website}/exclusions"

    async def exclude(self, **lists: Any) -> dict[str, Any]:
        answer = await self.owner("PATCH", self.path, lists)
        assert answer.status == 200, answer.text
        return self.lists(answer)

    async def read(self) -> dict[str, Any]:
        return self.lists(await self.owner("GET", self.path))

    def lists(self, answer: Answer) -> dict[str, Any]:
        data: dict[str, Any] = answer.json["data"]
        assert data.pop("your_address") == self.owner.ip
        self.server_lists = data.pop("lists")
        self.entries = {kind: data[kind] for kind in KINDS}
        return data | {kind: [entry["value"] for entry in data[kind]] for kind in KINDS}

    async def send(
        self, pathname: str = "/", host: str = "example.com", ip: str = GERMAN, *, web: bool = False, **more: Any
    ) -> str:
        """Send a pageview, `web` with the header of a browser; return the code of its rejection, "" if accepted."""
        event = {"type": "pageview", "website_id": self.website, "url": f"https://{host}{pathname}"} | more
        answer = await self.app.collect(event, ip=ip, headers=WEB if web else {})
        assert answer.status == 202, answer.text
        return answer.json["errors"][0]["code"] if answer.json["rejected"] else ""

    async def stored(self) -> list[str]:
        rows = (await self.app.get(f"/api/v1/websites/{self.website}/events", self.key)).json["data"]
        return [row["pathname"] for row in rows]


@pytest.fixture
async def own(app: App) -> Own:
    own = Own(app)
    await own.fill()
    return own


async def test_lists_are_replaced_one_by_one_and_kept(own: Own) -> None:
    assert await own.read() == EMPTY
    assert await own.exclude() == EMPTY
    changes = {
        "addresses": ["198.51.100.0/24", "203.0.113.7"],
        "countries": ["DE", "FR"],
        "pages": ["*.pdf", "/admin/*"],
        "hostnames": ["*.example.com", "example.com"],
        "referrers": ["a.example", "b.example"],
        "not_spam": ["c.example"],
    }
    expected = EMPTY
    for kind, values in changes.items():
        expected = expected | {kind: values}
        assert await own.exclude(**{kind: list(reversed(values))}) == expected
    assert await own.exclude(countries=["US"]) == expected | {"countries": ["US"]}
    await own.app.restart()
    assert await own.read() == expected | {"countries": ["US"]}
    assert await own.exclude(**EMPTY) == EMPTY
    assert own.app.sql("select count(*) from exclusion") == [(0,)]


async def test_excluded_events_are_not_counted_and_have_a_reason(own: Own) -> None:
    await own.exclude(addresses=["198.51.100.0/24"], countries=["US"], pages=["/admin/*"], hostnames=["example.com"])
    assert await own.send("/a", ip="198.51.100.77") == "excluded_address"
    assert await own.send("/a", ip=AMERICAN) == "excluded_country"
    assert await own.send("/admin/users") == "excluded_page"
    assert await own.send("/a", host="staging.example.com") == "excluded_hostname"
    assert await own.stored() == []
    assert await counted(own.app, own.website) == {
        f"excluded_{of}": 1 for of in ("address", "country", "page", "hostname")
    }
    # Of several reasons the first, in the order of the lists.
    assert await own.send("/admin/", host="staging.example.com", ip=AMERICAN) == "excluded_country"
    # None of these is excluded.
    assert await own.send("/kept", ip="198.51.101.1") == await own.send("/admin") == await own.send("/x/admin/") == ""
    assert await own.stored() == ["/x/admin/", "/admin", "/kept"]
    # A change applies to the next event.
    await own.exclude(addresses=[], countries=[], pages=[], hostnames=[])
    assert await own.send("/admin/users", host="staging.example.com", ip=AMERICAN) == ""


async def test_other_websites_and_limits_are_not_affected(own: Own) -> None:
    other = await own.app.website("example.org")
    await own.exclude(addresses=["0.0.0.0/0", "::/0"])
    sent = [
        {"type": "pageview", "website_id": id, "url": f"https://{host}/"}
        for id, host in ((own.website, "example.com"), (other, "example.org"))
    ]
    answer = await own.app.collect({"events": sent}, ip="2001:db8::1")
    assert (answer.json["accepted"], answer.json["rejected"]) == (1, 1)
    assert answer.json["errors"][0] | {"message": ""} == {"index": 0, "code": "excluded_address", "message": ""}
    used = own.app.sql("select sum(events) from account_usage")
    assert used == [(1,)], "an excluded event uses nothing of the month"
    assert own.app.sql("select sum(events) from website_usage where website = 1") in ([(None,)], [(0,)])


@cases(
    "event",
    [
        {"type": "screen_view", "name": "admin/x", "session_id": "app-user-1"},
        {"type": "event", "event_name": "signup", "url": "https://example.com/admin/x"},
        {"type": "vitals", "url": "https://example.com/admin/x", "vitals": {"lcp": 1}},
        {"type": "heatmap", "url": "https://example.com/admin/x", "viewport_width": 1280, "x": 0.5, "y": 320},
        {"type": "ab_assign", "experiment": "a", "variant": "b", "url": "https://example.com/admin/x"},
    ],
)
async def test_all_types_are_excluded(own: Own, event: dict[str, Any]) -> None:
    for pages, code in (([], ""), (["/admin/*"], "excluded_page")):
        await own.exclude(pages=pages)
        assert await own.send(**event) == code


async def test_events_without_a_url_have_no_host(own: Own) -> None:
    await own.exclude(hostnames=["www.example.com"])
    screen = {"type": "screen_view", "name": "start", "session_id": "app-user-1", "website_id": own.website}
    assert (await own.app.collect(screen)).json["accepted"] == 1
    assert await own.send() == "excluded_hostname"


async def test_faults_and_crawlers_come_first(own: Own) -> None:
    """An event with a fault of its own gets the code of that fault, a crawler's that of crawlers."""
    await own.exclude(addresses=["0.0.0.0/0"])
    event = {"type": "pageview", "website_id": own.website, "url": "https://example.com/"}
    wrong = await own.app.collect(event | {"url": "ftp://example.com/"}, ip=GERMAN)
    assert (wrong.status, wrong.json["errors"][0]["code"]) == (400, "invalid_url")
    crawler = await own.app.collect(event, ip=GERMAN, headers={"Origin": "https://example.com"}, ua=GOOGLEBOT)
    assert (crawler.status, crawler.json["errors"][0]["code"]) == (202, "crawler")
    # One that is excluded makes the request a valid one.
    both = await own.app.collect({"events": [event, event | {"url": "ftp://example.com/"}]}, ip=GERMAN)
    assert (both.status, [one["code"] for one in both.json["errors"]]) == (202, ["excluded_address", "invalid_url"])


async def test_other_formats_answer_as_for_crawlers(own: Own) -> None:
    """A client of another server must not send an excluded event again."""
    await own.exclude(addresses=["0.0.0.0/0"])
    page = {"Origin": "https://example.com", "Referer": "https://example.com/"}
    plausible = {"n": "pageview", "u": "https://example.com/", "d": "example.com"}
    answer = await own.app.collect(plausible, path="/api/event", headers=page, ip=GERMAN)
    assert (answer.status, answer.headers["x-plausible-dropped"]) == (202, "1")
    umami = {"type": "event", "payload": {"website": own.website, "url": "/a", "hostname": "example.com"}}
    answer = await own.app.collect(umami, path="/api/send", headers=page, ip=GERMAN)
    assert (answer.status, answer.json) == (200, {"beep": "boop"})
    answer = await own.app.collect([umami], path="/api/batch", headers=page, ip=GERMAN)
    assert (answer.status, answer.json["errors"]) == (200, 0)
    hits = {"hits": [{"path": "/a", "ip": GERMAN, "user_agent": "Mozilla/5.0 (X11; Linux x86_64)"}]}
    token = {"Authorization": f"Bearer {own.website}"}
    answer = await own.app.collect(hits, path="/api/v0/count", headers=token, ip="2001:db8::1")
    assert (answer.status, answer.json) == (202, {"status": "ok"})
    assert await own.stored() == []
    assert await counted(own.app, own.website) == {"excluded_address": 4}


# --- referrer spam


async def test_referrer_spam_is_excluded_unless_switched_off(own: Own) -> None:
    spam = "https://www.Semalt.com/crawler"
    assert await own.send("/a", referrer=spam) == "referrer_spam"
    assert await own.send("/b", referrer="https://antisemalt.com/") == ""
    assert await own.stored() == ["/b"]
    assert await counted(own.app, own.website) == {"referrer_spam": 1}
    (sample,) = (await own.app.get(f"/api/v1/websites/{own.website}/rejected", own.key)).json["data"]["samples"]
    assert (sample["code"], sample["host"], sample["field"]) == ("referrer_spam", "semalt.com", None)
    assert await own.exclude(referrer_spam=False) == EMPTY | {"referrer_spam": False}
    assert await own.send("/c", referrer=spam) == ""
    await own.app.restart()
    assert await own.read() == EMPTY | {"referrer_spam": False}
    await own.exclude(referrer_spam=True)
    assert await own.send("/d", referrer=spam) == "referrer_spam"
    assert own.app.sql("select sum(events) from account_usage") == [(2,)], "spam uses nothing of the month"


async def test_own_lists_of_referrers(own: Own) -> None:
    """`not_spam` holds against the list alone, `referrers` always; both cover subdomains."""
    await own.exclude(referrers=["spam.example"], not_spam=["www.semalt.com", "x.spam.example"])
    assert await own.send(referrer="https://semalt.semalt.com/") == ""
    assert await own.send(referrer="https://semaltmedia.com/") == "referrer_spam"
    assert await own.send(referrer="https://spam.example/") == "referrer_spam"
    assert await own.send(referrer="https://x.spam.example/") == "referrer_spam"
    assert await own.send(referrer="https://antispam.example/") == await own.send() == ""
    await own.exclude(referrer_spam=False)
    assert await own.send(referrer="https://spam.example/") == "referrer_spam"


async def test_a_page_of_the_website_is_no_spam(app: App) -> None:
    """A website whose own host is in the list has its own pages as referrers."""
    own = Own(app)
    await own.fill()
    website = await app.website("semalt.com")
    event = {"type": "pageview", "website_id": website, "url": "https://semalt.com/a"}
    answer = await app.collect(event | {"referrer": "https://www.semalt.com/"}, ip=GERMAN)
    assert answer.json["accepted"] == 1


# --- notes


async def test_entries_have_a_note_and_who_added_them(own: Own) -> None:
    note = "<img src=x onerror=alert(1)>"
    await own.exclude(countries=["FR", {"value": "de", "note": f" {note} "}])
    email = OWNER
    assert own.entries["countries"] == [
        {"value": "DE", "note": note, "added_by": email},
        {"value": "FR", "note": "", "added_by": email},
    ]
    # By a key: new entries have no person, stored ones keep theirs, and an entry can be sent again as it was answered.
    key = await own.app.key(grant=Grant(("manage",)))
    path = f"/api/v1/websites/{own.website}/exclusions"
    sent = {"countries": [*own.entries["countries"], {"value": "US", "note": "n" * 50}]}
    headers = {"Authorization": f"Bearer {key}"}
    answer = await own.app.collect(sent, path=path, method="PATCH", headers=headers)
    assert answer.status == 200, answer.text
    expected = [*own.entries["countries"], {"value": "US", "note": "n" * 50, "added_by": None}]
    # Addresses of members are not for programs.
    assert answer.json["data"]["countries"] == [entry | {"added_by": None} for entry in expected]
    await own.app.restart()
    await own.read()
    assert own.entries["countries"] == expected
    # Without a note the stored one stays.
    await own.exclude(countries=["DE", "DE", {"value": "US"}])
    assert own.entries["countries"] == [expected[0], expected[2]]
    await own.exclude(countries=[{"value": "DE", "note": ""}])
    assert own.entries["countries"] == [{"value": "DE", "note": "", "added_by": email}]


async def test_who_has_left_is_named_by_a_number(own: Own) -> None:
    await own.exclude(pages=["/a"])
    await own.app.admin(lambda connection: connection.execute("update exclusion set added_by = 99"))
    await own.read()
    assert own.entries["pages"][0]["added_by"] == "former member 99"


# --- countries


async def test_only_the_listed_countries_count(own: Own) -> None:
    await own.exclude(only_countries=True)
    assert await own.send(ip=GERMAN) == await own.send(ip=AMERICAN) == "", "without a list all count"
    assert (await own.exclude(countries=["DE"]))["only_countries"] is True
    assert await own.send(ip=GERMAN) == ""
    assert await own.send(ip=AMERICAN) == "excluded_country"
    assert await own.send(ip="192.168.1.1") == "", "an unknown country counts"
    await own.app.restart()
    assert await own.send(ip=AMERICAN) == "excluded_country"
    await own.exclude(only_countries=False)
    assert await own.send(ip=GERMAN) == "excluded_country"
    assert await own.send(ip=AMERICAN) == ""


# --- data centers

WEB = {"Origin": "https://example.com"}
HOSTED = "203.0.113.7"


@pytest.fixture
async def hosted(make_app: MakeApp, tmp_path: Path) -> Own:
    """A server with a list of data centers."""
    path = tmp_path / "ranges.txt"
    path.write_text("# date: 2026-10-26\n203.0.113.0/24\n!203.0.113.128/25\n2001:db8::/32\n")
    own = Own(await make_app(datacenter_ranges=path, trusted_proxy=("127.0.0.0/8",)))
    await own.fill()
    return own


async def test_data_centres_are_excluded_where_switched_on(hosted: Own) -> None:
    assert await hosted.read() == EMPTY | {"datacenters": False}
    assert await hosted.send("/before", ip=HOSTED, web=True) == ""
    assert await hosted.exclude(datacenters=True) == EMPTY | {"datacenters": True}
    assert await hosted.send("/a", ip=HOSTED, web=True) == "datacenter"
    assert await hosted.send("/a", ip="2001:db8::5", web=True) == "datacenter"
    for ip in ("203.0.113.128", GERMAN, "2001:db9::"):
        assert await hosted.send("/b", ip=ip, web=True) == ""
    assert set(await hosted.stored()) == {"/before", "/b"}
    assert hosted.app.sql("select sum(events) from account_usage") == [(4,)], "nothing of the month"
    assert await counted(hosted.app, hosted.website) == {"datacenter": 2}
    (sample,) = (await hosted.app.get(f"/api/v1/websites/{hosted.website}/rejected", hosted.key)).json["data"][
        "samples"
    ]
    assert (sample["code"], sample["host"], sample["field"]) == ("datacenter", None, None)
    # The lists of the website come first.
    await hosted.exclude(addresses=[HOSTED])
    assert await hosted.send("/a", ip=HOSTED, web=True) == "excluded_address"
    await hosted.app.restart()
    assert (await hosted.read())["datacenters"] is True
    await hosted.exclude(datacenters=False, addresses=[])
    assert await hosted.send("/a", ip=HOSTED, web=True) == ""


async def test_apps_and_servers_in_data_centres_count(hosted: Own) -> None:
    """Events without web headers, by a key, and those that a server sends for visitors."""
    await hosted.exclude(datacenters=True)
    assert await hosted.send(ip=HOSTED) == ""
    event = {"type": "event", "event_name": "signup", "session_id": "visitor-1"}
    key = await hosted.app.key(grant=Grant(("import",)))
    path = f"/api/v1/websites/{hosted.website}/events"
    answer = await hosted.app.collect(
        {"events": [event]}, path=path, ip=HOSTED, headers=WEB | {"Authorization": f"Bearer {key}"}
    )
    assert (answer.status, answer.json["accepted"]) == (202, 1)
    hits = {"hits": [{"path": "/a", "ip": HOSTED, "user_agent": "Mozilla/5.0 (X11; Linux x86_64)"}]}
    token = {"Authorization": f"Bearer {hosted.website}"}
    answer = await hosted.app.collect(hits, path="/api/v0/count", headers=token | WEB, ip=HOSTED)
    assert answer.status == 202
    assert await counted(hosted.app, hosted.website) == {}


async def test_another_website_counts_data_centres(hosted: Own) -> None:
    await hosted.exclude(datacenters=True)
    other = await hosted.app.website("example.org")
    event = {"type": "pageview", "website_id": other, "url": "https://example.org/"}
    answer = await hosted.app.collect(event, ip=HOSTED, headers={"Origin": "https://example.org"})
    assert answer.json["accepted"] == 1


async def test_a_server_without_the_list_has_no_switch(own: Own) -> None:
    assert "datacenters" not in await own.read()
    answer = await own.owner("PATCH", own.path, {"datacenters": True})
    assert (answer.status, answer.json["error"]["field"]) == (400, "datacenters")
    assert "--datacenter-ranges" in answer.json["error"]["message"]


@cases("given", [None, 1, "true", []])
async def test_the_switch_is_true_or_false(hosted: Own, given: Any) -> None:
    answer = await hosted.owner("PATCH", hosted.path, {"datacenters": given})
    assert (answer.status, answer.json["error"]["message"]) == (400, "datacenters must be false or true.")


async def test_lists_of_the_server_have_dates(hosted: Own) -> None:
    await hosted.read()
    names = {one["name"]: one for one in hosted.server_lists}
    assert list(names) == ["crawlers", "referrer_spam", "datacenters"]
    assert {one["source"] for name, one in names.items() if name != "datacenters"} == {"bundled"}
    # The clock of the tests is at 2026-11-17.
    assert names["datacenters"] == {
        "name": "datacenters",
        "source": "file",
        "date": "2026-10-26",
        "entries": 3,
        "is_old": False,
    }
    assert names["crawlers"]["entries"] > 1_000
    hosted.app.clock.advance(9 * 86_400)
    await hosted.read()
    assert [one["is_old"] for one in hosted.server_lists] == [False, False, True]


# --- checks of what is entered


@cases(
    ("kind", "typed", "kept"),
    [
        ("addresses", " 203.0.113.7 ", "203.0.113.7"),
        ("addresses", "203.0.113.0/255.255.255.0", "203.0.113.0/24"),
        ("addresses", "203.0.113.7/32", "203.0.113.7"),
        ("addresses", "2001:DB8:0:0::/48", "2001:db8::/48"),
        ("addresses", "fe80::1%eth0", "fe80::1"),
        ("addresses", "::ffff:203.0.113.7", "203.0.113.7"),
        ("addresses", "::ffff:203.0.113.0/120", "203.0.113.0/24"),
        ("countries", "de", "DE"),
        ("pages", "/a/***/b", "/a/*/b"),
        ("hostnames", "WWW.Bücher.example.", "www.xn--bcher-kva.example"),
        ("hostnames", "*.Example.com", "*.example.com"),
        ("hostnames", "[2001:DB8::1]", "[2001:db8::1]"),
        ("referrers", "WWW.Bücher.example.", "xn--bcher-kva.example"),
    ],
)
async def test_values_are_kept_in_one_form(own: Own, kind: str, typed: str, kept: str) -> None:
    assert (await own.exclude(**{kind: [typed, kept]}))[kind] == [kept]


@cases(
    ("kind", "given", "part"),
    [
        ("addresses", ["203.0.113"], "neither an IP address nor a range"),
        ("addresses", ["203.0.113.7/24"], "write 203.0.113.0/24"),
        ("addresses", ["example.com"], "neither an IP address nor a range"),
        ("addresses", ["10.0.0.1-10.0.0.9"], "neither an IP address nor a range"),
        ("countries", ["Germany"], "two letters"),
        ("countries", ["D1"], "two letters"),
        ("pages", ["admin"], "its path alone"),
        ("pages", ["https://example.com/admin"], "its path alone"),
        ("pages", ["/a?b=c"], "its path alone"),
        ("hostnames", ["https://example.com"], "is no host"),
        ("hostnames", ["*"], "is no host"),
        ("hostnames", ["a.*.example.com"], "is no host"),
        ("referrers", ["https://example.com/"], "is no host"),
        ("not_spam", ["*.example.com"], "is no host"),
        *(("referrer_spam", value, "must be true or false") for value in (None, 1, "yes", [])),
        *((kind, [""], "1 to 500 characters") for kind in KINDS),
        *((kind, ["/" + "a" * MAX_CHARACTERS], "1 to 500 characters") for kind in KINDS),
        *((kind, ["/a"] * (MAX_VALUES + 1), "at most 100") for kind in KINDS),
        *((kind, given, "must be a list") for kind in KINDS for given in (None, "DE", {"a": 1})),
        *((kind, [given], "must be a string, or an object") for kind in KINDS for given in (1, None, [], {})),
        ("countries", [{"value": "DE", "by": "a"}], "must be a string, or an object"),
        ("countries", [{"value": 1}], "must be a string, or an object"),
        *(
            ("countries", [{"value": "DE", "note": note}], "a note must be text of at most 50 characters")
            for note in ("a" * 51, "a\nb", "a\0", None, 1, "\u202ea")
        ),
        *(("only_countries", value, "must be false or true") for value in (None, 1, "yes")),
        ("countrys", ["DE"], "Unknown field"),
    ],
)
async def test_invalid_values_are_refused_and_change_nothing(own: Own, kind: str, given: Any, part: str) -> None:
    await own.exclude(countries=["FR"])
    answer = await own.owner("PATCH", own.path, {"pages": ["/b"], kind: given})
    assert answer.status == 400
    assert (answer.json["error"]["code"], answer.json["error"]["field"]) == ("invalid_field", kind)
    assert part in answer.json["error"]["message"]
    assert await own.read() == EMPTY | {"countries": ["FR"]}


async def test_as_many_values_as_allowed(own: Own) -> None:
    pages = sorted(f"/*{'a*' * 200}{n}" for n in range(MAX_VALUES))
    assert (await own.exclude(pages=pages))["pages"] == pages
    # The longest path that is accepted, which begins as all of them do: a time in proportion to its length.
    assert await own.send("/" + "a" * 8_000) == ""
    assert await own.send("/" + "a" * 8_000 + "7") == "excluded_page"


@cases(("ip", "shown"), [("203.0.113.7", "203.0.113.7"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64")])
async def test_the_address_of_the_request(own: Own, ip: str, shown: str) -> None:
    own.owner.ip = ip
    assert (await own.owner("GET", own.path)).json["data"]["your_address"] == shown
    assert (await own.owner("PATCH", own.path, {"addresses": [shown]})).status == 200
    assert await own.send(ip=ip) == "excluded_address"


async def test_only_the_owner_sees_and_changes_them(own: Own) -> None:
    stranger = await logged_in(own.app, "stranger@example.com")
    for client in (stranger, PageClient(own.app)):
        for method, body in (("GET", None), ("PATCH", {"countries": ["DE"]})):
            assert (await client(method, own.path, body)).status in (401, 404)
    answer = await own.owner("PATCH", own.path, {"countries": ["DE"]}, {"Sec-Fetch-Site": "cross-site"})
    assert answer.status == 403
    assert await own.read() == EMPTY


# --- comparing


@pytest.mark.parametrize(("network", "other"), [("::/0", "203.0.113.7"), ("0.0.0.0/0", "::1"), ("0.0.0.7", "::7")])
def test_networks_are_of_their_version(network: str, other: str) -> None:
    assert Exclusions({"addresses": [network]}).excluding(ip_address(other), "", "/", "") == ""


def test_networks_are_as_the_library_has_them() -> None:
    draw = random.Random(1)
    for _ in range(300):
        bits, version = draw.choice(((32, 4), (128, 6)))
        number = draw.getrandbits(bits)
        networks = [
            ip_network((draw.choice((number, draw.getrandbits(bits))), draw.randrange(bits + 1)), strict=False)
            for _ in range(draw.randrange(5))
        ]
        address = ip_address(number) if version == 6 else ip_address(number & 0xFFFFFFFF)
        expected = any(address in network for network in networks)
        found = Exclusions({"addresses": [str(network) for network in networks]}).excluding(address, "", "/", "")
        assert found == ("addresses" if expected else ""), (address, networks)


def test_patterns_are_as_regular_expressions() -> None:
    """Checked against a regular expression on short random texts."""
    draw = random.Random(2)
    for _ in range(20_000):
        pattern = "".join(draw.choices("ab*", k=draw.randrange(1, 7)))
        text = "".join(draw.choices("ab", k=draw.randrange(8)))
        expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
        found = Exclusions({"pages": [pattern]}).excluding(ip_address("::1"), "", text, "")
        assert found == ("pages" if expected else ""), (pattern, text)
