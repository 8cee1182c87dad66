"""Base paths: the prefix such as /stats below which the server may be reached.

A prefix has only characters that need no quoting in HTML, cookies, YAML and URLs, and no segment that begins with a
dot. How a request arrives below one is in tally/http/request_paths.py.
"""

import re
from urllib.parse import urlsplit

_PREFIX = re.compile(r"((?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8})/?")


def normal_prefix(text: str) -> str | None:
    """Return a prefix without a slash at its end, '' for the root, None if it is malformed."""
    if text in ("", "/"):
        return ""
    match = _PREFIX.fullmatch(text)
    return match[1] if match else None


def public_url(base_url: str, prefix: str) -> str:
    """Return the public address with the prefix, which `base_url` may have already; '' without a `base_url`."""
    if not base_url or urlsplit(base_url).path.endswith(prefix):
        return base_url
    return base_url + prefix
