"""Part move: export a website, import it as another one into the same file, and compare what both are answered.

The website is a slice of its own beside the large one, so that the file that is imported into is as large as the
targets say, and all of the slice can be compared: every traffic endpoint, over whole and ragged ranges. The import
runs alone, as fast as it can; the second import of the same file must change nothing.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dataset
from client import Asker
from dataset import DataSet, settled
from questions import ZONES
from report import Row, missing, ms, say
from servers import Tally, command, has_command
from traffic import DAY_MS, DOMAIN, LARGE_BROWSER

from bench import Bench
from tally.events.dimensions import FIELDS
from tally.storage import database
from tally.timestamps import iso

PART = "import/export"
IMPORT_RATE = 40_000  # events a second, the issue's
# Seconds at the target's rate, and enough that rates are steady.
MOST_EVENTS = 500_000


def move(bench: Bench) -> list[Row]:
    """Rates of export and import, and whether both websites are answered the same."""
    absent = [name for name in ("export", "import") if not has_command(name)]
    if absent:
        return [missing(PART, f"there is no command {' and no command '.join(absent)}")]
    with bench.copy() as known:
        events = min(MOST_EVENTS, bench.events // 2)
        with closing(database.open_database(known.db, create=False)) as connection:
            original, written = dataset.fill_website(connection, events, known.end_ms)
        copy = _value("website", "add", DOMAIN, "--db", str(known.db))
        file = known.db.parent / "slice.ndjson"
        try:
            rows = _moved(known, file, original, copy, written)
        finally:
            file.unlink(missing_ok=True)
        return [*rows, *_compared(known, original, copy)]


def _value(*words: str) -> str:
    done = command(*words)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout.strip()


def _moved(known: DataSet, file: Path, original: str, copy: str, events: int) -> list[Row]:
    taken = {}
    file.unlink(missing_ok=True)
    for what, words in (
        ("export", ("export", original, str(file))),
        ("import", ("import", str(file), "--website", copy)),
        ("import again", ("import", str(file), "--website", copy)),
    ):
        begun = time.perf_counter()
        _value(*words, "--db", str(known.db))
        taken[what] = time.perf_counter() - begun
        say(f"{what}: {events / taken[what]:,.0f} events a second")
    rates = {what: events / seconds for what, seconds in taken.items()}
    size = file.stat().st_size / events
    with closing(database.connect_reader(known.db)) as connection:
        counted = connection.execute(
            "/* moving.count */ select count(*) from event join website on number = event.website where website.id = ?",
            (copy,),
        ).fetchone()[0]
    into = f"import of {events:,} events beside {known.events:,}"
    again = f"{counted:,} events afterwards, {rates['import again']:,.0f} events/s"
    return [
        Row(PART, f"export of {events:,} events", f"{rates['export']:,.0f} events/s, {size:.0f} bytes a line"),
        Row(PART, into, f"{rates['import']:,.0f} events/s", "", "", f"at least {IMPORT_RATE:,} events/s",
            rates["import"] >= IMPORT_RATE),
        Row(PART, "the same file again", again, "", "", f"{events:,} events", counted == events),
    ]  # fmt: skip


def _compared(known: DataSet, original: str, copy: str) -> list[Row]:
    """Asks both websites the same, once all of their rollups are built."""
    begun = time.perf_counter()
    with Tally(known.db) as server:
        settled(known.db)
        built_s = time.perf_counter() - begun
        asker = Asker(server.port, known.key)
        paths = list(_paths(known.end_ms))
        differing = [path for path in paths if _answer(asker, original, path) != _answer(asker, copy, path)]
        asker.close()
    for path in differing[:5]:
        say(f"DIFFERS: {path}")
    told = f"{len(paths) - len(differing)} of {len(paths)} equal"
    return [
        Row(PART, "rollups of both, built after the import", ms(built_s)),
        Row(PART, "answers about both websites", told, "", "", "all equal", not differing),
    ]


def _paths(end_ms: int) -> Iterator[str]:
    """Questions about traffic: unfiltered and filtered, over ragged ranges and over whole days."""
    ragged = [(end_ms - days * DAY_MS + 12_345, end_ms - 6_789) for days in (365, 30, 1)]
    whole = [(end_ms // DAY_MS * DAY_MS - days * DAY_MS, end_ms // DAY_MS * DAY_MS) for days in (300, 20)]
    for begin, end in [*ragged, *whole]:
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


def _answer(asker: Asker, website: str, path: str) -> object:
    """What is to be equal: all but the website's id, and the ids that are given anew by an import."""
    status, body = asker.get(f"/api/v1/websites/{website}/{path}")
    if status != 200:
        raise RuntimeError(f"{path} is answered {status}: {body[:300]!r}")
    answer = json.loads(body)
    if path.startswith("events"):
        own = ("id", "visit")
        rows = [{name: value for name, value in row.items() if name not in own} for row in answer["data"]]
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    return answer["data"], answer["meta"].get("unset")
