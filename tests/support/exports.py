"""The export of a website as JSON lines, from an open connection."""

import sqlite3
from typing import BinaryIO

from tally.transfer.exporter import exported, json_lines, write_export


def export_events(connection: sqlite3.Connection, website: int, out: BinaryIO) -> int:
    """Write the lines of the command `export`; return the number of events."""
    return write_export(out, json_lines, exported(connection, website))
