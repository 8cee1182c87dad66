"""Active visitors: of each website that is requested, its visitors of the last 300 seconds and the page of each.

Counting the rows of the window costs 1 µs each: 70 ms at 200 events a second. So the result is kept in memory as long
as it is requested, and every commit updates it: a response then costs 0.1 µs for each page. What cannot be answered
exactly from memory is answered from the file. Used by the event loop only, except for `read_snapshot`, which runs on
a reader's thread; no await stands between reading and changing what is kept.

- A visitor is active while its latest traffic event lies in the window. All its events of 300 seconds are one visit
  (only a longer gap ends one), so the end of its latest visit and the page of that visit's latest view are enough. The
  writer has both for every visit that it changes (tally/events/sessions.py), late events and joined visits included;
  the store passes them on before it answers (`hand_over`). Of one visitor the latest end counts, of equal ends the
  last one passed on.
- Visits that are passed on while a snapshot is read (`begin`, `read_snapshot`, `fill`) replace those of the snapshot:
  they are as new, or newer, or of an earlier visit.
- Visitors expire by the second in which they were last seen. An event does not move them: when a second expires, its
  visitors that were seen again move to a later one. So each is checked about once in a window.
- `present` returns None after the clock was set back, after another process has written, and for a website with too
  many visitors.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import NamedTuple

from tally.accounts.websites import day_offset_ms
from tally.engine.values import REALTIME_MS as WINDOW_MS
from tally.events.visits import VISIT_GAP_MS, Visit
from tally.storage.sql import events as sql

# docs/reference/read-api.md: "at most 100 pages".
MAX_PAGES = 100
# A dashboard sends a request every few seconds. After a longer pause a snapshot is read again.
ASKED_MS = 120_000
# Over all websites, three times the visitors of 200 events a second. 230 bytes each, 12 MB at most.
MAX_WEBSITES = 50
MAX_VISITORS = 50_000
# 20,000 texts of 200 characters are 7 MB, of the usual length 3 MB.
MAX_TEXTS = 20_000
LONGEST_TEXT = 200
# Events may arrive while a snapshot is read. Later ones than this mean that the clock was set back.
_LATER_MS = 60_000
_NO_PAGE = -1

Here = tuple[int, int]
"""When a visitor was last seen, and the label of its page."""


class Present(NamedTuple):
    """The number of active visitors, and (label, visitors) of each page that may be among the MAX_PAGES first."""

    active: int
    pages: list[tuple[int, int]]


class Seen(NamedTuple):
    """The result of `read_snapshot`: what is active at that time, and all visitors to cache; None if too many."""

    present: Present
    here: Mapping[int, Here] | None


class Watch:
    """The active visitors of one website."""

    def __init__(self, now_ms: int) -> None:
        self.asked_ms = now_ms
        self.is_filled = False
        self.visitors: dict[int, Here] = {}
        self._pages: dict[int, int] = {}
        # Second in which visitors were last seen, or an earlier one -> visitors; each is in one list.
        self._leaving: dict[int, list[int]] = {}
        self._begin_ms = now_ms - WINDOW_MS
        self._newest_ms = 0

    def put(self, visitor: int, last_ms: int, page: int) -> None:
        """Record a visitor's latest visit; earlier visits are ignored."""
        old = self.visitors.get(visitor)
        if old is None:
            # Also where it has expired already: it then expires again at the next check.
            self._leaving.setdefault(last_ms // 1000, []).append(visitor)
        elif last_ms < old[0]:
            return
        else:
            self._leave(old[1])
        self.visitors[visitor] = last_ms, page
        self._pages[page] = self._pages.get(page, 0) + 1
        if last_ms > self._newest_ms:
            self._newest_ms = last_ms

    def fill(self, here: Mapping[int, Here]) -> None:
        """Add the visitors of a snapshot, unless a later visit was recorded since it was requested."""
        for visitor, (last_ms, page) in here.items():
            known = self.visitors.get(visitor)
            if known is None or known[0] < last_ms:
                self.put(visitor, last_ms, page)
        self.is_filled = True

    def present(self, now_ms: int) -> Present | None:
        """Return what is active; None where it is not known: there are later events, or some have expired."""
        if self._newest_ms > now_ms or self._begin_ms > now_ms - WINDOW_MS:
            return None
        self.expire_before(now_ms - WINDOW_MS)
        return _present(len(self.visitors), self._pages)

    def expire_before(self, begin_ms: int) -> None:
        """Remove the visitors that were last seen before this time: 0.6 µs each."""
        self._begin_ms = max(self._begin_ms, begin_ms)
        # At most 301 seconds; some visitors of the last one may stay.
        for second in [second for second in self._leaving if second <= self._begin_ms // 1000]:
            for visitor in self._leaving.pop(second):
                last_ms, page = self.visitors[visitor]
                if last_ms < self._begin_ms:
                    del self.visitors[visitor]
                    self._leave(page)
                else:
                    self._leaving.setdefault(last_ms // 1000, []).append(visitor)

    def _leave(self, page: int) -> None:
        left = self._pages[page] - 1
        if left:
            self._pages[page] = left
        else:
            del self._pages[page]


class Realtime:
    """The websites that are requested, and the texts of their pages."""

    def __init__(self, most_websites: int = MAX_WEBSITES, most_visitors: int = MAX_VISITORS) -> None:
        self._most_websites, self._most_visitors = most_websites, most_visitors
        self._watches: dict[int, Watch] = {}
        # Websites with too many visitors -> when that was found.
        self._refused_ms: dict[int, int] = {}
        self._texts: dict[int, str] = {}

    @property
    def visitors(self) -> int:
        """Return how many visitors are kept, over all websites."""
        return sum(len(watch.visitors) for watch in self._watches.values())

    def present(self, website: int, now_ms: int) -> Present | None:
        """Return what is active, from memory; None where the file has to be read."""
        watch = self._watches.get(website)
        present = watch.present(now_ms) if watch is not None and watch.is_filled else None
        if watch is not None and present is not None:
            watch.asked_ms = now_ms
        return present

    def begin(self, website: int, now_ms: int) -> Watch | None:
        """Return a watch to fill with the result of `read_snapshot`; None if one exists or none is allowed."""
        if website in self._watches or website in self._refused_ms or len(self._watches) >= self._most_websites:
            return None
        watch = self._watches[website] = Watch(now_ms)
        return watch

    def fill(self, website: int, watch: Watch, seen: Seen | None) -> None:
        """Fill the watch that `begin` returned, unless it was removed; `seen` is None if `read_snapshot` failed."""
        if self._watches.get(website) is not watch:
            return
        if seen is None:
            del self._watches[website]
        elif seen.here is None or self.visitors + len(seen.here) > self._most_visitors:
            self._refuse(website, watch.asked_ms)
        else:
            watch.fill(seen.here)

    def hand_over(self, visits: Mapping[tuple[int, int, int], Visit], offsets: Mapping[int, int]) -> None:
        """Record the visits that a commit has changed, by (website, visitor, ordinal): 1 µs for each that is kept.

        offsets: what their times have more than UTC, by website. What is kept here is in UTC.
        """
        if not self._watches:
            return
        for (website, visitor, _), visit in visits.items():
            watch = self._watches.get(website)
            if watch is not None:
                watch.put(visitor, visit.end_ms - offsets[website], visit.exit_page if visit.views else _NO_PAGE)

    def clear(self) -> None:
        """Remove everything, after another process has written."""
        self._watches.clear()
        self._refused_ms.clear()
        self._texts.clear()

    def sweep(self, now_ms: int) -> None:
        """Once a second: remove expired visitors, and websites that are not requested or have too many visitors."""
        for website, watch in list(self._watches.items()):
            # In both directions: after the clock was set back, what is kept is useless for a long time.
            if abs(now_ms - watch.asked_ms) > ASKED_MS:
                del self._watches[website]
            elif watch.is_filled:
                watch.expire_before(now_ms - WINDOW_MS)
        for website in [number for number, ms in self._refused_ms.items() if abs(now_ms - ms) > ASKED_MS]:
            del self._refused_ms[website]
        while self.visitors > self._most_visitors:
            self._refuse(max(self._watches, key=lambda website: len(self._watches[website].visitors)), now_ms)

    def _refuse(self, website: int, now_ms: int) -> None:
        del self._watches[website]
        self._refused_ms[website] = now_ms

    def texts(self, present: Present) -> dict[int, str]:
        """Return the known texts of its pages, by label."""
        return {page: self._texts[page] for page, _ in present.pages if page in self._texts}

    def learn(self, texts: Iterable[tuple[int, str]]) -> None:
        """Keep texts of labels."""
        self._texts.update((label, text) for label, text in texts if len(text) <= LONGEST_TEXT)
        if len(self._texts) > MAX_TEXTS:
            # Emptying the cache costs one lookup for each text in use; less than maintaining an order at every hit.
            self._texts.clear()


def _present(active: int, pages: Mapping[int, int]) -> Present:
    listed = [(page, visitors) for page, visitors in pages.items() if page != _NO_PAGE]
    if len(listed) > MAX_PAGES:
        # Equal counts are ordered by text, so all with the same count as the last one are candidates.
        least = sorted((visitors for _, visitors in listed), reverse=True)[MAX_PAGES - 1]
        listed = [page for page in listed if page[1] >= least]
    return Present(active, listed)


def most_visited(present: Present, texts: Mapping[int, str]) -> list[tuple[str, int]]:
    """Return the first pages as (path, visitors): by visitors descending, then by path."""
    first = nsmallest(MAX_PAGES, ((-visitors, texts[page]) for page, visitors in present.pages))
    return [(path, -visitors) for visitors, path in first]


def read_snapshot(connection: sqlite3.Connection, website: int, now_ms: int, is_kept: bool) -> Seen:
    """Read what is active at `now_ms` from the file; with `is_kept` also visitors that were seen slightly later."""
    offset_ms = day_offset_ms(connection, website)
    (newest_ms,) = connection.execute(*sql.newest(website, now_ms + offset_ms)).fetchone()
    here = _here(connection, website, now_ms + offset_ms, now_ms + offset_ms)
    present = _present(len(here), Counter(page for _, page in here.values()))
    if not is_kept or (newest_ms or 0) > now_ms + offset_ms + _LATER_MS:
        return Seen(present, None)
    if newest_ms is not None:
        here = _here(connection, website, now_ms + offset_ms, newest_ms)
    return Seen(present, {visitor: (last_ms - offset_ms, page) for visitor, (last_ms, page) in here.items()})


def _here(connection: sqlite3.Connection, website: int, now_ms: int, until_ms: int) -> dict[int, Here]:
    """Return the visitors with an event in the window of `now_ms`, or after it up to `until_ms`: 1 µs an event."""
    after_ms = now_ms - WINDOW_MS - 1
    here: dict[int, Here] = {}
    without_view: dict[int, int] = {}  # visitor -> the visit whose latest view is searched
    for visitor, visit, is_view, page, ts in connection.execute(*sql.latest(website, after_ms, until_ms)):
        if visitor not in here:
            here[visitor] = ts, page if is_view else _NO_PAGE
            if not is_view:
                without_view[visitor] = visit
        elif is_view and without_view.pop(visitor, None) is not None:
            here[visitor] = here[visitor][0], page
    while without_view:
        # A visitor without an event in 30 minutes began its visit after them.
        until_ms, after_ms = after_ms, after_ms - VISIT_GAP_MS
        went_on: dict[int, int] = {}
        earlier = sql.latest(website, after_ms, until_ms, list(without_view))
        for visitor, visit, is_view, page, _ in connection.execute(*earlier):
            if without_view.get(visitor) == visit:
                went_on[visitor] = visit
                if is_view:
                    here[visitor] = here[visitor][0], page
                    del without_view[visitor]
        without_view = {visitor: visit for visitor, visit in went_on.items() if visitor in without_view}
    return here
