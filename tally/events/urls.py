"""Hosts and URLs: strict parsing of the texts that clients send.

There is one parser of hosts, so that the host that is compared with a registered domain is the host that a browser
would visit. Where URL parsers are known to differ, the text is refused.

- A host is kept as lower-case A-labels without trailing dot, as a canonical IPv4, or as a bracketed IPv6 address.
- A last label that looks like a number makes it an IPv4 address or an error: browsers read `0x7f.1` as an address.
- Labels may contain `_` and any hyphens, since such hosts exist; `xn--` labels are kept as they are.
- The authority of a URL ends at the first of / ? #, its host comes after the @. A backslash, white space, a second @ or
  a port above 65535 in it is refused; so is a control character anywhere.
- A path has one spelling (`normal_path`): that of the WHATWG URL parser, with escapes in upper case and unreserved
  characters decoded. The query is kept as sent; only the utm values are decoded.

Errors are BadHost and BadUrl. Their messages do not repeat the text, which may be long or hostile, except in
`registrable_domain`, whose input the reader has typed.
"""

import ipaddress
import math
import re
import string
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

import idna

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

MAX_HOST_CHARACTERS = 253  # RFC 1035 2.3.4: 255 octets on the wire
MAX_UNICODE_LABEL = 59  # 63 less "xn--"; punycode has at least one character for each of the label
MAX_PORT = 65535  # RFC 6335 6: 16 bits
MAX_PATH_CHARACTERS = 8_192  # of a stored path: docs/reference/limits.md
MAX_UTM_CHARACTERS = 100  # the maximum of a label in docs/reference/collect-api.md

# The most viewed pages of a website; about 1 MB.
_CACHED_PAGES = 2_048
_SHORT = 120
# More than all requests of a client convert in a minute; 1 MB at most.
_CACHED_LABELS = 2_048

_TOO_LONG = f"A host has at most {MAX_HOST_CHARACTERS} characters."
_LABEL = r"[A-Za-z0-9_-]{1,63}"  # RFC 1035 2.3.4: 63 octets
_CONTROLS = r"\x00-\x1f\x7f"
# WHATWG URL, "ends in a number": all digits, or 0x and hex digits.
_NAME = re.compile(rf"(?:{_LABEL}\.)*(?![0-9]+\Z|0[xX][0-9A-Fa-f]*\Z){_LABEL}")
_NUMBER_LAST = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_DOTS = re.compile("[.\u3002\uff0e\uff61]")  # UTS 46 treats these three as dots
_WEB_URL = re.compile(
    rf"[hH][tT][tT][pP][sS]?://([^/?#{_CONTROLS}]*)(/[^?#{_CONTROLS}]*)?(?:\?([^#{_CONTROLS}]*))?(?:#[^{_CONTROLS}]*)?"
)
_ORIGIN = re.compile(rf"[hH][tT][tT][pP][sS]?://([^/?#@\\\s{_CONTROLS}]+)")
_APP_URL = re.compile(
    rf"(?:android|ios)-app://({_LABEL}(?:\.{_LABEL})*)(?:[/?#][^{_CONTROLS}]*)?", re.IGNORECASE | re.ASCII
)
_APP_ID = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_APP_ORIGIN = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?", re.ASCII)
_APP_PAGE = re.compile(
    rf"([A-Za-z][A-Za-z0-9+.-]*)://({_LABEL}(?:\.{_LABEL})*)(:[0-9]{{1,5}})?"
    rf"(/[^?#{_CONTROLS}]*)?(?:\?([^#{_CONTROLS}]*))?(?:#[^{_CONTROLS}]*)?",
    re.ASCII,
)
_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
# WHATWG URL, "path percent-encode set": all ASCII characters but these and % are encoded, \ is read as /, and tabs and
# line breaks are removed.
_PLAIN = r"!$&-;=@-\[\]_a-z|~"
_KEPT_ESCAPE = "%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"  # of all but unreserved characters
_NORMAL = re.compile(rf"[{_PLAIN}]*+(?:{_KEPT_ESCAPE}[{_PLAIN}]*+)*+")
_TO_ENCODE = re.compile(rf"[^%{_PLAIN}]+")
_BACKSLASHES = {ord("\\"): "/", **dict.fromkeys(map(ord, "\t\n\r"))}
# An escape, and before it a % that begins none, with at most one digit: decoded, a digit would complete it.
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]?(?=%))?%([0-9A-Fa-f]{2})")
# RFC 3986 2.3: an escape of these is equivalent to the character.
_UNRESERVED = {f"{ord(character):02X}": character for character in f"{string.ascii_letters}{string.digits}-._~"}
_AMBIGUOUS = re.compile(r"[\\\s]")
_CONTROL = re.compile(f"[{_CONTROLS}]")


class BadHost(ValueError):
    """The text is no host; the message has the reason."""


class BadUrl(ValueError):
    """The text is no URL of the required kind; the message has the reason."""


class TooManyLabels(Exception):
    """The limit on conversions of internationalised labels is reached."""


class WebUrl(NamedTuple):
    """An http or https URL without scheme, userinfo, port and fragment; path and query as sent. `origin` is set where
    the scheme is another one, such as capacitor://localhost: such a URL is only valid on pages of that origin."""

    host: str
    path: str
    query: str
    origin: str = ""


def normal_host(text: str) -> str:
    """Return the one spelling of a host: lowercase A-labels, canonical IPv4 or bracketed IPv6. Raises BadHost."""
    if _is_plain(text):
        return text.lower()
    if text.startswith("["):
        return _ipv6_host(text)
    if len(text) > MAX_HOST_CHARACTERS + 1:  # a trailing dot does not count
        raise BadHost(_TOO_LONG)
    name = text if text.isascii() else _ascii_name(text)
    name = name.removesuffix(".").lower()
    if _is_plain(name):
        return name
    if _NUMBER_LAST.fullmatch(name):
        return _ipv4_host(name)
    raise BadHost(
        "A host is made of labels between dots, each of 1 to 63 letters, digits, hyphens or underscores, "
        f"and has at most {MAX_HOST_CHARACTERS} characters."
    )


def readable_host(host: str) -> str:
    """Return a normal host as people write it, with U-labels for its A-labels; unchanged where it would not be read so.

    `normal_host` of the result is the host.
    """
    if "xn--" not in host:
        return host
    try:
        text = ".".join(idna.ulabel(label) if label.startswith("xn--") else label for label in host.split("."))
        return text if normal_host(text) == host else host
    except (UnicodeError, BadHost):
        return host


def normal_host_part(text: str) -> str:
    """Return any part of a host with A-labels for its other labels; a label that has none stays as it is."""
    if text.isascii() or len(text) > MAX_HOST_CHARACTERS:
        return text
    return ".".join(label if label.isascii() else _a_label(label) for label in _DOTS.split(text))


def _a_label(label: str) -> str:
    try:
        return a_labels.of(label)
    except BadHost:
        return label


def _is_plain(text: str) -> bool:
    """Return whether the text needs lowercasing only, as nearly every host does."""
    return len(text) <= MAX_HOST_CHARACTERS and _NAME.fullmatch(text) is not None


def _ascii_name(text: str) -> str:
    """Return the name with A-labels for its non-ASCII labels; ASCII ones are unchanged."""
    labels: list[str] = []
    characters_left = MAX_HOST_CHARACTERS + 1
    for label in _DOTS.split(text):
        labels.append(label if label.isascii() else a_labels.of(label))
        characters_left -= len(labels[-1]) + 1
        if characters_left < -1:  # idna takes a microsecond per character: stop early at a name of many labels
            raise BadHost(_TOO_LONG)
    return ".".join(labels)


class ALabels:
    """The A-labels of internationalised labels. A conversion takes 5 µs per character, so the last ones are cached.

    `converted` counts the characters that were converted, 4 more for each label: its prefix xn--. From `limit` on, a
    label that is not cached raises TooManyLabels.
    """

    def __init__(self) -> None:
        self.converted = 0
        self.limit = math.inf
        self._cached = lru_cache(_CACHED_LABELS)(self._convert)

    def of(self, label: str) -> str:
        """Return the A-label of a label that is not ASCII. Raises BadHost."""
        converted = self._cached(label) if len(label) <= MAX_UNICODE_LABEL else ""
        if not converted:
            raise BadHost("The host has a label that is not a valid internationalised name.")
        return converted

    def _convert(self, label: str) -> str:
        if self.converted >= self.limit:
            raise TooManyLabels
        self.converted += 4 + len(label)
        try:
            return idna.encode(label, uts46=True, transitional=False).decode("ascii")
        except UnicodeError:  # idna's own errors are UnicodeErrors
            return ""


a_labels = ALabels()


def _ipv4_host(name: str) -> str:
    try:
        return str(ipaddress.IPv4Address(name))
    except ValueError:
        raise BadHost("A host that ends in a number must be an IPv4 address such as 192.0.2.7.") from None


def _ipv6_host(text: str) -> str:
    inner = text[1:-1]
    try:
        if not text.endswith("]") or "%" in inner:  # a zone id is valid on one machine only
            raise ValueError(inner)
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        raise BadHost("A host in brackets must be an IPv6 address such as [2001:db8::7].") from None
    if address.ipv4_mapped is not None:  # Python 3.13 and browsers write these differently: as browsers do
        low = int(address.ipv4_mapped)
        return f"[::ffff:{low >> 16:x}:{low & 0xFFFF:x}]"
    return f"[{address.compressed}]"


def normal_path(path: str) -> str:
    """Return the one spelling of a path: as the WHATWG URL parser writes it, escapes in upper case, unreserved
    characters decoded. Unicode is not normalised: a server may have a page of each form.

    A path as browsers send it has this spelling already, and takes less than 1 µs.
    """
    path = normal_path_part(path)
    return _without_dots(path) if "/." in path else path


def normal_path_part(text: str) -> str:
    """Return any part of a path in the spelling of stored paths. Segments of dots are kept: a name may follow them."""
    if _NORMAL.fullmatch(text):
        return text
    text = _TO_ENCODE.sub(_encoded, text.translate(_BACKSLASHES))
    return _ESCAPE.sub(_normal_escape, text) if "%" in text else text


def _encoded(match: re.Match[str]) -> str:
    return "%" + match[0].encode("utf-8", "replace").hex("%").upper()


def _normal_escape(match: re.Match[str]) -> str:
    before, code = match[1] or "", match[2].upper()
    character = _UNRESERVED.get(code)
    is_kept = character is None or (before and character in string.hexdigits)
    return f"{before}%{code}" if is_kept else f"{before}{character}"


def _without_dots(path: str) -> str:
    first, *segments = path.split("/")
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join((first, *kept))


def parse_web_url(text: str) -> WebUrl:
    """Return host, path ("/" where empty) and query (without "?") of an http(s) URL. Raises BadUrl."""
    host, path, query = _take_apart(text)
    path = normal_path(path)
    if len(path) > MAX_PATH_CHARACTERS:
        raise BadUrl(f"Its path has at most {MAX_PATH_CHARACTERS:,} characters, percent-encoded.")
    return WebUrl(host, path, query)


def url_host(text: str) -> str:
    """Return the host of an http(s) URL. Raises BadUrl."""
    return _take_apart(text)[0]


def parse_page_url(text: str) -> WebUrl:
    """The same with a cache, for the pages of a website: a tenth of the time."""
    # Queries and userinfo may contain personal data, so they are not cached.
    if len(text) > _SHORT or "?" in text or "#" in text or "@" in text:
        return parse_web_url(text)
    return _page_url_of(text)


def app_page_url(text: str) -> WebUrl | None:
    """Return the URL of a page in a web view, of any scheme but http and https; None where the text is none."""
    match = _APP_PAGE.fullmatch(text)
    if match is None or match[1].lower() in ("http", "https") or len(match[2]) > MAX_HOST_CHARACTERS:
        return None
    host, port, path = match[2].lower(), match[3] or "", normal_path(match[4] or "/")
    if len(path) > MAX_PATH_CHARACTERS:
        return None
    return WebUrl(host, path, match[5] or "", f"{match[1].lower()}://{host}{port}")


@lru_cache(_CACHED_PAGES)
def _page_url_of(text: str) -> WebUrl:
    return parse_web_url(text)


def _take_apart(text: str) -> tuple[str, str, str]:
    match = _WEB_URL.fullmatch(text)
    if match is None:
        raise BadUrl(_url_fault(text))
    authority, path, query = match.groups()
    return _authority_host(authority), path or "/", query or ""


def _url_fault(text: str) -> str:
    if _CONTROL.search(text):
        return "The URL holds a control character; it must be percent-encoded."
    return "A full URL begins with http:// or https://."


def _authority_host(authority: str) -> str:
    if _is_plain(authority):
        return authority.lower()
    if _AMBIGUOUS.search(authority):  # browsers end the host at a backslash, RFC 3986 does not
        raise BadUrl("The URL has white space or a backslash before its path.")
    userinfo, _, place = authority.rpartition("@")
    if "@" in userinfo:
        raise BadUrl("The URL has more than one @ before its path.")
    return _place_host(place)


def _place_host(place: str) -> str:
    """Return the host of host[:port]."""
    if _is_plain(place):
        return place.lower()
    match = _PLACE.fullmatch(place)
    if match is None or (match[2] is not None and int(match[2]) > MAX_PORT):
        raise BadUrl(f"The host may be followed by : and a port from 0 to {MAX_PORT}, and nothing else.")
    try:
        return normal_host(match[1])
    except BadHost as wrong:
        raise BadUrl(str(wrong)) from None


class Utm(NamedTuple):
    """The utm values of a URL; "" where absent."""

    source: str = ""
    medium: str = ""
    campaign: str = ""
    content: str = ""
    term: str = ""


NO_UTM = Utm()
UTM_FIELDS = tuple(f"utm_{name}" for name in Utm._fields)


def utm(query: str) -> Utm:
    """Return the utm values of a raw query, decoded, at most 100 characters each.

    The first of two wins, an empty one included. A value with NUL counts as absent: no string may hold one.
    """
    if "utm_" not in query:
        return NO_UTM
    raw = _raw_utm(query)
    return Utm(*[_utm_value(raw[key])[:MAX_UTM_CHARACTERS] if key in raw else "" for key in UTM_FIELDS])


def cut_utm(query: str) -> list[str]:
    """Return the names of the utm values of a raw query that `utm` cuts."""
    raw = _raw_utm(query)
    return [key for key in UTM_FIELDS if len(_utm_value(raw.get(key, ""))) > MAX_UTM_CHARACTERS]


def _raw_utm(query: str) -> dict[str, str]:
    raw: dict[str, str] = {}
    for part in query.split("&"):
        if part.startswith("utm_"):
            name, _, value = part.partition("=")
            raw.setdefault(name, value)
    return raw


def _utm_value(raw: str) -> str:
    value = unquote_plus(raw, errors="replace") if "%" in raw or "+" in raw else raw
    return "" if "\0" in value else value


def has_controls(text: str) -> bool:
    """Return whether a text holds a control character."""
    return _CONTROL.search(text) is not None


def referrer_host(text: str) -> str:
    """Return what is stored of a referrer: the host without one leading `www.`, or the id of an app's URL.

    Raises BadUrl.
    """
    app = _APP_URL.fullmatch(text)
    if app is not None:
        if len(app[1]) > MAX_HOST_CHARACTERS:
            raise BadUrl(_TOO_LONG)
        return app[1].lower()
    return url_host(text).removeprefix("www.")


def imported_referrer(text: str) -> str:
    """Return the host of a referrer in a file: of a URL as collect takes it, or of the host alone, as an export has it.

    Raises BadUrl.
    """
    if "://" in text:
        return referrer_host(text)
    try:
        return url_host(f"https://{text}").removeprefix("www.")
    except BadUrl:
        # The id of an app may end in a number, as no host does.
        if len(text) <= MAX_HOST_CHARACTERS and _APP_ID.fullmatch(text):
            return text.lower()
        raise


def origin_host(text: str) -> str:
    """Return the host of an Origin header: http(s)://host[:port] and nothing else. Raises BadUrl."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        raise BadUrl("An origin is http:// or https://, a host and perhaps a port, and nothing else.")
    return _place_host(match[1])


def exact_origin(text: str) -> str:
    """Return an extra allowed origin as a browser or web view sends it: no path, no default port.

    Raises BadHost.
    """
    scheme, separator, place = text.lower().partition("://")
    if separator and scheme in ("http", "https"):
        try:
            host = origin_host(text)
        except BadUrl as bad:
            raise BadHost(f"{text!r} is not an origin: {bad}") from None
        port = re.search(r":([0-9]+)$", place)
        is_default = port is None or int(port[1]) == (443 if scheme == "https" else 80)
        return f"{scheme}://{host}" + ("" if is_default or port is None else f":{int(port[1])}")
    if not separator or not _APP_ORIGIN.fullmatch(text):
        raise BadHost(f"{text!r} is not an origin: write scheme://host, such as capacitor://localhost.")
    return text.lower()


@lru_cache(maxsize=1_024)  # one entry for each website with extra origins
def origin_hosts(origins: frozenset[str]) -> frozenset[str]:
    """Return the hosts of exact origins, in the form in which referrers are stored: without one leading `www.`."""
    places = (origin.partition("://")[2] for origin in origins)
    return frozenset(re.sub(r":[0-9]+$", "", place).removeprefix("www.") for place in places)


def external_referrer(referrer: str, domain: str, origins: frozenset[str]) -> str:
    """Return a stored referrer, or '' where it is a page of the website itself.

    Its own hosts are the domain, its subdomains and the hosts of the allowed extra origins.
    """
    if not referrer or belongs_to(referrer, domain) or (origins and referrer in origin_hosts(origins)):
        return ""
    return referrer


def belongs_to(host: str, domain: str) -> bool:
    """Return whether a normal host is the domain or a subdomain of it; an address has no subdomains."""
    if host == domain:
        return host != ""
    return domain != "" and host.endswith("." + domain) and not is_address(domain)


def is_address(host: str) -> bool:
    """Return whether a normal host is an IPv4 or IPv6 address."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


class DomainNote(NamedTuple):
    """A change of what an owner typed: a code for pages, the sentence, and what it names."""

    code: str
    message: str
    values: dict[str, str]


def registrable_domain(text: str) -> tuple[str, list[DomainNote]]:
    """Return the domain to register for what an owner typed, and a note for each change.

    Raises BadHost, also for a public suffix (the private section of the list included): all its subdomains, also those
    of other owners, would be allowed to send events.
    """
    host, notes = _typed_host(text.strip())
    suffixes = _public_suffixes()
    short = host.removeprefix("www.")
    if short != host and not suffixes.is_public(short):  # www.com is a domain of its own
        message = f"The leading www. is dropped: {short} covers {host} too."
        notes.append(DomainNote("www_dropped", message, {"domain": short, "typed": host}))
        host = short
    if suffixes.is_public(host):
        raise BadHost(
            f"{host} is a public suffix: others own domains below it. Give your own domain, such as example.{host}."
        )
    return host, notes


@cache
def _public_suffixes() -> "PublicSuffixList":
    """Return the list of public suffixes. Reading it takes 50 ms, and it takes 1.4 MB: only some commands need it."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=False)  # unknown ones such as `intranet` are names


def _typed_host(typed: str) -> tuple[str, list[DomainNote]]:
    if typed.count(":") > 1 and "[" not in typed and "/" not in typed:
        typed = f"[{typed}]"  # an IPv6 address as people write it
    url = typed if "://" in typed else f"https://{typed}"
    if "@" in typed and url != typed:
        raise BadHost(f"{typed!r} looks like an e-mail address. Give the domain alone, such as example.com.")
    match = _WEB_URL.fullmatch(url)
    try:
        if match is None:
            raise BadUrl(_url_fault(url))
        host = _authority_host(match[1])
    except BadUrl as wrong:
        raise BadHost(f"{typed!r} is not a domain. {wrong} Give the name alone, such as example.com.") from None
    return host, _notes_on(typed, match[1], host)


def _notes_on(typed: str, authority: str, host: str) -> list[DomainNote]:
    place = _PLACE.fullmatch(authority.rpartition("@")[2])
    name, port = place.groups() if place else (host, None)
    notes = []
    if typed != authority:
        notes.append(DomainNote("host_alone", f"Of the URL, only its host is used: {host}.", {"domain": host}))
    if port is not None:
        message = f"The port {port} is dropped: a website covers every port of its host."
        notes.append(DomainNote("port_dropped", message, {"port": port}))
    if not name.isascii():
        message = f"{name} is kept as {host}, the form in which browsers send it."
        notes.append(DomainNote("kept_as_sent", message, {"typed": name, "domain": host}))
    return notes
