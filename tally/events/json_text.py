"""JSON that clients and files send: bytes -> values, two mistakes of theirs corrected.

- A byte-order mark before the JSON is ignored (RFC 8259, 8.1).
- A lone surrogate, which `"Hello 😀".slice(0, 7)` leaves in JavaScript, becomes U+FFFD, as browsers' own encoders write
  it. In JSON it can only be an escape such as \\ud83d: as bytes it is no UTF-8, and that remains an error.

Everything else that is not JSON is an error: NaN, bytes that are no UTF-8, excessive depth.
"""

import re
from codecs import BOM_UTF8
from typing import Any

import orjson

# Every escape is matched, so that the backslash of an escaped one begins none. A pair is kept.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def read_json(text: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError."""
    try:
        return orjson.loads(text)
    except ValueError:
        return orjson.loads(_ESCAPE.sub(_without_lone_surrogate, text.removeprefix(BOM_UTF8)))


def _without_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape[1] else escape[0]
