"""Minify scripts without a build step: remove comments and white space, shorten local names and `const` to `let`.

It exists for the tracker's core, which has to stay within 2,500 bytes gzipped and is nevertheless written to be read.
It is not a minifier for arbitrary scripts: `compact` accepts the subset that static/tracker.js is written in:

- statements end in a semicolon or a brace, none is empty, and there are no HTML-like comments;
- regular expressions follow an operator, never a name or a closing bracket; divisions have spaces around them;
- template literals contain no template literals;
- no local name is also used as a global one.

A name is shortened only where it is declared plainly (`const name =`, `(name) =>`) and where no use of it can be a
property: never after a dot, before a colon, alone between commas in braces, or inside a template literal.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from string import ascii_letters

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*|/\*.*?\*/)+)
      | (?P<template>`(?:\\.|[^`\\])*`)
      | (?P<text>"(?:\\.|[^"\\\n])*")
      | (?P<regex>(?<=[\s(,=:!&|?{;\[])/(?![=\s])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*)
      | (?P<word>[\w$]+)
      | (?P<sign>=>|\?\.|\.\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_DECLARED = re.compile(r"\b(?:const|let) (\w+)(?= (?:=|of)|;)|\((\w+)\) =>|(?<=, )(\w+)(?= = )")
# A line break after or before one of these is never the end of a statement.
# The first of these two is never needed.
_NEEDLESS = (";}", ",}", ",)")
_OPEN, _CLOSED = "{(,[=>&|?:;", "})],.?:&|="

_Token = tuple[str, str]
"""Its kind, a group of _TOKEN, and its text."""


@cache
def compact(source: str) -> str:
    """Return a script that does the same as `source`."""
    tokens = [(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(source)]
    solid = [(kind, text) for kind, text in tokens if kind != "space"]
    short = _short_names(source, solid) | {"const": "let"}
    parts: list[str] = []
    gap = ""
    for kind, text in tokens:
        if kind == "space":
            gap = "\n" if "\n" in text else " "
            continue
        if parts and parts[-1] + text in _NEEDLESS:
            del parts[-2:]
        parts += [_separator(parts[-1] if parts else ";", gap, text), short.get(text, text) if kind == "word" else text]
        gap = ""
    return "".join(parts)


def _separator(before: str, gap: str, after: str) -> str:
    """Return what must stay of a gap: a space between words, a line break that may end a statement."""
    if not gap:
        return ""
    if re.match(r"[\w$]", after) and re.match(r"[\w$]", before[-1]):
        return " "
    if after in ("+", "-") and before == after:
        return " "
    return "\n" if gap == "\n" and before[-1] not in _OPEN and after[0] not in _CLOSED else ""


def _short_names(source: str, tokens: list[_Token]) -> dict[str, str]:
    """Return the short name of each local name that can have one, the most frequent first."""
    code = re.sub(r"//[^\n]*", "", source)
    declared = {name for match in _DECLARED.finditer(code) for name in match.groups() if name}
    words = [text for kind, text in tokens if kind == "word"]
    names = sorted(declared - set(_fixed(tokens)), key=lambda name: (-words.count(name), name))
    free = (letter for letter in ascii_letters if letter not in words)
    return dict(zip(names, free, strict=False))


def _fixed(tokens: list[_Token]) -> Iterator[str]:
    """Yield the words that are, or may be, names of properties."""
    around = zip(chain([("sign", ";")], tokens), tokens, chain(tokens[1:], [("sign", ";")]), strict=False)
    brackets = [""]
    for (_, before), (kind, text), (_, after) in around:
        if kind == "template":
            yield from re.findall(r"[\w$]+", text)
        elif kind == "word":
            is_alone = brackets[-1] == "{" and before in "{," and after in ",}"
            if before in (".", "?.") or after == ":" or is_alone:
                yield text
        elif text in "([{":
            brackets.append(text)
        elif text in ")]}":
            brackets.pop()
