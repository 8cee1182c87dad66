"""The check of `doctor` of a database that ClickHouse follows.

It reads the outbox and asks ClickHouse for the last batch that it has, and changes nothing. Imported where a cluster is
configured.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing

from tally.cluster.outbox import MAX_BYTES
from tally.cluster.setup import states
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
    servers = asyncio.run(states(case.settings, series))
    problems = [f"{name}: {problem}" for name, _, problem in servers if problem]
    for problem in problems:
        yield fault(_TOPIC, problem, "see docs/runbook.md")
    last = max(last for _, last, _ in servers)
    if len(problems) == len(servers):
        return
    if last < shipped:
        yield fault(_TOPIC, f"ClickHouse has batch {last}, and had batch {shipped}", "see docs/runbook.md")
        return
    words = f"ClickHouse has batch {last}; {size:,} bytes wait; it answers {joined} of {counted(websites, 'website')}"
    if size > _MUCH:
        yield note(_TOPIC, words, f"beyond {MAX_BYTES:,} bytes all websites have to be joined again: see the log")
    elif joined < websites:
        yield note(_TOPIC, words, "`analytics-server cluster status` says why")
    else:
        yield fine(_TOPIC, words)
