"""/api/account/websites/{id}/exclusions: the events that the owner of a website does not want to count.

The lists are those of tally/events/exclusions.py. A change applies to events that arrive after its answer; what is
stored is not changed.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_interface
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tally import errors
from tally.accounts import changes
from tally.accounts.audit import Entry
from tally.accounts.changes import WebsiteDeleted
from tally.api.auth import AUTH, Auth, Session, invalid
from tally.errors import ApiError
from tally.events.client import unmapped
from tally.events.exclusions import ADDRESSES, COUNTRIES, DEFAULT, HOSTNAMES, KINDS, NOT_SPAM, PAGES, REFERRERS, Note
from tally.events.urls import BadHost, normal_host, normal_path
from tally.http.responses import json_response
from tally.ingest.collector import COLLECTOR

# Of each list; an event is compared with all of them.
MAX_VALUES = 100
MAX_CHARACTERS = 500
MAX_NOTE = 50
REFERRER_SPAM, CRAWLERS, DATACENTERS = "referrer_spam", "crawlers", "datacenters"
ONLY_COUNTRIES = "only_countries"
# Fields beside the lists: the column of a website, and the two values, that for 0 first.
_SWITCHES: dict[str, tuple[str, tuple[Any, Any]]] = {
    REFERRER_SPAM: ("counts_referrer_spam", (True, False)),
    CRAWLERS: ("counts_crawlers", ("reject", "count")),
    DATACENTERS: ("excludes_datacenters", (False, True)),
    ONLY_COUNTRIES: ("only_countries", (False, True)),
}


async def exclusions(request: web.Request) -> web.Response:
    """GET: the lists, and the address of this request, which the owner may want to exclude."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    website = await auth.website(request, session, "configure")
    return _shown(request, session, website.id)


async def change(request: web.Request) -> web.Response:
    """PATCH: replace the lists that are sent."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, (*KINDS, *_SWITCHES))
    website = await auth.website(request, session, "configure")
    if DATACENTERS in sent and request.app[COLLECTOR].lists.datacenters is None:
        raise invalid(DATACENTERS, f"{DATACENTERS}: the server has no list of data centers (--datacenter-ranges).")
    switches = {_SWITCHES[name][0]: _switch(name, given) for name, given in sent.items() if name in _SWITCHES}
    lists = {kind: _values(kind, given) for kind, given in sent.items() if kind in KINDS}
    try:
        # Without the values: excluded addresses are personal data.
        entry = Entry("exclusions_changed", website.id, website.domain, {"lists": sorted(sent)})
        step = changes.change_exclusions
        person = None if session.key is not None else session.person.number
        await auth.change(session, website.account, entry, step, website.number, lists, switches, person)
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    return _shown(request, session, website.id)


def _shown(request: web.Request, session: Session, id: str) -> web.Response:
    auth = request.app[AUTH]
    website = auth.registry.website(id)
    if website is None:
        raise ApiError(errors.UNKNOWN_WEBSITE)
    exclusions = website.exclusions or DEFAULT
    collector = request.app[COLLECTOR]
    address = collector.sender(request).client.address
    # A browser's IPv6 address changes within its network.
    own = address if address.version == 4 else ip_interface(f"{address}/64").network
    switched = {
        REFERRER_SPAM: exclusions.counts_listed,
        CRAWLERS: website.counts_crawlers,
        ONLY_COUNTRIES: exclusions.only_countries,
    }
    if collector.lists.datacenters is not None:
        switched[DATACENTERS] = exclusions.excludes_datacenters
    switches = {name: _SWITCHES[name][1][on] for name, on in switched.items()}
    today = datetime.fromtimestamp(auth.clock.wall_ms() / 1000, UTC).date()
    lists = [
        {
            "name": one.name,
            "source": "bundled" if one.is_bundled else "file",
            "date": str(one.made),
            "entries": one.entries,
            "is_old": one.is_old(today),
        }
        for one in collector.lists.files
    ]
    entries = {
        kind: [_entry(auth, session, website.account, value, exclusions.notes[kind, value]) for value in values]
        for kind, values in exclusions.lists.items()
    }
    return json_response({"data": entries | switches | {"your_address": str(own), "lists": lists}})


def _entry(auth: Auth, session: Session, account: int, value: str, note: Note) -> dict[str, str | None]:
    # Addresses of members are not for programs.
    added_by = None if session.key is not None else auth.member_name(account, note.added_by)
    return {"value": value, "note": note.text, "added_by": added_by}


def _switch(name: str, given: Any) -> bool:
    """Return the value of a switch's column. Raises ApiError 400."""
    values = _SWITCHES[name][1]
    if type(given) is not type(values[0]) or given not in values:
        raise invalid(name, f"{name} must be {' or '.join(json.dumps(value) for value in values)}.")
    return values.index(given) == 1


def _values(kind: str, given: Any) -> dict[str, str | None]:
    """Return the different values of a list, each in its shortest form, with their notes, None where none was sent.

    Raises ApiError 400.
    """
    if not isinstance(given, list) or len(given) > MAX_VALUES:
        raise invalid(kind, f"{kind} must be a list of at most {MAX_VALUES} entries.")
    notes: dict[str, str | None] = {}
    for item in given:
        typed, note = _typed(kind, item)
        # An escape counts as what it stands for, so that a list as it is answered can be sent again.
        if not typed or len(unquote(typed)) > MAX_CHARACTERS:
            raise invalid(kind, f"{kind}: each must have 1 to {MAX_CHARACTERS} characters.")
        try:
            value = _CHECKS[kind](typed)
        except ValueError as bad:
            raise invalid(kind, f"{kind}: {bad}") from None
        notes[value] = note or notes.get(value, note)
    return notes


def _typed(kind: str, item: Any) -> tuple[str, str | None]:
    """Return the value and the note of an entry, None where it has none. Raises ApiError 400.

    `added_by`, as it is answered, may be sent again and changes nothing.
    """
    if isinstance(item, str):
        return item.strip(), None
    if not isinstance(item, dict) or not isinstance(item.get("value"), str) or item.keys() - _ENTRY:
        raise invalid(kind, f"{kind}: each entry must be a string, or an object with value and note.")
    if "note" not in item:
        return item["value"].strip(), None
    note = item["note"]
    if not isinstance(note, str) or len(note) > MAX_NOTE or not note.isprintable():
        raise invalid(kind, f"{kind}: a note must be text of at most {MAX_NOTE} characters, on one line.")
    return item["value"].strip(), note.strip()


def _address(text: str) -> str:
    """Return an address or a network. Raises ValueError."""
    try:
        given = ip_interface(text.partition("%")[0])
    except ValueError:
        raise ValueError(f"{text} is neither an IP address nor a range such as 203.0.113.0/24.") from None
    if given.ip != given.network.network_address:
        raise ValueError(f"{text} is no range: write {given.network}.")
    network = unmapped(given.network)
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _country(text: str) -> str:
    """Return a country's code. Raises ValueError."""
    if not re.fullmatch("[A-Z]{2}", text.upper()):
        raise ValueError(f"{text} is no country: write its two letters of ISO 3166-1, such as DE.")
    return text.upper()


def _page(text: str) -> str:
    """Return a pattern of pages. Raises ValueError."""
    if not text.startswith(("/", "*")) or "?" in text or "#" in text:
        raise ValueError(f"{text} is no page: write its path alone, such as /admin/*, where * is any text.")
    return re.sub(r"\*+", "*", normal_path(text))


def _hostname(text: str) -> str:
    """Return a host, or a pattern of its subdomains. Raises ValueError."""
    start = "*." if text.startswith("*.") else ""
    try:
        return start + normal_host(text.removeprefix(start))
    except BadHost:
        raise ValueError(f"{text} is no host: write it alone, such as www.example.com or *.example.com.") from None


def _referrer(text: str) -> str:
    """Return the host of a referrer as it is stored, without `www.`. Raises ValueError."""
    try:
        return normal_host(text).removeprefix("www.")
    except BadHost:
        raise ValueError(f"{text} is no host: write it alone, such as example.com.") from None


_ENTRY = frozenset(("value", "note", "added_by"))
_CHECKS: dict[str, Callable[[str], str]] = {
    ADDRESSES: _address,
    COUNTRIES: _country,
    PAGES: _page,
    HOSTNAMES: _hostname,
    REFERRERS: _referrer,
    NOT_SPAM: _referrer,
}
