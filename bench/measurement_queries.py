"""Part measurements: the time of queries about web vitals, heatmaps and experiments, and the disk space of each.

As in the part read: warm, on one keep-alive connection, while another process sends 200 events per second to the same
website, of which four in ten are measurements. Plain SQL over raw rows, for one metric, runs before the server starts.
"""

from contextlib import closing

from baselines import timed
from collect_requests import MeasurementGenerator
from dataset import DataSet
from queries import RANGES, Query
from reads import row, timed_queries
from report import NO_TARGET, Row, ms
from traffic import path

from bench import Bench
from tally.columns.statements import EXPERIMENTS, TABLES, WEB_VITALS
from tally.rollups import heatmaps
from tally.storage import database

# Targets: p95 in seconds, bytes per event.
MAX_P95_S = 0.05
VITALS_BYTES, POINT_BYTES = 100, 10
# Half of the events. The targets are those of FILTERS in bench/reads.py.
_FILTERED = "vitals by pathname, one device"
_FILTERED_S = (0.12, 0.5, 6.0)
# The page with the most views, and one with few.
TOP, RARE = path(0), path(4000)

_OF = "from web_vitals where website = :website and ts >= :begin and ts < :end"
_PLACED = (
    "select {by} as part, lcp, row_number() over (partition by {by} order by lcp) as place,"
    " count(lcp) over (partition by {by}) as samples"
)
_FIGURES = (
    "select part, samples, sum(lcp <= 2500000), sum(lcp > 4000000), max(lcp) filter (where place <= (samples + 1) / 2),"
    " max(lcp) filter (where place <= (samples * 3 + 3) / 4), max(lcp) filter (where place <= (samples * 19 + 19) / 20)"
)
_PERCENTILES = f"{_FIGURES} from ({_PLACED} {_OF} and lcp is not null{{only}}) group by part"
_PLAIN = {
    "vitals": _PERCENTILES.format(by="website", only=""),
    "vitals, one page": _PERCENTILES.format(
        by="website", only=" and pathname = (select id from label where text = :page)"
    ),
    "vitals, one device": _PERCENTILES.format(
        by="website", only=" and device = (select id from label where text = 'mobile')"
    ),
    "vitals by pathname": _PERCENTILES.format(
        by="pathname",
        only=f" and pathname in (select pathname {_OF} group by 1 order by sum(lcp > 4000000) desc limit 10)",
    ),
    _FILTERED: _PERCENTILES.format(
        by="pathname",
        only=" and device = (select id from label where text = 'mobile') and pathname in (select pathname"
        f" {_OF} and device = (select id from label where text = 'mobile') group by 1 order by sum(lcp > 4000000) desc"
        " limit 10)",
    ),
    "vitals by device": _PERCENTILES.format(by="device", only=""),
    "vitals by day": _PERCENTILES.format(by="ts / 86400000", only=""),
    "experiments": (
        "select experiment, variant, goal, count(distinct visitor) from experiment_event"
        " where website = :website and ts >= :begin"
        " and ts < :end group by 1, 2, 3"
    ),
}


def _queries() -> list[Query]:
    """Return every query about measurements, over each of RANGES."""
    kinds = [
        ("vitals", "", "vitals"),
        ("vitals, one page", "top", f"vitals?filter_pathname={TOP}"),
        ("vitals, one page", "rare", f"vitals?filter_pathname={RARE}"),
        ("vitals, one device", "", "vitals?filter_device=mobile"),
        *(("vitals by pathname", metric, f"vitals?by=pathname&metric={metric}") for metric in ("lcp", "cls")),
        ("vitals by pathname", "limit 100", "vitals?by=pathname&limit=100"),
        ("vitals by device", "", "vitals?by=device"),
        ("vitals by day", "all", "vitals?by=day"),
        ("vitals by day", "one page", f"vitals?by=day&filter_pathname={TOP}"),
        ("vitals by day", "one device", "vitals?by=day&filter_device=mobile"),
        (_FILTERED, "", "vitals?by=pathname&filter_device=mobile"),
        ("experiments", "", "experiments"),
        ("heatmap", "top", f"heatmap?pathname={TOP}"),
        ("heatmap", "top, phones", f"heatmap?pathname={TOP}&filter_device=mobile"),
        ("heatmap", "rare", f"heatmap?pathname={RARE}"),
        ("heatmap-pages", "", "heatmap-pages"),
        ("heatmap-pages", "phones", "heatmap-pages?filter_device=mobile"),
    ]
    return [Query(kind, days, which, path) for days in RANGES for kind, which, path in kinds]


def measurements(bench: Bench) -> list[Row]:
    """Return a row for each query, with plain SQL as its baseline, and the bytes of each kind of event."""
    data_set = bench.measurement_data_set()
    kinds = list(dict.fromkeys(query.kind for query in _queries()))
    # Raw heatmap points are not stored.
    baselines = {
        (kind, days): timed(data_set.rows_db, _plain(kind), days, page=TOP) if kind in _PLAIN else 0.0
        for kind in kinds
        for days in RANGES
    }
    with bench.copy_of(data_set) as working:
        times, sent = timed_queries(working, _queries(), bench.repeats, MeasurementGenerator)
    rows = [
        row("measurements", f"{kind}, {days} days", times, (kind, days), baselines[kind, days], most_s)
        for kind in kinds
        for days, most_s in zip(RANGES, _FILTERED_S if kind == _FILTERED else (MAX_P95_S,) * 3, strict=True)
    ]
    sent_text = (
        f"{sent.rate:.0f} events/s, p50 {ms(sent.at(0.5))}, p99 {ms(sent.at(0.99))}, worst {ms(max(sent.latencies))}"
    )
    return [*rows, Row("measurements", "collected during these queries", sent_text), *_sizes(data_set)]


def _plain(kind: str) -> tuple[str]:
    return (f"/* measurement_queries.plain */ {_PLAIN[kind]}",)


def _sizes(data_set: DataSet) -> list[Row]:
    """Return the bytes per event, indexes and sums included."""
    with closing(database.connect_reader(data_set.db)) as connection:
        pages = dict(
            connection.execute("/* measurement_queries.pages */ select name, sum(pgsize) from dbstat group by name")
        )
        packed = "(select coalesce(sum(events), 0) from packed_day where source = {})"
        numbers = {
            "web vitals": f"select count(*) + {packed.format(WEB_VITALS)} from web_vitals",
            "events of experiments": f"select count(*) + {packed.format(EXPERIMENTS)} from experiment_event",
            "heatmap points": f"select sum({' + '.join(heatmaps.COUNTS)}) from heatmap_count where level = 0",
        }
        count = {
            what: connection.execute(f"/* measurement_queries.count */ {sql}").fetchone()[0]
            for what, sql in numbers.items()
        }
        # A column's part of the pages is that of its content.
        lengths = dict(
            connection.execute(
                "/* measurement_queries.columns */ select field / 200, sum(length(content)) from day_column group by 1"
            )
        )
    for source in (WEB_VITALS, EXPERIMENTS):
        pages[f"columns of {TABLES[source]}"] = pages["day_column"] * lengths.get(source, 0) / sum(lengths.values())
    rows = []
    for what, target, tables in (
        ("web vitals", VITALS_BYTES, ("web_vitals", "columns of web_vitals", "web_vitals_histogram")),
        ("heatmap points", POINT_BYTES, ("heatmap_point", "heatmap_block", "heatmap_count")),
        (
            "events of experiments",
            0,
            (
                *("experiment_event", "columns of experiment_event", "experiment_assignment"),
                *("experiment_conversion", "experiment_total"),
            ),
        ),
    ):
        parts = {name: pages[name] / count[what] for name in tables}
        each = sum(parts.values())
        text = f"{each:.1f} bytes: {', '.join(f'{name} {size:.1f}' for name, size in parts.items())}"
        met = (f"max {target} bytes", each <= target) if target else (NO_TARGET, None)
        rows.append(Row("measurements", f"disk, each of {count[what]:,} {what}", text, "", "", *met))
    return rows
