"""Notifications to the service manager: ready, stopping, alive (systemd's sd_notify(3), in a few lines of our own).

Messages are datagrams to the Unix socket that NOTIFY_SOCKET names; a leading @ is an abstract address of Linux. Where
the variable is not set, nothing is sent. A message that cannot be sent is dropped: the service manager then acts as it
is configured to for a service that is silent.

With WATCHDOG_USEC (and WATCHDOG_PID, if set, naming this process) the event loop sends WATCHDOG=1 twice in that time. A
loop that is blocked sends nothing, and the service manager restarts the server.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import MutableMapping, Sequence


class Supervisor:
    """The service manager, if there is one. The variables are removed: they are meant for this process alone."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        usec, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_meant = usec.isdecimal() and int(usec) > 0 and pid in ("", str(os.getpid()))
        self._interval_s = int(usec) / 2_000_000 if is_meant else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, addresses: Sequence[str]) -> None:
        """Report that the server listens; begin to send watchdog messages."""
        self._send(f"READY=1\nSTATUS=listening on {', '.join(addresses)}")
        if self._interval_s and self._address:
            self._keep_alive()

    def stopping(self) -> None:
        """Report that the server ends. Watchdog messages go on: systemd expects them until the process has ended."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """End the watchdog messages."""
        if self._timer is not None:
            self._timer.cancel()

    def _keep_alive(self) -> None:
        self._send("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._keep_alive)

    def _send(self, message: str) -> None:
        # Only paths and abstract addresses: vsock is for virtual machines.
        if not self._address.startswith(("/", "\0")):
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify_socket:
            # A full queue of the service manager must not block the event loop.
            notify_socket.setblocking(False)
            notify_socket.sendto(message.encode(), self._address)
