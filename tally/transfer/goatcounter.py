"""Read the CSV export of GoatCounter, version 2: one row per hit. Its JSON export: tally/transfer/goatcounter_sums.py.

The file has 14 columns, the first of which begins with the version. It has no hostname and no row ids; a row is known
by all of its text, so two equal rows (same second, page, session) are one event.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tally.events.user_agent import Agents
from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.files import BadFile, Source
from tally.transfer.records import Record, Site, Skip, Table
from tally.transfer.times import utc_ms

COLUMNS = (
    *("2Path", "Title", "Event", "UserAgent", "Browser", "System", "Session", "Bot", "Referrer", "Referrer scheme"),
    *("Screen size", "Location", "FirstVisit", "Date"),
)
_YES = ("1", "true")
_CRAWLER = (Skip("requests of crawlers"),)


class GoatCounter:
    """Reads the rows of an export."""

    def __init__(self, source: Source, site: Site) -> None:
        self._name, self._domain = source.name, site.domain
        self._table, self._agents = Table(source, self._check), Agents()

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of the file. Raises BadFile."""
        return self._table.records(start)

    def _check(self, columns: Sequence[str]) -> None:
        if tuple(columns) == COLUMNS:
            return
        if columns[0].startswith("1"):
            raise BadFile(f"{self._name} is version 1 of GoatCounter's export: update GoatCounter and export again.")
        raise BadFile(f"{self._name} is no CSV export of GoatCounter (version 2): its first line is another one.")

    def read(self, value: Sequence[str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a row."""
        path, _, is_event, agent_text, browser, system, session, bot, referrer, scheme, size, place, _, date = value
        if bot not in ("", "0"):
            return _CRAWLER
        try:
            ts_ms = utc_ms(date)
        except ValueError:
            return (Rejection("invalid_field", "Date is like 2024-11-18T09:00:00Z.", "Date"),)
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "visitor": session,
            "hostname": self._domain,
            "id": "\n".join(value),
            **_agent(browser, system, size),
            **values.place(place[:2], place[3:]),
        }
        if not (browser or system) and agent_text:
            agent = self._agents.of(agent_text)
            if agent.crawler:
                return _CRAWLER
            event |= {"browser": agent.browser, "browser_version": agent.browser_version, "os": agent.os}
            event |= {"os_version": agent.os_version, "device": agent.device}
        if is_event.lower() in _YES:
            event |= {"type": "event", "event_name": path[: values.MAX_EVENT_NAME]}
        else:
            pathname, _, query = path.partition("?")
            event["pathname"] = values.pathname(pathname)
            if query:
                event |= values.campaign(query)
        if referrer:
            event |= source_of(referrer, scheme)
        return (event,)


@values.cached
def _agent(browser: str, system: str, size: str) -> dict[str, str]:
    """Return browser, system and device as fields of a line."""
    os, os_version = values.system(system)
    name, version = values.split_version(browser)
    return {
        "os": os,
        "os_version": os_version,
        "browser": values.browser(name),
        "browser_version": values.major(version),
        "device": values.device_of(os, _width(size)),
    }


def source_of(referrer: str, scheme: str) -> dict[str, str]:
    """Return where a hit came from: a host, what a generated name stands for (scheme g), or a campaign."""
    if scheme == "c":
        return {"utm_source": values.label(referrer)}
    if scheme == "g":
        return values.source(referrer)
    return {"referrer": referrer} if scheme != "o" else {}


def _width(size: str) -> int:
    width = size.partition(",")[0].partition(".")[0]
    return int(width) if width.isascii() and width.isdecimal() and len(width) < 6 else 0
