# SPDX-License-Identifier: Apache-2.0
"""What systemd is told of a server: that it is ready, that it still answers, and that it stops.

The protocol is one datagram for each state, sd_notify(3). Without `NOTIFY_SOCKET` nothing is told.
"""

from __future__ import annotations

import http.client
import os
import socket
from typing import Final, Self

ANSWERS_WITHIN: Final = 5.0
"""Seconds that the server has to answer a request before the watchdog goes without its sign of life."""


class ServiceManager:
    """The service manager that started this process, if there is one."""

    def __init__(self, notify_socket: str | None, watchdog_seconds: float | None) -> None:
        self._address: Final = notify_socket
        self.interval: Final = watchdog_seconds
        """Seconds between two signs of life; None if nobody waits for them."""

    @classmethod
    def of_this_process(cls) -> Self:
        """Read the variables that systemd sets; those of a watchdog may be meant for another process."""
        address, period = os.environ.get("NOTIFY_SOCKET"), os.environ.get("WATCHDOG_USEC")
        watched = os.environ.get("WATCHDOG_PID") in {None, str(os.getpid())}
        # sd_watchdog_enabled(3) advises half of the period.
        return cls(address, int(period) / 2_000_000 if address and period and watched else None)

    def tell(self, state: str) -> None:
        """Send a state, such as `READY=1`. A service manager that does not listen is no reason to stop."""
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

    def tell_if_alive(self, host: str, port: int) -> None:
        """Give a sign of life if the server answers. What it answers does not matter: a restart mends no disk."""
        connection = http.client.HTTPConnection(host, port, timeout=ANSWERS_WITHIN)
        try:
            connection.request("GET", "/health")
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()
        self.tell("WATCHDOG=1")
