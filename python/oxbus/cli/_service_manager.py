# SPDX-License-Identifier: Apache-2.0
"""Tells systemd the state of a server: ready for clients, still alive, or stopping.

The protocol is one datagram for each state, sd_notify(3). Without `NOTIFY_SOCKET` nothing is sent.
The states are those of the server's own health checks, so systemd and other probes agree.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Final, Self

ANSWERS_WITHIN: Final = 5.0
"""Seconds that the server has to answer a health check."""
READINESS_INTERVAL: Final = 1.0
"""Seconds between two looks at a server that is not ready yet."""


class ServiceManager:
    """The service manager that started this process, if there is one, and the server that it wants to know of."""

    def __init__(self, notify_socket: str | None, watchdog_seconds: float | None, host: str, port: int) -> None:
        self._address: Final = notify_socket
        self._watchdog_seconds: Final = watchdog_seconds
        self._server: Final = (host, port)
        self._is_ready = False

    @classmethod
    def of_this_process(cls, host: str, port: int) -> Self:
        """Read the variables that systemd sets; those of a watchdog may be meant for another process."""
        address, period = os.environ.get("NOTIFY_SOCKET"), os.environ.get("WATCHDOG_USEC")
        watched = os.environ.get("WATCHDOG_PID") in {None, str(os.getpid())}
        # sd_watchdog_enabled(3) advises half of the period.
        return cls(address, int(period) / 2_000_000 if address and period and watched else None, host, port)

    @property
    def interval(self) -> float | None:
        """Seconds until the next look at the server; None if there is nothing to tell."""
        intervals = [self._watchdog_seconds] if self._watchdog_seconds else []
        if self._address and not self._is_ready:
            intervals.append(READINESS_INTERVAL)
        return min(intervals, default=None)

    def tell(self, state: str) -> None:
        """Send a state, such as `STOPPING=1`. A service manager that does not listen is no reason to stop."""
        if not self._address:
            return
        # "@" is the first byte of an abstract name, which is zero.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(address)
                sock.send(state.encode())
            except OSError:
                return

    def tell_if_ready(self) -> None:
        """Say once that the server takes clients. Until then, say why it does not."""
        if not self._address or self._is_ready:
            return
        match self._ask("ready"):
            case "ready":
                self._is_ready = True
                self.tell("READY=1\nSTATUS=ready")
            case status:
                self.tell(f"STATUS=not ready: {status or 'no answer'}")

    def tell_if_alive(self) -> None:
        """Give a sign of life if the server answers. A failed disk does not count: a restart would not mend it."""
        if self._watchdog_seconds and self._ask("live"):
            self.tell("WATCHDOG=1")

    def _ask(self, check: str) -> str | None:
        """Return the answer of a health check, and None if there is none in time."""
        connection = http.client.HTTPConnection(*self._server, timeout=ANSWERS_WITHIN)
        try:
            connection.request("GET", f"/$health/{check}")
            status = json.loads(connection.getresponse().read())["status"]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None
        else:
            return str(status)
        finally:
            connection.close()
