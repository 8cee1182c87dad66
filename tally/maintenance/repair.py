"""Invalidate rollups that verification found wrong, so that the server rebuilds them (`verify --repair`).

Each kind of rollup is invalidated by its own module. Every step is a transaction of its own and may run beside the
server: it builds what is marked within seconds, or at its next start.
"""

import sqlite3
from collections.abc import Sequence

from tally.columns import column_days
from tally.maintenance.verify import COLUMNS, EXPERIMENTS, HEATMAPS, LOST, Verdict
from tally.rollups import experiments, heatmaps, rollup_state
from tally.storage.database import transaction

# Faults that a day's state does not rebuild.
_OWN = (EXPERIMENTS, HEATMAPS, COLUMNS, *LOST)


def invalidate(connection: sqlite3.Connection, website: int, wrong: Sequence[Verdict]) -> None:
    """Mark the days and blocks of verdicts that have a fault to be rebuilt."""
    # A stale day invalidates the blocks above it.
    days = {verdict.first_day for verdict in wrong if verdict.fault not in _OWN}
    for day in sorted(days):
        with transaction(connection):
            rollup_state.mark_stale(connection, website, [day])
    for verdict in wrong:
        with transaction(connection):
            if verdict.fault == COLUMNS:
                column_days.invalidate(connection, website, verdict.block)
            elif verdict.fault == EXPERIMENTS:
                experiments.repair(connection, website, verdict.block)
            elif verdict.fault == HEATMAPS:
                heatmaps.repair(connection, website, verdict.level, verdict.block)
