"""The check of `doctor` of a database that ClickHouse follows.

It reads the outbox and asks ClickHouse for the last batch that it has, and changes nothing. Imported where a cluster is
configured.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing

from tally.clickhouse.client import NoAnswer, Refused
from tally.cluster.outbox import MAX_BYTES
from tally.cluster.setup import last_batch
from tally.cluster.shipper import CannotFollow
from tally.errors import ApiError
from tally.maintenance.doctor_checks import Case, Finding, fault, fine, note
from tally.rounding import counted
from tally.storage import cluster_tables
from tally.storage.database import connect_reader

_TOPIC = "cluster"
# An outbox of this size has waited for long.
_MUCH = MAX_BYTES // 4


def cluster(case: Case) -> Iterator[Finding]:
    """Check that ClickHouse answers, belongs to the file, and how much it lacks."""
    with closing(connect_reader(case.path)) as connection:
        if not cluster_tables.exist(connection):
            yield fault(_TOPIC, "the database has no outbox", "run `analytics-server cluster init`")
            return
        series, shipped, size, joined, websites = connection.execute(
            "/* doctor.state */ select series, shipped, coalesce(sum(length(body)), 0),"
            " (select count(*) from cluster_copy where state = 'joined' and not changes),"
            " (select count(*) from website) from cluster_state left join cluster_outbox"
        ).fetchone()
    problem = ""
    try:
        last = asyncio.run(last_batch(case.settings, series))
        if last is None or last < shipped:
            problem = "ClickHouse has the tables of another file"
    except CannotFollow as failure:
        problem = str(failure)
    except (Refused, NoAnswer, ApiError) as failure:
        problem = f"ClickHouse does not answer ({failure}): SQLite answers reports"
    if problem:
        yield fault(_TOPIC, problem, "see docs/cluster.md")
        return
    words = f"ClickHouse has batch {last}; {size:,} bytes wait; it answers {joined} of {counted(websites, 'website')}"
    if size > _MUCH:
        yield note(_TOPIC, words, f"beyond {MAX_BYTES:,} bytes all websites have to be joined again: see the log")
    elif joined < websites:
        yield note(_TOPIC, words, "`analytics-server cluster status` says why")
    else:
        yield fine(_TOPIC, words)
