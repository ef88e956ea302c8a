# SPDX-License-Identifier: Apache-2.0
"""The servers of the fault suite: an owner and its standbys, each behind its own proxy to the store."""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fault_proxy import FaultProxy, ProxyThread
from store_requests import Http, Postgres
from stored_server import LOOPBACK, StoredServer, Switch, free_port, wait_until

if TYPE_CHECKING:
    from stored_server import StoredPlace

PORT = re.compile(rf"{re.escape(LOOPBACK)}:(\d+)")
STORE_TIMEOUT = "2s"
"""How long a server waits for an answer of the store, so that lost ones do not take long."""


class Member:
    """One server: the process of the moment, its port and its proxy."""

    def __init__(self, place: StoredPlace, thread: ProxyThread, chance: random.Random) -> None:
        self.port = free_port()
        self.proxy: FaultProxy | None = None
        self.server: StoredServer | None = None
        self.served_at: float | None = None
        self.is_stopped = False
        self.place = place
        texts = [place.url, *place.options.values()]
        ports = {int(found[1]) for text in texts if (found := PORT.search(text))}
        if ports:
            (port,) = ports
            wire = Postgres() if place.url.startswith("postgres") else Http()
            self.proxy = FaultProxy(thread, wire, port, chance)
            moved = {name: self._moved(value) for name, value in place.options.items()}
            self.place = replace(place, url=self._moved(place.url), options={**moved, "timeout": STORE_TIMEOUT})

    def _moved(self, text: str) -> str:
        assert self.proxy is not None
        return PORT.sub(f"{LOOPBACK}:{self.proxy.port}", text)

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self.server is not None and self.server.process.poll() is None

    def start(self, *words: str) -> None:
        """Start its process, which waits until it may serve."""
        self.kill()
        self.served_at, self.is_stopped = None, False
        words = (*words, "--drain-timeout", "1s")
        server = StoredServer(self.place, *words, standby="--take-over" not in words, port=self.port)
        self.server = server
        threading.Thread(target=self._watch, args=(server,), daemon=True).start()

    def _watch(self, server: StoredServer) -> None:
        try:
            server.wait_until_serving()
        except (AssertionError, ValueError, OSError):
            return  # it ended
        if server is self.server:
            self.served_at = time.monotonic()

    def send(self, sign: signal.Signals) -> None:
        """Send a signal to its process, if it runs."""
        if self.runs:
            assert self.server is not None
            self.server.process.send_signal(sign)
            self.is_stopped = sign == signal.SIGSTOP

    def kill(self) -> None:
        """Kill its process, if it has one."""
        if self.server is not None:
            server, self.server, self.served_at = self.server, None, None
            server.process.kill()
            server.process.wait()
            server.kill()


class Cluster:
    """Members, one of which serves, and one address that leads to it; a context manager that kills them."""

    def __init__(self, place: StoredPlace, seed: str) -> None:
        self._thread = ProxyThread()
        self.place = place
        self._seed = seed

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self.members = [
            Member(self.place, self._thread, random.Random(f"{self._seed} {number}")) for number in range(3)
        ]
        self.owner, self.standby, self.third = self.members
        self.switch = Switch([member.port for member in self.members])
        self.owner.start()
        self.settle()
        self.standby.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.switch.close()
        for member in self.members:
            member.kill()
            if member.proxy is not None:
                member.proxy.close()
        self._thread.__exit__()

    def serving(self) -> Member | None:
        """Return the member that began to serve last, if it still runs."""
        found = [member for member in self.members if member.served_at is not None and member.runs]
        return max(found, key=lambda member: member.served_at or 0, default=None)

    def settle(self, *, after: float | None = None) -> None:
        """Wait until a member serves, if given one that began after a moment, and clients reach it.

        A member that served before and was taken over goes on as it is, until `replace_others` is called.
        """

        def is_served() -> bool:
            for member in (self.owner, self.standby):
                # One that gave up while the store was away is started again, as a service manager would do.
                if member.served_at is None and not member.runs and member.server is not None:
                    member.start()
            found = self.serving()
            return found is not None and (after is None or (found.served_at or 0) > after)

        wait_until(is_served, "a takeover")
        found = self.serving()
        assert found is not None
        if found is not self.owner:
            others = [member for member in (self.owner, self.standby, self.third) if member is not found]
            self.owner, self.standby, self.third = found, *others
            self.switch.lead_to([member.port for member in (self.owner, self.standby, self.third)])

    def replace_others(self) -> None:
        """Start one standby, with all that happens to its store taken back, and end whatever else runs."""
        for member in self.members:
            if member.proxy is not None:
                member.proxy.set(None)
                if member is not self.owner:
                    member.proxy.disarm()
        self.third.kill()
        if not self.standby.runs or self.standby.served_at is not None or self.standby.is_stopped:
            self.standby.start()
