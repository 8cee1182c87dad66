"""Part transfer: export a website, import it as another one into the same database, and compare their reports.

The website is a second one beside the large one: the database has the size of the targets, and all events of the
website can be compared, in every traffic endpoint, over whole days and other ranges. The import runs alone; a second
import of the same file must change nothing.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dataset
from client import Client
from dataset import DataSet, wait_until_built
from queries import ZONES
from report import Row, missing, ms, progress
from servers import Tally, command, has_command
from traffic import DAY_MS, DOMAIN, LARGE_BROWSER

from bench import Bench
from tally.events.dimensions import FIELDS
from tally.storage import database
from tally.timestamps import iso

PART = "import/export"
IMPORT_RATE = 40_000  # events per second, the target
# Takes some seconds at that rate.
MAX_EVENTS = 500_000


def transfer(bench: Bench) -> list[Row]:
    """Return the rates of export and import, and whether the reports of both websites are equal."""
    absent = [name for name in ("export", "import") if not has_command(name)]
    if absent:
        return [missing(PART, f"there is no command {' and no command '.join(absent)}")]
    with bench.copy() as data_set:
        events = min(MAX_EVENTS, bench.events // 2)
        with closing(database.open_database(data_set.db, create=False)) as connection:
            original, written = dataset.fill_website(connection, events, data_set.end_ms)
        copy = _value("website", "add", DOMAIN, "--again", "--db", str(data_set.db))
        file = data_set.db.parent / "slice.ndjson"
        try:
            rows = _rates(data_set, file, original, copy, written)
        finally:
            file.unlink(missing_ok=True)
        return [*rows, *_compared(data_set, original, copy)]


def _value(*words: str) -> str:
    done = command(*words)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout.strip()


def _rates(data_set: DataSet, file: Path, original: str, copy: str, events: int) -> list[Row]:
    taken = {}
    file.unlink(missing_ok=True)
    for what, words in (
        ("export", ("export", original, str(file))),
        ("import", ("import", str(file), "--website", copy)),
        ("import again", ("import", str(file), "--website", copy)),
    ):
        begun = time.perf_counter()
        _value(*words, "--db", str(data_set.db))
        taken[what] = time.perf_counter() - begun
        progress(f"{what}: {events / taken[what]:,.0f} events a second")
    rates = {what: events / seconds for what, seconds in taken.items()}
    size = file.stat().st_size / events
    with closing(database.connect_reader(data_set.db)) as connection:
        counted = connection.execute(
            "/* transfer.count */ select count(*) from event join website on number = event.website"
            " where website.id = ?",
            (copy,),
        ).fetchone()[0]
    into = f"import of {events:,} events beside {data_set.events:,}"
    again = f"{counted:,} events afterwards, {rates['import again']:,.0f} events/s"
    return [
        Row(PART, f"export of {events:,} events", f"{rates['export']:,.0f} events/s, {size:.0f} bytes a line"),
        Row(PART, into, f"{rates['import']:,.0f} events/s", "", "", f"at least {IMPORT_RATE:,} events/s",
            rates["import"] >= IMPORT_RATE),
        Row(PART, "the same file again", again, "", "", f"{events:,} events", counted == events),
    ]  # fmt: skip


def _compared(data_set: DataSet, original: str, copy: str) -> list[Row]:
    """Compare the reports of both websites after all of their rollups are built."""
    begun = time.perf_counter()
    with Tally(data_set.db) as server:
        wait_until_built(data_set.db)
        built_s = time.perf_counter() - begun
        client = Client(server.port, data_set.key)
        paths = list(_paths(data_set.end_ms))
        differing = [path for path in paths if _report(client, original, path) != _report(client, copy, path)]
        client.close()
    for path in differing[:5]:
        progress(f"DIFFERS: {path}")
    text = f"{len(paths) - len(differing)} of {len(paths)} equal"
    return [
        Row(PART, "rollups of both, built after the import", ms(built_s)),
        Row(PART, "reports of both websites", text, "", "", "all equal", not differing),
    ]


def _paths(end_ms: int) -> Iterator[str]:
    """Yield queries about traffic: unfiltered and filtered, over whole days and other ranges."""
    other = [(end_ms - days * DAY_MS + 12_345, end_ms - 6_789) for days in (365, 30, 1)]
    whole = [(end_ms // DAY_MS * DAY_MS - days * DAY_MS, end_ms // DAY_MS * DAY_MS) for days in (300, 20)]
    for begin, end in [*other, *whole]:
        span = f"from={iso(begin)[:-6]}Z&to={iso(end)[:-6]}Z"
        for filter in ("", f"&filter_browser={LARGE_BROWSER}"):
            yield f"stats?{span}{filter}"
            yield f"top/pathname?limit=1000&{span}{filter}"
            for zone in ZONES:
                yield f"timeseries?interval=day&tz={zone}&{span}{filter}"
        for zone in ZONES:
            yield f"timeseries?interval=hour&tz={zone}&{span}"
        for field in FIELDS:
            yield f"top/{field}?limit=1000&{span}"
        yield f"events?limit=1000&{span}"


def _report(client: Client, website: str, path: str) -> object:
    """Return what must be equal: all but the ids of website, event and visit."""
    status, body = client.get(f"/api/v1/websites/{website}/{path}")
    if status != 200:
        raise RuntimeError(f"{path} returned {status}: {body[:300]!r}")
    answer = json.loads(body)
    if path.startswith("events"):
        own = ("id", "visit")
        rows = [{name: value for name, value in row.items() if name not in own} for row in answer["data"]]
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    return answer["data"], answer["meta"].get("unset")
