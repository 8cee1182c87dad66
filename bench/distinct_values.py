"""Part values: the time of every report on a website with a million distinct values.

500,000 events over 50 days (10,000 new values per field and day are the default limit), each with a pathname, a text
and a number that occur once. They are imported, since collecting them takes 50 days of arrival times; once as events of
a single visitor per day, as one address sends them, and once with 4 events per visitor. Each report is requested twice:
the second request is answered from the cache. Both ranges are 50 days up to now.
"""

import json
import random
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from client import Client
from dataset import wait_until_built
from report import Row, ms, progress
from servers import Tally, command
from traffic import DAY_MS

from bench import Bench
from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.storage.database import open_database, transaction
from tally.timestamps import iso

PART = "values"
EVENTS, DAYS = 500_000, 50
# The target: every query in 500 ms after a million distinct values were sent.
MAX_S = 0.5
REPORTS = (
    *("stats", "stats?filter_country=", "timeseries", "timeseries?interval=hour", "top/pathname?limit=1000"),
    *("top/pathname?filter_country=", "top/browser", "event-names", "entry-pages", "exit-pages", "events?limit=1000"),
    *("realtime", "vitals", "vitals?by=pathname", "experiments", "heatmap-pages", "heatmap?pathname=/"),
    *("funnel?step=event_name:e&step=event_name:f", "event-data?event_name=e", "event-data?event_name=e&property=id"),
    *("event-data?event_name=e&property=n", "event-data?event_name=e&property=plan"),
)
_WITHOUT_RANGE = ("realtime",)


def distinct_values(bench: Bench) -> list[Row]:
    """Return a row for each report, from one visitor per day and from many."""
    return [row for events_per_visitor in (EVENTS, 4) for row in _measured(bench, events_per_visitor)]


def _measured(bench: Bench, events_per_visitor: int) -> Iterator[Row]:
    folder = bench.folder / "values"
    folder.mkdir(parents=True, exist_ok=True)
    db, lines = folder / "analytics.db", folder / "events.ndjson"
    db.unlink(missing_ok=True)
    now_ms = time.time_ns() // 1_000_000
    with closing(open_database(db, create=True)) as connection, transaction(connection):
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        website = add_website(connection, owner, "example.com", "example.com", (), 0)
        key = create_api_key(connection, owner, "bench", now_ms)
    try:
        _write(lines, now_ms, events_per_visitor)
        done = command("import", str(lines), "--website", website, "--db", str(db))
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        visitors = "one visitor per day" if events_per_visitor == EVENTS else f"{events_per_visitor} events per visitor"
        progress(f"{EVENTS:,} events with {2 * EVENTS:,} distinct values of event_data, {visitors}")
        with Tally(db) as tally:
            wait_until_built(db)
            yield from _requested(tally, key, website, f"a million distinct values, {visitors}", now_ms)
    finally:
        for path in folder.iterdir():
            path.unlink()


def _write(lines: Path, now_ms: int, events_per_visitor: int) -> None:
    rng = random.Random(5)
    with lines.open("w") as file:
        for n in range(EVENTS):
            day_ms = (now_ms // DAY_MS - 1 - n % DAYS) * DAY_MS
            line = {
                "type": "event",
                "event_name": "e",
                "timestamp": day_ms + rng.randrange(DAY_MS),
                "visitor": f"{n // DAYS // events_per_visitor}",
                "hostname": "example.com",
                "pathname": f"/{uuid.UUID(int=rng.getrandbits(128))}",
                "event_data": {
                    "id": str(uuid.UUID(int=rng.getrandbits(128))),
                    "n": rng.random(),
                    "plan": rng.choice(("pro", "team")),
                },
            }
            file.write(json.dumps(line) + "\n")


def _requested(tally: Tally, key: str, website: str, what: str, now_ms: int) -> Iterator[Row]:
    client = Client(tally.port, key)
    for report in REPORTS:
        path = f"/api/v1/websites/{website}/{report}"
        if report not in _WITHOUT_RANGE:
            path += f"{'&' if '?' in report else '?'}from={iso(now_ms - (DAYS + 1) * DAY_MS)[:-6]}Z"
        taken = []
        for _ in range(2):
            begun = time.perf_counter()
            status, body = client.get(path)
            taken.append(time.perf_counter() - begun)
            if status != 200:
                raise RuntimeError(f"{report}: {status} {body[:200]!r}")
        target = f"each max {ms(MAX_S)}"
        yield Row(
            PART, f"{report}: {what}", f"{ms(taken[0])}, again {ms(taken[1])}", "", "", target, max(taken) <= MAX_S
        )
    client.close()
