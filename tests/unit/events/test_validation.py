"""Validation of collect requests (tally/events/validation.py). The rules are in docs/reference/collect-api.md."""

import json
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.events.validation import TYPES, BadBody, Event, Rejection, parse_body, read_event, type_of
from tests.support.cases import cases

NOW_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z
ASTRAL = "\U0001f600"  # one code point, two UTF-16 units, four bytes

# The smallest valid event of each type.
MINIMAL: dict[str, dict[str, Any]] = {
    "pageview": {"url": "https://example.com/"},
    "screen_view": {"name": "Home"},
    "event": {"event_name": "signup"},
    "app_event": {},
    "vitals": {"vitals": {"lcp": 1200}},
    "heatmap": {"points": [{"x": 0.5, "y": 10, "kind": "click"}], "viewport_width": 390},
    "ab_assign": {"experiment": "button", "variant": "red"},
    "ab_convert": {"experiment": "button"},
    "leave": {"url": "https://example.com/", "event_id": "v", "time_on_page": 12, "scroll_depth": 80},
}
ABSENT = object()


def read(kind: str, context: dict[str, Any] | None = None, now_ms: int = NOW_MS, **fields: Any) -> Event | Rejection:
    """Read the smallest valid event of a type with further fields; ABSENT removes one."""
    item = {k: v for k, v in ({"type": kind} | MINIMAL[kind] | fields).items() if v is not ABSENT}
    number = type_of(item)
    assert isinstance(number, int)
    return read_event(item, number, context or {}, now_ms)


def error_of(verdict: Event | Rejection) -> tuple[str, str] | None:
    """Return code and field of a rejection; None if the event is accepted."""
    return (verdict.code, verdict.field) if isinstance(verdict, Rejection) else None


def with_warnings(
    kind: str, context: dict[str, Any] | None = None, **fields: Any
) -> tuple[Event, list[tuple[str, str]]]:
    """Return the event without its warnings, and these."""
    event = read(kind, context, **fields)
    assert isinstance(event, Event), event
    return event._replace(warnings=()), [(warning.code, warning.field) for warning in event.warnings]


# ---------------------------------------------------------------- the body

BAD_JSON = [
    ("empty", b""),
    ("blank", b"  "),
    ("cut", b'{"type": "pageview"'),
    ("single-quotes", b"{'type': 'pageview'}"),
    ("trailing-comma", b'{"type": "pageview",}'),
    ("trailing-text", b'{"type": "pageview"} x'),
    ("two-documents", b"{}{}"),
    ("comment", b'{"type": "pageview"} // yes'),
    ("leading-zero", b'{"value": 01}'),
    ("plus", b'{"value": +1}'),
    ("nan", b'{"value": NaN}'),
    ("infinity", b'{"value": Infinity}'),
    ("minus-infinity", b'{"value": -Infinity}'),
    ("beyond-a-double", b'{"value": 1e400}'),
    ("beyond-a-double-below", b'{"value": -1e400}'),
    ("5000-digits", b'{"value": ' + b"9" * 5_000 + b"}"),
    ("surrogate-in-utf-8", b'{"name": "\xed\xa0\x80"}'),
    ("bad-utf-8", b'{"name": "\xff"}'),
    ("cut-utf-8", b'{"name": "\xf0\x9f\x98"}'),
    ("overlong-utf-8", b'{"name": "\xc0\xaf"}'),
    ("latin-1", '{"name": "caf\u00e9"}'.encode("latin-1")),
    ("two-utf-8-boms", b"\xef\xbb\xbf\xef\xbb\xbf{}"),
    ("a-bom-and-no-json", b"\xef\xbb\xbf"),
    ("a-bom-behind-white-space", b" \xef\xbb\xbf{}"),
    ("utf-16", "{}".encode("utf-16")),
    ("utf-16-le", "{}".encode("utf-16-le")),
    ("utf-16-be", "{}".encode("utf-16-be")),
    ("utf-32", "{}".encode("utf-32")),
    ("raw-newline-in-text", b'{"name": "a\nb"}'),
    ("raw-nul-in-text", b'{"name": "a\0b"}'),
    ("bad-escape", b'{"name": "\\x41"}'),
    ("deep-arrays", b"[" * 32_000 + b"]" * 32_000),
    ("deep-and-open", b"[" * 65_000),
    ("deep-objects", b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    ("form", b"type=pageview&url=x"),
]


@cases("body", [b for _, b in BAD_JSON], ids=[i for i, _ in BAD_JSON])
def test_bad_json(body: bytes) -> None:
    """Also NaN, invalid UTF-8 and excessive depth: invalid_json."""
    with pytest.raises(BadBody) as refusal:
        parse_body(body)
    assert refusal.value.code == "invalid_json"


SURROGATES = [
    ('"\\ud83d"', "\ufffd"),
    ('"Hello \\ud83d"', "Hello \ufffd"),
    ('"\\uDE00 and \\uD83D"', "\ufffd and \ufffd"),
    ('"\\udc00\\ud800"', "\ufffd\ufffd"),
    ('"\\ud83d\\ud83d\\ude00"', f"\ufffd{ASTRAL}"),
    ('"\\ud83d\\ude00\\ude00"', f"{ASTRAL}\ufffd"),
    ('"\\ud83d\\n"', "\ufffd\n"),
    ('"\\ud83dx\\ude00"', "\ufffdx\ufffd"),
    ('"\\\\ud83d \\ud83d"', "\\ud83d \ufffd"),
    ('"\\\\\\ud83d"', "\\\ufffd"),
    ('"\\"\\ud83d"', '"\ufffd'),
]


@cases(("text", "value"), SURROGATES, ids=[text for text, _ in SURROGATES])
def test_lone_surrogates(text: str, value: str) -> None:
    """A lone surrogate is U+FFFD in any text, as browsers' own encoders write it; the rest of the body is unchanged."""
    body = f'{{"type": "event", "event_name": {text}, "event_data": {{{text}: {text}}}}}'.encode()
    for sent in (body, b"\xef\xbb\xbf" + body):
        (item,) = parse_body(sent).items
        assert item == {"type": "event", "event_name": value, "event_data": {value: value}}


@given(st.text(st.characters(), max_size=20))
def test_any_cut_text_is_read_as_browsers_encode_it(text: str) -> None:
    """The reference is Python's own decoder of UTF-16 with replacement, as TextEncoder and fetch do."""
    units = text.encode("utf-16-le", "surrogatepass")
    for end in range(0, len(units) + 1, 2):
        escapes = "".join(f"\\u{int.from_bytes(units[n : n + 2], 'little'):04x}" for n in range(0, end, 2))
        (item,) = parse_body(f'{{"name": "{escapes}"}}'.encode()).items
        assert item["name"] == units[:end].decode("utf-16-le", "replace")


@cases(
    ("number", "read"),
    [("-0", 0), ("-0.0", 0.0), ("1e-400", 0.0), ("5e-324", 5e-324), ("1e308", 1e308), ("0." + "1" * 5_000, 1 / 9)],
    ids=lambda value: str(value)[:12],
)
def test_numbers_at_the_edge(number: str, read: float) -> None:
    """Numbers are rounded to the nearest double; smaller ones become 0."""
    batch = parse_body(b'{"type": "ab_convert", "value": %b}' % number.encode())
    assert batch.items[0]["value"] == read


def test_the_last_of_repeated_keys_counts() -> None:
    batch = parse_body(b'{"type": "event", "event_name": "a", "event_name": "b", "event_name": "c"}')
    assert batch.items[0]["event_name"] == "c"


BAD_BODIES = [
    ("number", b"5", "invalid_body"),
    ("null", b"null", "invalid_body"),
    ("true", b"true", "invalid_body"),
    ("text", b'"pageview"', "invalid_body"),
    ("array", b"[]", "invalid_body"),
    ("array-of-events", b'[{"type": "app_event"}]', "invalid_body"),
    ("events-empty", b'{"events": []}', "invalid_body"),
    ("events-null", b'{"events": null}', "invalid_body"),
    ("events-object", b'{"events": {"0": {}}}', "invalid_body"),
    ("events-text", b'{"events": "pageview"}', "invalid_body"),
    ("events-number", b'{"events": 1}', "invalid_body"),
    ("context-array", b'{"events": [{}], "context": []}', "invalid_body"),
    ("context-text", b'{"events": [{}], "context": "ios"}', "invalid_body"),
    ("context-empty-text", b'{"events": [{}], "context": ""}', "invalid_body"),
    ("context-number", b'{"events": [{}], "context": 0}', "invalid_body"),
    ("context-false", b'{"events": [{}], "context": false}', "invalid_body"),
    ("events-51", json.dumps({"events": [{}] * 51}).encode(), "too_many_events"),
    ("events-20000", json.dumps({"events": [1] * 20_000}).encode(), "too_many_events"),
    ("events-51-context-array", json.dumps({"events": [{}] * 51, "context": []}).encode(), "invalid_body"),
]


@cases(("body", "code"), [b[1:] for b in BAD_BODIES], ids=[b[0] for b in BAD_BODIES])
def test_bad_bodies(body: bytes, code: str) -> None:
    """Not an object, `events` not a non-empty array, or `context` not an object: invalid_body; more than 50 events:
    too_many_events."""
    with pytest.raises(BadBody) as refusal:
        parse_body(body)
    assert refusal.value.code == code


BODIES: list[tuple[str, bytes, tuple[list[Any], Any, dict[str, Any]]]] = [
    ("single", b'{"type": "app_event"}', ([{"type": "app_event"}], None, {})),
    ("empty-object", b"{}", ([{}], None, {})),
    ("batch", b'{"website_id": "w", "events": [{"a": 1}, 2]}', ([{"a": 1}, 2], "w", {})),
    ("context", b'{"events": [{}], "context": {"os": "iOS"}}', ([{}], None, {"os": "iOS"})),
    ("context-null", b'{"events": [{}], "context": null}', ([{}], None, {})),
    ("website-null", b'{"website_id": null, "events": [{}]}', ([{}], None, {})),
    ("items-of-any-kind", b'{"events": [null, "x", [], 5, true]}', ([None, "x", [], 5, True], None, {})),
    ("50", json.dumps({"events": [{}] * 50}).encode(), ([{}] * 50, None, {})),
    ("white-space", b' \t\r\n{"type": "app_event"}\n', ([{"type": "app_event"}], None, {})),
    ("escaped-astral", b'{"name": "\\ud83d\\ude00"}', ([{"name": ASTRAL}], None, {})),
]


@cases(("body", "batch"), [b[1:] for b in BODIES], ids=[b[0] for b in BODIES])
def test_bodies(body: bytes, batch: tuple[list[Any], Any, dict[str, Any]]) -> None:
    """A single event, or a batch of at most 50."""
    read = parse_body(body)
    single = batch[1] is None and "events" not in json.loads(body)
    assert (read.items, None if single else read.website_id, read.context) == batch


# ---------------------------------------------------------------- type

BAD_TYPES: list[tuple[str, Any]] = [
    ("missing", {}),
    ("null", {"type": None}),
    ("empty", {"type": ""}),
    ("unknown", {"type": "click"}),
    ("upper-case", {"type": "Pageview"}),
    ("space", {"type": "pageview "}),
    ("hyphen", {"type": "screen-view"}),
    ("number", {"type": 0}),
    ("true", {"type": True}),
    ("array", {"type": ["pageview"]}),
    ("object", {"type": {"pageview": 1}}),
    ("nul", {"type": "pageview\0"}),
    ("item-null", None),
    ("item-text", "pageview"),
    ("item-number", 5),
    ("item-true", True),
    ("item-array", [{"type": "pageview"}]),
]


@cases("item", [i for _, i in BAD_TYPES], ids=[i for i, _ in BAD_TYPES])
def test_bad_types(item: Any) -> None:
    """Not an object, or `type` is missing or unknown: invalid_type."""
    verdict = type_of(item)
    assert isinstance(verdict, Rejection)
    assert verdict.code == "invalid_type"
    assert verdict.message.endswith(".")


@cases("kind", MINIMAL)
def test_types(kind: str) -> None:
    """One of pageview, event, screen_view, app_event, vitals, heatmap, ab_assign, ab_convert."""
    event = read(kind)
    assert isinstance(event, Event)
    assert TYPES[event.type] == kind
    assert event.ts_ms == NOW_MS


def test_there_are_nine_types() -> None:
    """There are no other types."""
    assert set(TYPES) == set(MINIMAL)


# ---------------------------------------------------------------- required fields

REQUIRED = [
    ("pageview", "url"),
    ("screen_view", "name"),
    ("event", "event_name"),
]
# These types require nothing beyond type and website_id.
OPTIONAL = [
    ("vitals", "vitals"),
    ("heatmap", "points"),
    ("heatmap", "viewport_width"),
    ("ab_assign", "experiment"),
    ("ab_assign", "variant"),
    ("ab_convert", "experiment"),
]


@cases("value", [ABSENT, None], ids=["absent", "null"])
@cases(("kind", "field"), OPTIONAL)
def test_optional_fields_of_vitals_and_experiments(kind: str, field: str, value: Any) -> None:
    """Without them an event is accepted, but counted in no report."""
    event = read(kind, **{field: value})
    assert isinstance(event, Event)
    assert getattr(event, field) == Event._field_defaults[field]


@cases("value", [ABSENT, None, ""], ids=["absent", "null", "empty"])
@cases(("kind", "field"), REQUIRED)
def test_required(kind: str, field: str, value: Any) -> None:
    """A required field is missing, null or an empty string: missing_field."""
    assert error_of(read(kind, **{field: value})) == ("missing_field", field)


@cases(("kind", "field"), [*REQUIRED, *OPTIONAL])
@cases("value", [0, 1, True, False, 1.5, {}], ids=repr)
def test_required_fields_of_a_wrong_type(kind: str, field: str, value: Any) -> None:
    """A wrong JSON type is invalid_field, not missing_field."""
    if field == "viewport_width" and value in (1, 1.5) and value is not True:
        assert error_of(read(kind, **{field: value})) is None
    else:
        assert error_of(read(kind, **{field: value})) == ("invalid_field", field)


# ---------------------------------------------------------------- texts

# (field, types, least, most)
TEXTS: list[tuple[str, tuple[str, ...], int, int]] = [
    ("name", TYPES, 1, 500),
    ("session_id", TYPES, 8, 64),
    ("event_name", ("event", "app_event"), 1, 200),
    ("experiment", ("ab_assign", "ab_convert"), 1, 100),
    ("variant", ("ab_assign", "ab_convert"), 1, 100),
    ("goal", ("ab_convert",), 1, 100),
]
TEXT_CASES = [(field, kind, least, most) for field, kinds, least, most in TEXTS for kind in kinds]


LABELS = ("platform", "app_version", "os_version", "browser", "os")
LABEL_CASES = [(field, kind, 1, 100) for field in LABELS for kind in TYPES]
NO_TEXTS: list[Any] = [0, 1, 1.5, True, False, [], ["aaaaaaaa"], {}, {"a": 1}, 2**63]


@cases(("field", "kind", "least", "most"), LABEL_CASES)
def test_invalid_labels(field: str, kind: str, least: int, most: int) -> None:
    """A label that is no text or holds NUL is omitted, a longer one is cut; the event is stored, with a warning."""
    event, _ = with_warnings(kind)
    for value in ("\0", "aaaaaaaa\0", *NO_TEXTS):
        assert with_warnings(kind, **{field: value}) == (event, [(f"without_{field}", field)]), value
    for text in ("ab" * most, ASTRAL * (most + 1)):
        assert with_warnings(kind, **{field: text}) == (event._replace(**{field: text[:most]}), [("value_cut", field)])


@cases(("field", "kind", "least", "most"), [*TEXT_CASES, *LABEL_CASES])
def test_valid_texts(field: str, kind: str, least: int, most: int) -> None:
    """ "characters" are Unicode code points; event_name at most 200, session_id 8 to 64, name 500, other labels 100."""
    for value in (
        "a" * least,
        "a" * most,
        ASTRAL * least,
        ASTRAL * most,
        " " * least,
        "\u0301" * most,
        "'\";--\\%_\t\n",
    ):
        event = read(kind, **{field: value})
        assert isinstance(event, Event), (value, event)
        assert getattr(event, field) == value


@cases(("field", "kind", "least", "most"), TEXT_CASES)
def test_invalid_texts(field: str, kind: str, least: int, most: int) -> None:
    """Wrong JSON type, too long, NUL, or a session_id that is not 8 to 64 characters long."""
    bad = ["a" * (most + 1), ASTRAL * (most + 1), "\0" * least, "aaaaaaaa\0", "\0aaaaaaaa", *NO_TEXTS]
    if least > 1:
        bad += ["a" * (least - 1), ASTRAL * (least - 1), ""]
    for value in bad:
        assert error_of(read(kind, **{field: value})) == ("invalid_field", field), value


@cases(("field", "kind", "least", "most"), [*TEXT_CASES, *LABEL_CASES])
def test_absent_texts(field: str, kind: str, least: int, most: int) -> None:
    """Optional fields that are null or an empty text count as absent."""
    if (kind, field) in REQUIRED:
        assert error_of(read(kind, **{field: None})) == ("missing_field", field)
    elif (kind, field) in OPTIONAL:
        assert read(kind, **{field: None}) == read(kind, **{field: ""}) == read(kind, **{field: ABSENT})
    else:
        assert read(kind, **{field: None}) == read(kind)
        if least == 1:
            assert read(kind, **{field: ""}) == read(kind)


@cases("kind", TYPES)
def test_event_id(kind: str) -> None:
    """event_id: all types, 1 to 64 characters."""
    kept = {}
    for value in ("a", "b", "A", "a" * 64, ASTRAL, ASTRAL * 64, " ", "a "):
        event = read(kind, event_id=value)
        assert isinstance(event, Event), value
        assert event.event_id
        kept[value] = event.event_id
    assert len(set(kept.values())) == len(kept)
    assert read(kind, event_id="a") == read(kind, event_id="a")
    # A leave needs it.
    empty = "missing_field" if kind == "leave" else "invalid_field"
    assert error_of(read(kind, event_id="")) == (empty, "event_id")
    for value in ("a" * 65, ASTRAL * 65, "a\0", 1, 0, True, False, 1.5, [], {}, 2**64):
        assert error_of(read(kind, event_id=value)) == ("invalid_field", "event_id"), value
    assert kind == "leave" or read(kind, event_id=None) == read(kind)


FOREIGN = [
    ("pageview", {"event_name": 5, "event_data": [], "vitals": 1, "points": 2, "viewport_width": "x", "experiment": 3}),
    ("pageview", {"variant": 1, "goal": 2, "value": "x", "unheard_of": {"a": [1]}, "website_id": 5, "events_": 1}),
    ("screen_view", {"event_name": 5, "event_data": 5, "vitals": 1, "value": "x"}),
    ("event", {"vitals": 1, "points": 2, "experiment": 3, "value": "x"}),
    ("app_event", {"referrer": 5, "vitals": 1, "goal": 5}),
    ("vitals", {"referrer": 5, "event_name": 5, "event_data": 5, "points": 5}),
    ("heatmap", {"referrer": 5, "event_name": 5, "event_data": 5, "vitals": 5}),
    ("ab_assign", {"referrer": 5, "event_name": 5, "goal": 5, "value": "x"}),
    ("ab_convert", {"referrer": 5, "event_name": 5, "event_data": 5, "points": 5}),
]


@cases(("kind", "fields"), FOREIGN)
def test_unknown_fields_are_ignored(kind: str, fields: dict[str, Any]) -> None:
    """Fields of other types are ignored too."""
    assert read(kind, **fields) == read(kind)


# ---------------------------------------------------------------- url and referrer

URLS = [
    ("https://example.com", ("example.com", "/", "")),
    ("http://Example.COM:8080/A%2Fb//c/?q=1#frag", ("example.com", "/A%2Fb//c/", "q=1")),
    ("https://user:secret@example.com/x", ("example.com", "/x", "")),
    ("https://example.com./x", ("example.com", "/x", "")),
    ("https://b\u00fccher.example/x", ("xn--bcher-kva.example", "/x", "")),
    ("https://localhost/x", ("localhost", "/x", "")),
    ("https://192.0.2.7/x", ("192.0.2.7", "/x", "")),
    ("https://[2001:db8::7]:8080/x", ("[2001:db8::7]", "/x", "")),
    ("https://example.com?q=/#/x", ("example.com", "/", "q=/")),
    ("https://example.com/" + "a" * (8_192 - 20), ("example.com", "/" + "a" * (8_192 - 20), "")),
    ("https://example.com/" + ASTRAL * 682, ("example.com", "/" + quote(ASTRAL) * 682, "")),
]


@cases(("url", "parts"), URLS, ids=[u[0][:40] for u in URLS])
@cases("kind", TYPES)
def test_urls(kind: str, url: str, parts: tuple[str, str, str]) -> None:
    """url, all types: a full http(s) URL of at most 8,192 characters."""
    event = read(kind, url=url)
    assert isinstance(event, Event)
    assert event.url is not None
    assert (event.url.host, event.url.path, event.url.query) == parts


def test_a_path_is_measured_percent_encoded() -> None:
    """The limit is the same for browsers, which encode, and for servers, which do not."""
    assert error_of(read("pageview", url="https://example.com/" + ASTRAL * 683)) == ("invalid_url", "url")


NO_URLS = [
    "example.com",
    "/path",
    "//example.com/",
    "ftp://exa mple.com/",
    "javascript:alert(1)",
    "https://",
    "https:///path",
    "https:/example.com",
    "https://exa mple.com/",
    "https://example.com:99999/",
    "https://example.com:x/",
    "https://[::1",
    "https://evil.com\\@example.com/",
    "about:blank",
    "data:text/html,x",
    "file:///etc/passwd",
    "h ttps://example.com/",
    "https://example.com/a\nb",
    ".",
]


@cases("url", NO_URLS)
def test_bad_urls(url: str) -> None:
    """Not a full http(s) URL: invalid_url, also where url is optional."""
    assert error_of(read("pageview", url=url)) == ("invalid_url", "url")
    assert error_of(read("app_event", url=url)) == ("invalid_url", "url")


@cases("kind", TYPES)
def test_urls_of_a_wrong_type(kind: str) -> None:
    """Wrong JSON type, too long, or NUL."""
    for url in (1, True, ["https://example.com/"], {}, 1.5):
        assert error_of(read(kind, url=url)) == ("invalid_field", "url")
    too_long = read(kind, url="https://example.com/" + "a" * (8_193 - 20))
    nul = read(kind, url="https://example.com/\0")
    for verdict in (too_long, nul):
        assert isinstance(verdict, Rejection)
        assert verdict.code in ("invalid_field", "invalid_url")
        assert verdict.field == "url"


LONG = "a" * 9_000
# What is sent behind the path, the query that is kept, and the warnings.
QUERIES = [
    (f"?code={LONG}", f"code={LONG}", [("value_cut", "url")]),
    (f"#{LONG}", "", [("value_cut", "url")]),
    (f"?utm_source=mail&state={LONG}", f"utm_source=mail&state={LONG}", [("value_cut", "url")]),
    (f"?state={LONG}&utm_source=mail#{LONG}", f"state={LONG}&utm_source=mail", [("value_cut", "url")]),
    ("?a=1\0", "", [("without_query", "url")]),
    ("?a=\x1f&utm_source=mail", "", [("without_query", "url")]),
    ("?a=1#\x7f", "a=1", [("value_cut", "url")]),
    (f"?utm_source={'x' * 101}", f"utm_source={'x' * 101}", [("value_cut", "utm_source")]),
    (f"?utm_source={'x' * 100}&utm_term={'%20' * 100}", f"utm_source={'x' * 100}&utm_term={'%20' * 100}", []),
    (
        f"?utm_content={'x' * 101}&utm_term={'%20' * 101}",
        f"utm_content={'x' * 101}&utm_term={'%20' * 101}",
        [("value_cut", "utm_content"), ("value_cut", "utm_term")],
    ),
]


@cases(("rest", "query", "warnings"), QUERIES, ids=[repr(rest)[:40] for rest, _, _ in QUERIES])
@cases("page", ["https://example.com/play", "capacitor://localhost/play"])
def test_queries_and_fragments(page: str, rest: str, query: str, warnings: list[tuple[str, str]]) -> None:
    """A query or a fragment that breaks a rule costs no event."""
    item = {"type": "pageview", "url": page + rest}
    event = read_event(item, 0, {}, NOW_MS, 0, frozenset(["capacitor://localhost"]))
    assert isinstance(event, Event), event
    assert event.url is not None
    assert (event.url.path, event.url.query) == ("/play", query)
    assert [(warning.code, warning.field) for warning in event.warnings] == warnings


def test_paths_have_a_limit() -> None:
    """8,192 characters without query and fragment."""
    longest = "https://example.com/" + "a" * (8_192 - 20)
    assert with_warnings("pageview", url=f"{longest}?{LONG}")[1] == [("value_cut", "url")]
    for url in (f"{longest}a", f"{longest}a?b", f"{longest}a#b"):
        assert error_of(read("pageview", url=url)) == ("invalid_field", "url")
    # What is not the page stays strict, whatever stands behind.
    for url in (
        f"https://a..b/?{LONG}",
        f"about:blank?{LONG}",
        f"example.com/?{LONG}",
        f"https://example.com:99999/#{LONG}",
    ):
        assert error_of(read("pageview", url=url)) == ("invalid_url", "url")


REFERRERS = [
    ("https://www.Google.com/search?q=secret", "google.com"),
    ("https://news.example.org:8443/a", "news.example.org"),
    ("http://www.www.example.org/", "www.example.org"),
    ("android-app://com.google.android.gm/", "com.google.android.gm"),
    ("android-app://com.google.android.gm", "com.google.android.gm"),
    ("ios-app://544007664/vnd.youtube", "544007664"),
    ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
]


@cases(("referrer", "host"), REFERRERS, ids=[r[0][:40] for r in REFERRERS])
@cases("kind", ["pageview", "screen_view", "event"])
def test_referrers(kind: str, referrer: str, host: str) -> None:
    """referrer: URL of the page before; stored as lowercase host without `www.`."""
    event = read(kind, referrer=referrer)
    assert isinstance(event, Event)
    assert event.referrer == host


NO_REFERRERS: list[Any] = [
    *("google.com", "/a", "https://", "javascript:alert(1)", "mailto:a@example.org", "android-app://", "about:blank"),
    *("com.example.app", "chrome-extension://abcdefgh/popup.html", "moz-extension://a-b/c.html", "partner.example"),
    *(
        "https://a..b/",
        "https://a b/",
        "file:///home/index.html",
        "blob:https://example.com/1",
        "undefined",
        "(direct)",
    ),
    *("capacitor://localhost/a", "data:text/html,x", "https://example.org/\0", "\0", "https://example.org:99999/"),
    *(1, True, [], {}, 1.5),
]


@cases("value", NO_REFERRERS, ids=[repr(value)[:40] for value in NO_REFERRERS])
@cases("kind", ["pageview", "screen_view", "event"])
def test_bad_referrers(kind: str, value: Any) -> None:
    """A referrer that is no full URL is omitted; the event is stored, with a warning."""
    assert with_warnings(kind, referrer=value) == (with_warnings(kind)[0], [("without_referrer", "referrer")])


@pytest.mark.parametrize("kind", ["pageview", "screen_view", "event"])
def test_long_and_absent_referrers(kind: str) -> None:
    """Of a referrer of any length the host is stored."""
    event, _ = with_warnings(kind)
    for rest in ("a" * 8_173, "?" + LONG, "#" + LONG):
        found = with_warnings(kind, referrer=f"https://example.org/{rest}")
        assert found == (event._replace(referrer="example.org"), [("value_cut", "referrer")])
    assert read(kind, referrer=None) == read(kind, referrer="") == read(kind)


# ---------------------------------------------------------------- language and device

LANGUAGES = [
    ("en", "en"),
    ("EN", "en"),
    ("en-us", "en-US"),
    ("pt-BR", "pt-BR"),
    ("ZH-HANT-tw", "zh-Hant-TW"),
    ("es-419", "es-419"),
    ("sr-latn-rs", "sr-Latn-RS"),
    ("gsw-CH", "gsw-CH"),
    ("de-CH-1996", "de-CH-1996"),
    ("sl-Rozaj-Biske", "sl-rozaj-biske"),
    # Extensions and private use (RFC 5646 2.2.6, 2.2.7) could identify a person.
    ("en-U-CA-Gregory", "en"),
    ("en-x-TWAIN-US", "en"),
    ("de-x-2c7939a", "de"),
    ("de-AT-1996-u-co-phonebk-x-2c7939a", "de-AT-1996"),
    ("sr-Latn-RS-t-it-m0-2c7939a", "sr-Latn-RS"),
    ("de_AT_x_2c7939a", "de-AT"),
    # Locales of systems: POSIX, Java, ICU.
    ("en_US", "en-US"),
    ("pt_BR", "pt-BR"),
    ("zh_Hant_TW", "zh-Hant-TW"),
    ("zh-Hant_TW", "zh-Hant-TW"),
    ("en_US.UTF-8", "en-US"),
    ("de_DE@euro", "de-DE"),
    ("sr_RS.UTF-8@latin", "sr-RS"),
    ("zh_TW_#Hant", "zh-TW"),
    ("C", ""),
    ("POSIX", ""),
]


@cases(("sent", "kept"), LANGUAGES)
def test_languages(sent: str, kept: str) -> None:
    """language: BCP 47 tag, kept in its canonical case."""
    event = read("pageview", language=sent)
    assert isinstance(event, Event)
    assert event.language == kept


NO_LANGUAGES: list[Any] = [
    "e",
    "_US",
    "en__US",
    ".UTF-8",
    "en-",
    "-en",
    "en--US",
    "*",
    "portuguese",
    "en US",
    "en;q=0.9",
    "en,de",
    "d\u00e9",
    "12",
    "en\0",
    "a" * 101,
    "en-" + "-".join(["abcdefgh"] * 12),
    5,
    True,
    [],
    {},
]


@cases("value", NO_LANGUAGES, ids=[repr(n)[:30] for n in NO_LANGUAGES])
def test_bad_languages(value: Any) -> None:
    """language: BCP 47 tag; every label at most 100 characters. Anything else is omitted, with a warning."""
    assert with_warnings("pageview", language=value) == (
        with_warnings("pageview")[0],
        [("without_language", "language")],
    )


def test_devices() -> None:
    """device one of desktop, mobile, tablet, tv, console, other."""
    for device in ("desktop", "mobile", "tablet", "tv", "console", "other"):
        event = read("app_event", device=device)
        assert isinstance(event, Event)
        assert event.device == device
    for bad in ("Desktop", "phone", " desktop", "desktop\0", "TV", 1, True, ["tv"], {"tv": 1}):
        assert with_warnings("app_event", device=bad) == (
            with_warnings("app_event")[0],
            [("without_device", "device")],
        ), bad
    assert read("app_event", device="") == read("app_event", device=None) == read("app_event")


# ---------------------------------------------------------------- event_data


def data_of(size: int, character: str = "a") -> dict[str, str]:
    """Return event_data of `size` bytes as compact UTF-8 JSON."""
    width = len(character.encode())
    room = size - len('{"k":""}')
    return {"k": character * (room // width) + "a" * (room % width)}


DATA: list[tuple[str, Any]] = [
    ("empty", {}),
    ("flat", {"text": "x", "int": 5, "float": 1.5, "true": True, "false": False, "null": None}),
    ("keys", {"": 1, "__proto__": "x", "a b": 2, ASTRAL: 3, "$.a[0]": 4}),
    ("negative", {"a": -1, "b": -0.5, "c": 2**53, "d": -(2**63), "e": 2**63 - 1}),
    ("4096-bytes", data_of(4_096)),
    ("4096-bytes-of-four", data_of(4_096, ASTRAL)),
    ("quotes", {"a": '"\\/\b\f\n\r\t'}),
]


@cases("kind", ["event", "app_event"])
@cases("data", [d for _, d in DATA], ids=[i for i, _ in DATA])
def test_event_data(kind: str, data: Any) -> None:
    """event_data: flat JSON object of at most 4,096 bytes, measured as compact UTF-8 JSON."""
    event = read(kind, event_data=data)
    assert isinstance(event, Event)
    assert event.event_data is not None
    assert json.loads(event.event_data) == data


BAD_DATA: list[tuple[str, Any, str]] = [
    ("array", [], "invalid_event_data"),
    ("text", "a", "invalid_event_data"),
    ("json-text", '{"a": 1}', "invalid_event_data"),
    ("number", 5, "invalid_event_data"),
    ("true", True, "invalid_event_data"),
    ("false", False, "invalid_event_data"),
    ("nested-object", {"a": {}}, "invalid_event_data"),
    ("nested-array", {"a": 1, "b": []}, "invalid_event_data"),
    ("4097-bytes", data_of(4_097), "event_data_too_large"),
    ("4097-bytes-of-four", data_of(4_097, ASTRAL), "event_data_too_large"),
    ("many-keys", {str(n): n for n in range(1_000)}, "event_data_too_large"),
    ("escapes", {"a": "\n" * 2_100}, "event_data_too_large"),
]


@cases("kind", ["event", "app_event"])
@cases(("data", "code"), [d[1:] for d in BAD_DATA], ids=[d[0] for d in BAD_DATA])
def test_bad_event_data(kind: str, data: Any, code: str) -> None:
    """event_data: flat object, max 4 KB."""
    assert error_of(read(kind, event_data=data)) == (code, "event_data")


def test_event_data_without_nul() -> None:
    """Neither values nor keys may contain NUL."""
    for data in ({"a": "x\0"}, {"a\0": "x"}, {"\0": 1}):
        assert isinstance(read("event", event_data=data), Rejection), data


def test_event_data_absent() -> None:
    """null counts as absent; an empty object is stored."""
    assert read("event", event_data=None) == read("event") != read("event", event_data={})


def test_event_data_is_measured_compact() -> None:
    """The limit applies to compact UTF-8 JSON, not to the text of the request."""
    for text in (
        json.dumps(data_of(4_096), indent=80),
        json.dumps(data_of(4_096, ASTRAL)),  # \ud83d\ude00: 12 bytes on the wire for 4
    ):
        body = f'{{"type": "event", "event_name": "x", "event_data": {text}}}'.encode()
        (item,) = parse_body(body).items
        assert isinstance(read_event(item, 2, {}, NOW_MS), Event)


def stored(text: str) -> str:
    """Return the stored form of event_data sent as `text`."""
    (item,) = parse_body(f'{{"type": "event", "event_name": "x", "event_data": {text}}}'.encode()).items
    event = read_event(item, 2, {}, NOW_MS)
    assert isinstance(event, Event)
    assert event.event_data is not None
    return event.event_data


@cases(
    ("sent", "kept"),
    [
        ("1e15", "1e15"),
        ("1000000000000000.0", "1e15"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("1e3", "1e3"),
        ("-12e4", "-12e4"),
        ("1000", "1000"),
        ("-0.0", "0"),
        ("19.99", "19.99"),
        ("1e-5", "1e-5"),
        ("-12e-3", "-0.012"),
        ("12e-4", "12e-4"),
        ("9007199254740992e0", "9007199254740992.0"),
        ("1.7976931348623157e308", "17976931348623157e292"),
        ("5e-324", "5e-324"),
        ("18446744073709551615", "18446744073709551615"),
    ],
)
def test_numbers_of_event_data_are_stored_in_their_shortest_form(sent: str, kept: str) -> None:
    """A stored number is not longer than in the request."""
    assert stored(f'{{"a": {sent}}}') == f'{{"a":{kept}}}'


DIGITS = st.from_regex(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
NUMBERS = st.one_of(
    DIGITS.filter(lambda text: abs(float(text)) < 1e308),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds(lambda digits, power: f"{digits}e{power}", st.integers(-99_999, 99_999), st.integers(-30, 30)),
)
ESCAPED = st.text(max_size=8).filter(lambda text: "\0" not in text).map(lambda text: json.dumps(text))
RAW = st.text(max_size=8).filter(lambda text: "\0" not in text).map(lambda text: orjson.dumps(text).decode())
SCALARS = st.one_of(NUMBERS, st.sampled_from(["true", "false", "null"]), ESCAPED, RAW)


@given(st.dictionaries(st.one_of(ESCAPED, RAW), SCALARS, max_size=12))
def test_stored_event_data_is_not_longer_than_sent(data: dict[str, str]) -> None:
    """The stored text has the same values."""
    text = "{" + ",".join(f"{name}:{value}" for name, value in data.items()) + "}"
    kept = stored(text)
    assert len(kept.encode()) <= len(text.encode())
    assert json.loads(kept) == orjson.loads(kept) == orjson.loads(text)
    # Stored again, as by an import, the text stays the same.
    assert stored(kept) == kept


# ---------------------------------------------------------------- vitals, heatmaps, experiments

VITALS: list[tuple[str, Any, tuple[float | None, ...]]] = [
    ("one", {"lcp": 1}, (1, None, None, None, None)),
    ("all", {"lcp": 1, "inp": 2, "fcp": 3, "ttfb": 4, "cls": 0.05}, (1, 2, 3, 4, 0.05)),
    ("zero", {"inp": 0, "cls": 0}, (None, 0, None, None, 0)),
    ("most", {"ttfb": 3_600_000, "cls": 100}, (None, None, None, 3_600_000, 100)),
    ("fraction", {"fcp": 812.4375}, (None, None, 812.4375, None, None)),
    ("unknown-beside", {"lcp": 1, "fid": 5, "x": -5}, (1, None, None, None, None)),
]


@cases(("vitals", "kept"), [v[1:] for v in VITALS], ids=[v[0] for v in VITALS])
def test_vitals(vitals: Any, kept: tuple[float | None, ...]) -> None:
    """vitals: flat object of numbers, at least one of lcp, inp, fcp, ttfb (0 to 3,600,000), cls (0 to 100)."""
    event = read("vitals", vitals=vitals)
    assert isinstance(event, Event)
    assert event.vitals == (*kept, None, None)


BAD_VITALS: list[tuple[str, Any]] = [
    ("empty", {}),
    ("unknown-alone", {"fid": 5}),
    ("upper-case", {"LCP": 5}),
    ("array", [1]),
    ("text", "lcp"),
    ("number", 5),
    ("true", True),
    ("value-text", {"lcp": "5"}),
    ("value-true", {"lcp": True}),
    ("value-false", {"cls": False}),
    ("value-null", {"lcp": None}),
    ("value-null-beside", {"lcp": 5, "cls": None}),
    ("value-array", {"lcp": [5]}),
    ("value-object", {"lcp": {}}),
    ("unknown-text", {"lcp": 5, "name": "x"}),
    ("unknown-true", {"lcp": 5, "x": True}),
    ("unknown-object", {"lcp": 5, "x": {}}),
    ("negative", {"inp": -1}),
    ("just-negative", {"cls": -0.001}),
    ("too-much", {"lcp": 3_600_001}),
    ("just-too-much", {"fcp": 3_600_000.5}),
    ("cls-too-much", {"cls": 100.001}),
    ("huge", {"lcp": 2**63}),
    ("very-huge", {"ttfb": 1e308}),
]


@cases("vitals", [v for _, v in BAD_VITALS], ids=[i for i, _ in BAD_VITALS])
def test_bad_vitals(vitals: Any) -> None:
    """A field breaks its rule: invalid_field, with field."""
    assert error_of(read("vitals", vitals=vitals)) == ("invalid_field", "vitals")


def point(**more: Any) -> dict[str, Any]:
    """Return a valid point with further values; ABSENT removes one."""
    values = {"x": 0.25, "y": 40, "kind": "click"} | more
    return {k: v for k, v in values.items() if v is not ABSENT}


POINTS: list[tuple[str, list[Any], int | float]] = [
    ("one", [point()], 390),
    ("100", [point()] * 100, 390),
    ("least", [point(x=0, y=0)], 1),
    ("most", [point(x=1, y=1_000_000)], 20_000),
    ("fractions", [point(x=1.0, y=0.5, kind="scroll")], 1.5),
    ("unknown-beside", [point(z=5, target="a")], 390),
]


@cases(("points", "width"), [p[1:] for p in POINTS], ids=[p[0] for p in POINTS])
def test_points(points: list[Any], width: float) -> None:
    """points: array of 1 to 100 {x, y, kind}, x 0..1, y 0 to 1,000,000, kind click or scroll; width 1 to 20,000."""
    event = read("heatmap", points=points, viewport_width=width)
    assert isinstance(event, Event)
    kinds = ("click", "scroll")
    assert [(p.x, p.y, kinds[p.kind]) for p in event.points] == [(p["x"], p["y"], p["kind"]) for p in points]
    assert event.viewport_width == width


BAD_POINTS: list[tuple[str, Any]] = [
    ("none", []),
    ("101", [point()] * 101),
    ("object", point()),
    ("text", "x"),
    ("item-null", [None]),
    ("item-array", [[0.5, 10, "click"]]),
    ("one-bad-of-two", [point(), point(x=2)]),
    *((f"{field}-absent", [point(**{field: ABSENT})]) for field in ("x", "y", "kind")),
    *((f"{field}-null", [point(**{field: None})]) for field in ("x", "y", "kind")),
    *((f"{field}-true", [point(**{field: True})]) for field in ("x", "y", "kind")),
    *((f"{field}-text", [point(**{field: "0.5"})]) for field in ("x", "y", "kind")),
    ("x-negative", [point(x=-0.001)]),
    ("x-too-much", [point(x=1.001)]),
    ("y-negative", [point(y=-1)]),
    ("y-too-much", [point(y=1_000_000.5)]),
    ("y-huge", [point(y=2**63)]),
    ("kind-unknown", [point(kind="move")]),
    ("kind-upper", [point(kind="Click")]),
    ("kind-number", [point(kind=0)]),
    ("kind-array", [point(kind=["click"])]),
    ("kind-object", [point(kind={})]),
]


@cases("points", [p for _, p in BAD_POINTS], ids=[i for i, _ in BAD_POINTS])
def test_bad_points(points: Any) -> None:
    """A field breaks its rule: invalid_field, with field."""
    assert error_of(read("heatmap", points=points)) == ("invalid_field", "points")


@cases("width", [0, 0.5, -1, 20_001, 20_000.5, True, "390", [], {}, 2**63, 1e308], ids=repr)
def test_bad_viewport_widths(width: Any) -> None:
    """viewport_width: required, 1 to 20,000."""
    assert error_of(read("heatmap", viewport_width=width)) == ("invalid_field", "viewport_width")


def test_conversion_values() -> None:
    """value: number."""
    for value in (0, -0.5, 12.5, 10**15, 2**63, -(2**63), 1e300):
        event = read("ab_convert", value=value)
        assert isinstance(event, Event), value
        assert event.value == value
    for bad in ("5", "", True, False, [], {}):
        assert error_of(read("ab_convert", value=bad)) == ("invalid_field", "value"), bad
    assert read("ab_convert", value=None) == read("ab_convert")


# ---------------------------------------------------------------- timestamp

HOUR_MS = 3_600_000
TIMES: list[tuple[str, Any, int]] = [
    ("null", None, NOW_MS),
    ("now", NOW_MS, NOW_MS),
    ("before", NOW_MS - 1, NOW_MS - 1),
    ("integral-float", float(NOW_MS - 1), NOW_MS - 1),
    ("72-hours", NOW_MS - 72 * HOUR_MS, NOW_MS - 72 * HOUR_MS),
    ("1-ms-ahead", NOW_MS + 1, NOW_MS),
    ("5-minutes-ahead", NOW_MS + 300_000, NOW_MS),
    ("iso-z", "2026-11-18T11:00:00Z", NOW_MS - HOUR_MS),
    ("iso-ms", "2026-11-18T11:59:59.999Z", NOW_MS - 1),
    ("iso-one-digit", "2026-11-18T11:59:59.5Z", NOW_MS - 500),
    ("iso-comma", "2026-11-18T11:59:59,5Z", NOW_MS - 500),
    ("iso-microseconds", "2026-11-18T11:59:59.998999+00:00", NOW_MS - 2),
    ("iso-nanoseconds", "2026-11-18T11:59:59.998999999Z", NOW_MS - 2),
    ("iso-east", "2026-11-18T13:00:00+02:00", NOW_MS - HOUR_MS),
    ("iso-west", "2026-11-18T01:15:00-09:45", NOW_MS - HOUR_MS),
    ("iso-next-day", "2026-11-19T01:00:00+14:00", NOW_MS - HOUR_MS),
    ("iso-no-colon", "2026-11-18T13:00:00+0200", NOW_MS - HOUR_MS),
    ("iso-hours-offset", "2026-11-18T13:00:00+02", NOW_MS - HOUR_MS),
    ("iso-no-offset", "2026-11-18T11:00:00", NOW_MS - HOUR_MS),
    ("iso-minutes", "2026-11-18T11:00", NOW_MS - HOUR_MS),
    ("iso-minutes-z", "2026-11-18T11:00Z", NOW_MS - HOUR_MS),
    ("iso-date", "2026-11-18", NOW_MS - 12 * HOUR_MS),
    ("iso-72-hours", "2026-11-15T12:00:00.000Z", NOW_MS - 72 * HOUR_MS),
    ("iso-5-minutes-ahead", "2026-11-18T12:05:00.000Z", NOW_MS),
    ("iso-5-minutes-ahead-cut", "2026-11-18T12:05:00.000999Z", NOW_MS),
]


@cases(("timestamp", "ts_ms"), [t[1:] for t in TIMES], ids=[t[0] for t in TIMES])
def test_timestamps(timestamp: Any, ts_ms: int) -> None:
    """Integer milliseconds (a float must be integral) or ISO 8601, UTC without an offset; at most 72 hours old; up to
    5 minutes ahead is read as now."""
    for kind in TYPES:
        event = read(kind, timestamp=timestamp)
        assert isinstance(event, Event)
        assert event.ts_ms == ts_ms


BAD_TIMES: list[tuple[str, Any, str]] = [
    ("72-hours-1-ms", NOW_MS - 72 * HOUR_MS - 1, "timestamp_too_old"),
    ("zero", 0, "timestamp_too_old"),
    ("negative", -1, "timestamp_too_old"),
    ("seconds", NOW_MS // 1000, "timestamp_too_old"),
    ("5-minutes-1-ms", NOW_MS + 300_001, "timestamp_in_future"),
    ("tomorrow", NOW_MS + 24 * HOUR_MS, "timestamp_in_future"),
    ("iso-72-hours-1-ms", "2026-11-15T11:59:59.999Z", "timestamp_too_old"),
    ("iso-72-hours-cut", "2026-11-15T11:59:59.9999Z", "timestamp_too_old"),
    ("iso-1970", "1970-01-01T00:00:00Z", "timestamp_too_old"),
    ("iso-year-1", "0001-01-01T00:00:00Z", "timestamp_too_old"),
    ("iso-5-minutes-1-ms", "2026-11-18T12:05:00.001Z", "timestamp_in_future"),
    ("iso-year-9999", "9999-12-31T23:59:59Z", "timestamp_in_future"),
    ("iso-local-time-without-offset", "2026-11-18T13:00:00", "timestamp_in_future"),
    ("float", NOW_MS - 0.5, "invalid_field"),
    ("true", True, "invalid_field"),
    ("false", False, "invalid_field"),
    ("array", [NOW_MS], "invalid_field"),
    ("object", {"ms": NOW_MS}, "invalid_field"),
    ("words", "yesterday", "invalid_field"),
    ("number-as-text", str(NOW_MS), "invalid_field"),
    ("time-alone", "11:00:00Z", "invalid_field"),
    ("month-13", "2026-13-01T00:00:00Z", "invalid_field"),
    ("february-30", "2026-02-30T00:00:00Z", "invalid_field"),
    ("minute-60", "2026-11-18T11:60:00Z", "invalid_field"),
    ("second-60", "2026-11-18T11:59:60Z", "invalid_field"),
    ("hour-25", "2026-11-18T25:00:00Z", "invalid_field"),
    ("offset-25", "2026-11-18T11:00:00+25:00", "invalid_field"),
    ("year-10000", "10000-01-01T00:00:00Z", "invalid_field"),
    ("arabic-digits", "٢٠٢٦-١١-١٨T11:00:00Z", "invalid_field"),
    ("space-before", " 2026-11-18T11:00:00Z", "invalid_field"),
    ("newline-after", "2026-11-18T11:00:00Z\n", "invalid_field"),
    ("nul", "2026-11-18T11:00:00Z\0", "invalid_field"),
    ("us", "11/18/2026", "invalid_field"),
    ("http-date", "Wed, 18 Nov 2026 11:00:00 GMT", "invalid_field"),
    ("long", "2026-11-18T11:00:00." + "9" * 60_000 + "x", "invalid_field"),
]


@cases(("timestamp", "code"), [t[1:] for t in BAD_TIMES], ids=[t[0] for t in BAD_TIMES])
def test_bad_timestamps(timestamp: Any, code: str) -> None:
    """An event is rejected when its timestamp is older than 72 hours, more than 5 minutes ahead, or not a time."""
    assert error_of(read("pageview", timestamp=timestamp)) == (code, "timestamp")


@cases(
    ("timestamp", "hint"),
    [
        (NOW_MS // 1_000, "this looks like seconds"),
        (NOW_MS / 1_000 + 0.25, "this looks like seconds"),
        (NOW_MS * 1_000, "this looks like microseconds"),
        (NOW_MS * 1_000_000, "this looks like nanoseconds"),
        (str(NOW_MS), "this looks like milliseconds as text"),
        (f"{NOW_MS // 1_000}.25", "this looks like seconds as text"),
        (0, ""),
        (NOW_MS - 100 * HOUR_MS, ""),
        ("9" * 5_000, ""),
        ("2026-11-15T11:59:59Z", ""),
    ],
)
def test_a_time_in_another_unit_is_named(timestamp: Any, hint: str) -> None:
    """It is rejected as before: nobody can know that it was meant."""
    found = read("pageview", timestamp=timestamp)
    assert isinstance(found, Rejection)
    assert (f"({hint})" in found.message) if hint else ("looks like" not in found.message)


@cases("age", [0, 1, 3_600_000, 3_600_000.0, 259_200_000], ids=str)
def test_ages(age: float) -> None:
    """The event happened that long before it arrived, whatever its timestamp says."""
    for item in ({"age_ms": age}, {"age_ms": age, "timestamp": 0}, {"age_ms": age, "timestamp": "no time"}):
        event, warnings = with_warnings("pageview", **item)
        assert (event.ts_ms, warnings) == (NOW_MS - age, [])
    assert read("pageview", age_ms=None) == read("pageview")


@cases("age", [-1, 0.5, "5", "", True, [], {}, -(2**63)], ids=repr)
def test_bad_ages(age: Any) -> None:
    """age_ms is whole milliseconds, not negative."""
    assert error_of(read("pageview", age_ms=age)) == ("invalid_field", "age_ms")


@cases("age", [259_200_001, 2**63, 1e300], ids=str)
def test_ages_beyond_72_hours(age: float) -> None:
    """Events are counted for 72 hours."""
    assert error_of(read("pageview", age_ms=age)) == ("timestamp_too_old", "age_ms")


@cases("timestamp", [2**53, 2**63 - 1, 2**63, 2**64 - 1, 1e19, 1e308], ids=str)
def test_timestamps_far_in_the_future(timestamp: float) -> None:
    """Rejected as in the future or as invalid, without an exception."""
    found = error_of(read("pageview", timestamp=timestamp))
    assert found in (("timestamp_in_future", "timestamp"), ("invalid_field", "timestamp"))


@pytest.mark.parametrize("timestamp", [-(2**53), -(2**63), -1e19, -1e308, "0001-01-01T00:00:00+14:00"], ids=str)
def test_timestamps_far_in_the_past(timestamp: float) -> None:
    """Rejected as too old or as invalid, without an exception."""
    found = error_of(read("pageview", timestamp=timestamp))
    assert found in (("timestamp_too_old", "timestamp"), ("invalid_field", "timestamp"))


# ---------------------------------------------------------------- the order of checks


def test_one_error_per_event() -> None:
    """The first error found: missing fields, then the rules of fields, then the timestamp."""
    assert error_of(read("pageview", url=None, platform=5, timestamp=0)) == ("missing_field", "url")
    assert error_of(read("pageview", name=5, timestamp=0)) == ("invalid_field", "name")
    assert error_of(read("pageview", timestamp=0, url="x")) == ("invalid_url", "url")
    assert error_of(read("pageview", {"os": 5}, os="a" * 101, referrer="x", timestamp=0)) == (
        "timestamp_too_old",
        "timestamp",
    )


# ---------------------------------------------------------------- context

CONTEXT = ("platform", "app_version", "os_version", "language", "browser", "os", "device")
SAID = {"language": ("de", "fr"), "device": ("tv", "tablet")}


@cases("kind", TYPES)
@cases("field", CONTEXT)
def test_context_fills(kind: str, field: str) -> None:
    """The context fills these seven fields; the event's own value wins."""
    in_context, in_event = SAID.get(field, ("from context", "from event"))
    context = {field: in_context}
    assert read(kind, context) == read(kind, **{field: in_context})
    assert read(kind, context, **{field: None}) == read(kind, **{field: in_context})
    assert read(kind, context, **{field: ""}) == read(kind, **{field: in_context})
    assert read(kind, context, **{field: in_event}) == read(kind, **{field: in_event})


@cases("field", CONTEXT)
def test_bad_context(field: str) -> None:
    """A bad value in the context is omitted of each event that uses it, or cut."""
    good = SAID.get(field, ("", "from event"))[1]
    event, _ = with_warnings("pageview")
    is_label = field not in SAID
    for bad in (5, True, False, [], {}, "a" * 101, "a\0"):
        is_cut = is_label and bad == "a" * 101
        expected = event._replace(**{field: "a" * 100}) if is_cut else event
        warnings = [("value_cut" if is_cut else f"without_{field}", field)]
        assert with_warnings("pageview", {field: bad}) == (expected, warnings), bad
        assert with_warnings("pageview", {field: bad}, **{field: None}) == (expected, warnings), bad
        assert read("pageview", {field: bad}, **{field: good}) == read("pageview", **{field: good}), bad
        # The context's value replaces one of the event that is omitted.
        replaced, warnings = with_warnings("pageview", {field: good}, **{field: 5})
        assert (getattr(replaced, field), warnings) == (good, [(f"without_{field}", field)])
    for absent in (None, ""):
        assert read("pageview", {field: absent}) == read("pageview")


def test_nothing_else_comes_from_the_context() -> None:
    """Anything else in the context is ignored."""
    other: dict[str, Any] = {
        "session_id": "0123456789",
        "event_id": "1",
        "url": "https://example.com/elsewhere",
        "name": "elsewhere",
        "referrer": "https://example.org/",
        "timestamp": 0,
        "type": "event",
        "event_name": "x",
        "event_data": {"a": 1},
        "website_id": 5,
        "utm_source": "x",
        "country": "DE",
        "unheard_of": {"a": [1]},
    }
    for kind in TYPES:
        assert read(kind, other) == read(kind)
    assert error_of(read("screen_view", {"name": "Home"}, name=ABSENT)) == ("missing_field", "name")


# ---------------------------------------------------------------- random input

NAMES = st.sampled_from(
    [
        *("url", "name", "referrer", "event_name", "event_data", "platform", "app_version", "os_version", "browser"),
        *("os", "device", "language", "session_id", "event_id", "timestamp", "vitals", "points", "viewport_width"),
        *("experiment", "variant", "goal", "value", "website_id", "lcp", "cls", "x", "y", "kind"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        ["https://example.com/", "en", "tv", "click", "2026-11-18T11:00:00Z", "a" * 101, "\0", NOW_MS, 0.5]
    ),
)
JSON = st.recursive(
    LEAVES,
    lambda of: st.lists(of, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), of, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    kind=st.sampled_from(TYPES), fields=st.dictionaries(NAMES, JSON, max_size=6), context=st.dictionaries(NAMES, JSON)
)
def test_random_events(kind: str, fields: dict[str, Any], context: dict[str, Any]) -> None:
    """Any event is accepted or rejected with a code and a message; an accepted one can be stored."""
    body = orjson.dumps(
        {"events": [{"type": kind} | fields, {"type": kind, **MINIMAL[kind], **fields}], "context": context}
    )
    batch = parse_body(body)
    for item in batch.items:
        number = type_of(item)
        assert isinstance(number, int)
        verdict = read_event(item, number, batch.context, NOW_MS)
        if isinstance(verdict, Rejection):
            assert verdict.code in CODES
            # A single point needs both x and y.
            assert verdict.field in {*fields, *context, *MINIMAL[kind], "x", "y"}
            assert verdict.message.endswith(".")
        else:
            assert NOW_MS - 72 * HOUR_MS <= verdict.ts_ms <= NOW_MS
            texts = [part for part in verdict if isinstance(part, str)]
            assert not any("\0" in text for text in texts)


CODES = {
    "missing_field",
    "invalid_field",
    "invalid_url",
    "invalid_event_data",
    "event_data_too_large",
    "timestamp_too_old",
    "timestamp_in_future",
}


@given(st.binary(max_size=200) | JSON.map(orjson.dumps))
def test_random_bodies(body: bytes) -> None:
    """Any body is read or refused with one of three codes."""
    code = ""
    try:
        batch = parse_body(body)
    except BadBody as refusal:
        code = refusal.code
    assert code in ("invalid_json", "invalid_body", "too_many_events") or 1 <= len(batch.items) <= 50
