"""The one spelling of a path (tally/events/urls.py), and values of filters in it (tally/events/filters.py).

The rules are in docs/reference/collect-api.md, Paths.
"""

import json
import random
import re
import shutil
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tally.events.filters import stored_form
from tally.events.urls import MAX_PATH_CHARACTERS, app_page_url, normal_path, parse_web_url
from tests.support.cases import cases

ARABIC = "/%D8%B3%D9%84%D8%A7%D9%85"
PATHS = [
    ("root", "/", "/"),
    ("plain", "/A/b-c_d~e.f/", "/A/b-c_d~e.f/"),
    ("lower-case-escapes", "/%d8%b3%d9%84%d8%a7%d9%85", ARABIC),
    ("mixed-case-escapes", "/%D8%b3%d9%84%D8%a7%D9%85", ARABIC),
    ("unescaped", "/\u0633\u0644\u0627\u0645", ARABIC),
    ("half-escaped", "/\u0633%d9%84\u0627%D9%85", ARABIC),
    ("unreserved", "/%7Eann/%41%62%30%2D%5F%2e", "/~ann/Ab0-_."),
    ("reserved", "/%2f%3f%23%25%26%3d%2b%40%3a", "/%2F%3F%23%25%26%3D%2B%40%3A"),
    ("reserved-unescaped", "/a;b=c&d+e@f:g,h!i$j'k(l)*[m]|n", "/a;b=c&d+e@f:g,h!i$j'k(l)*[m]|n"),
    ("encoded-by-browsers", '/ "<>`{}^', "/%20%22%3C%3E%60%7B%7D%5E"),
    ("question-mark-and-hash", "/a?b#c", "/a%3Fb%23c"),
    ("dots", "/a/./b/../c", "/a/c"),
    ("dots-above-root", "/../../a", "/a"),
    ("dots-last", "/a/b/..", "/a/"),
    ("dot-last", "/a/b/.", "/a/b/"),
    ("dots-escaped", "/a/%2e%2E/b/.%2e/c/%2e/d", "/c/d"),
    ("dots-in-names", "/.well-known/..a/b../...", "/.well-known/..a/b../..."),
    ("dots-and-empty-segments", "/a//../b//", "/a/b//"),
    ("double-slashes", "//a///b", "//a///b"),
    ("backslashes", "/a\\b\\..\\c", "/a/c"),
    ("backslash-escaped", "/a%5cb", "/a%5Cb"),
    ("tabs-and-line-breaks", "/a\tb\r\n/.\t./c", "/c"),
    ("controls", "/a\x01\x7f\x85", "/a%01%7F%C2%85"),
    ("latin-1", "/caf%e9", "/caf%E9"),
    ("cut-escape", "/%d8%b", "/%D8%b"),
    ("bare-percent", "/100%/50% off/%zz", "/100%/50%%20off/%zz"),
    ("escaped-percent", "/100%25/%2541", "/100%25/%2541"),
    ("escape-made-by-decoding", "/%%34%31/%4%31", "/%%341/%4%31"),
    ("composed", "/caf\u00e9", "/caf%C3%A9"),
    ("decomposed", "/cafe\u0301", "/cafe%CC%81"),
    ("emoji", "/\U0001f600", "/%F0%9F%98%80"),
    ("bidi-override", "/\u202egpj", "/%E2%80%AEgpj"),
    ("no-break-space", "/a\u00a0b", "/a%C2%A0b"),
    ("empty", "", ""),
]


@cases(("path", "stored"), [pytest.param(path, stored, id=name) for name, path, stored in PATHS])
def test_normal_path(path: str, stored: str) -> None:
    """A path in any spelling is stored in one."""
    assert (normal_path(path), normal_path(stored)) == (stored, stored)


PIECES = (
    *("/", "/", "/", "\\", ".", "..", "%2e", "%2E", "%", "%4", "%41", "%31", "%7e", "%d8%b3", "%D8", "%e9", "%2F"),
    *("%5c", "%25", "%00", "\t", "\n", " ", '"', "<", ">", "{", "}", "`", "|", "^", "'", "a", "B", "1", "~", "-"),
    *(":", "@", "[", "]", "*", "\x01", "\x7f", "\u00e9", "e\u0301", "\u0633", "\U0001f600", "\u202e", "\ufeff"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: "/" + "".join(pieces)))
@example("/%%34%31")
def test_a_normal_path_stays_as_it_is(path: str) -> None:
    """Reading a stored path again, as imports of an export and filters do, finds the same page."""
    once = normal_path(path)
    assert normal_path(once) == once
    assert once.isascii()
    assert once.isprintable()


def spelled(path: str) -> str:
    """Return a path that the WHATWG parser wrote with its escapes in upper case and unreserved characters decoded.

    One escape after the other, from the left: a digit after a bare `%` would make another escape and stays encoded.
    """
    done = ""
    for piece in re.findall("%[0-9A-Fa-f]{2}|.", path):
        character = chr(int(piece[1:], 16)) if len(piece) == 3 else ""
        is_decoded = re.fullmatch(r"[A-Za-z0-9._~-]", character) and not (
            re.search("%[0-9A-Fa-f]?$", done) and re.fullmatch("[0-9A-Fa-f]", character)
        )
        done += character if is_decoded else piece.upper() if character else piece
    # The standard encodes ^ since 2023; Node.js 20 does not.
    return done.replace("^", "%5E")


def test_paths_are_those_of_the_whatwg_parser() -> None:
    """5,000 random paths and those above, by Node.js."""
    if shutil.which("node") is None:
        pytest.skip("NOT TESTED: no node here, which has the WHATWG URL parser")
    random_ = random.Random(36)
    made = ["/" + "".join(random_.choices(PIECES, k=random_.randrange(12))) for _ in range(5_000)]
    # The parser removes white space at the end of a URL.
    made += [path for _, path, _ in PATHS if path]
    paths = [f"{path.replace('?', '%3F').replace('#', '%23')}x" for path in made]
    script = """
const paths = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(paths.map((path) => new URL("https://example.com" + path).pathname)));
"""
    run = subprocess.run(["node", "-e", script], input=json.dumps(paths), capture_output=True, text=True, check=True)
    assert [normal_path(path) for path in paths] == [spelled(path) for path in json.loads(run.stdout)]


def test_the_length_of_a_path() -> None:
    """A path is measured as it is stored: percent-encoded."""
    longest = "/" + "\u00e4" * 1_365
    assert len(parse_web_url(f"https://example.com{longest}").path) == 8_191 < MAX_PATH_CHARACTERS
    with pytest.raises(ValueError, match="8,192"):
        parse_web_url(f"https://example.com{longest}\u00e4")
    assert app_page_url(f"app://localhost{longest}") is not None
    assert app_page_url(f"app://localhost{longest}\u00e4") is None


@cases(
    ("field", "text", "is_part", "stored"),
    [
        ("pathname", "/\u0633/../%7ea", False, "/~a"),
        ("entry_page", "/%d8", False, "/%D8"),
        ("exit_page", "/%d8", False, "/%D8"),
        ("pathname", "", False, ""),
        ("pathname", "(other)", False, "(other)"),
        # Of a part, the rest of the segment is not known.
        ("pathname", "/.", True, "/."),
        ("pathname", "\u0633%d9", True, "%D8%B3%D9"),
        ("hostname", "b\u00fccher.example", False, "xn--bcher-kva.example"),
        ("hostname", ".b\u00fccher.", True, ".xn--bcher-kva."),
        ("referrer", "B\u00dcCHER.example", False, "xn--bcher-kva.example"),
        ("referrer", "a\u200db.example", False, "a\u200db.example"),
        ("hostname", "\u00e4." * 5_000, False, "\u00e4." * 5_000),
        ("browser", "/\u0633", False, "/\u0633"),
        ("prop.path", "/%d8", False, "/%d8"),
    ],
)
def test_stored_form(field: str, text: str, is_part: bool, stored: str) -> None:
    """Values of pages and hosts are compared in the spelling in which these are stored; others as they are."""
    assert stored_form(field, text, is_part=is_part) == stored
