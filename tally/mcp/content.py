"""What a tool returns to a model: the read API's `data` and `meta`, with clean texts and of bounded size.

Texts come from visitors, that is from strangers. Characters that a person does not see, but a model reads, are removed:
control and format characters, marks that change the direction of text, and tags. Joiners stay, which emoji and
several scripts need. An answer above MAX_BYTES loses rows at the end of its lists, the outermost first.
"""

import re
from typing import Any

import orjson

MAX_BYTES = 50_000
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]+"
)


def tool_result(content: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call: the content as `structuredContent`, and the same as compact text."""
    # Some values are JSON that was stored as such (orjson.Fragment), whose texts are cleaned too.
    cleaned = _clean(orjson.loads(orjson.dumps(content)))
    excess = len(orjson.dumps(cleaned)) - MAX_BYTES
    if excess > 0:
        _cut(cleaned["data"], excess)
        cleaned["truncated"] = True
        # A further page would begin after the rows that were cut.
        cleaned["meta"].pop("next_cursor", None)
    text = orjson.dumps(cleaned).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": cleaned}


def tool_error(message: str) -> dict[str, Any]:
    """Return the result of a call that failed by its arguments: the model reads the message and corrects itself."""
    return {"content": [{"type": "text", "text": _INVISIBLE.sub("", message)}], "isError": True}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _INVISIBLE.sub("", value)
    if isinstance(value, list):
        return [_clean(child) for child in value]
    if isinstance(value, dict):
        return {_INVISIBLE.sub("", name): _clean(child) for name, child in value.items()}
    return value


def _cut(data: Any, excess: int) -> None:
    """Remove rows until `excess` bytes are gone; a list keeps its first row, whose own lists may be cut."""
    level = [data]
    while level and excess > 0:
        for rows in sorted((node for node in level if isinstance(node, list)), key=len, reverse=True):
            while excess > 0 and len(rows) > 1:
                excess -= len(orjson.dumps(rows.pop())) + 1
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
