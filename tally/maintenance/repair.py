"""Invalidate rollups that verification found wrong, so that the server rebuilds them (`verify --repair`).

Each kind of rollup is invalidated by its own module. Every step is a transaction of its own and may run beside the
server: it builds what is marked within seconds, or at its next start.
"""

import sqlite3

from tally.columns import column_days
from tally.engine.archive import Verdict
from tally.maintenance.verify import COLUMNS, EXPERIMENTS, HEATMAPS, LOST
from tally.rollups import experiments, heatmaps, rollup_state


def invalidate(connection: sqlite3.Connection, website: int, wrong: Verdict) -> None:
    """Mark a day or block that has a fault to be rebuilt, in a transaction of the caller."""
    if wrong.fault == COLUMNS:
        column_days.invalidate(connection, website, wrong.block)
    elif wrong.fault == EXPERIMENTS:
        experiments.repair(connection, website, wrong.block)
    elif wrong.fault == HEATMAPS:
        heatmaps.repair(connection, website, wrong.level, wrong.block)
    elif wrong.fault not in LOST:
        # A stale day invalidates the block above it.
        rollup_state.mark_stale(connection, website, [wrong.first_day])
