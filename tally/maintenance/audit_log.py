"""Lines of the audit log in the server's log, as the message `audit`, for programs that collect logs.

The table is read, so that a line is logged after the commit of its change alone, and so are those of commands. What is
written while no server runs, or in the second before a process is killed, is in the table alone.
"""

import asyncio
import json
from functools import partial

from tally.accounts import audit
from tally.clock import Clock
from tally.errors import fields, log
from tally.storage.node_database import NodeDatabase
from tally.timestamps import SECOND_MS, iso


class AuditLog:
    """Logs the lines after the one of a number. Used by the event loop alone."""

    def __init__(self, database: NodeDatabase, clock: Clock, number: int) -> None:
        self._database, self._clock, self._number = database, clock, number
        # The last call may come while another one reads.
        self._writing = asyncio.Lock()

    async def write(self, *, is_last: bool = False) -> None:
        """Log what was written since the last call. Raises ApiError 503.

        A line that counts further changes of the current second waits for its end, unless `is_last`.
        """
        async with self._writing:
            self._number, lines = await self._database.read(partial(audit.written_after, number=self._number))
            second = self._clock.wall_ms() // SECOND_MS
            for line in lines:
                if line.entry.action == audit.MORE and line.ms // SECOND_MS == second and not is_last:
                    break
                self._number = line.number
                _log(line)


def _log(line: audit.Line) -> None:
    actor, entry = line.actor, line.entry
    # Filters have what visitors have sent: the table alone has them.
    shown = {name: value for name, value in entry.detail.items() if name != "filters"}
    detail = json.dumps(shown) if shown else None
    about = {"number": line.number, "at": iso(line.ms), "account": actor.account, "actor": actor.name, "via": actor.via}
    what = {"action": entry.action, "website": entry.website, "target": entry.target or None, "detail": detail}
    log.info("audit", extra=fields(**about, **what))
