# SPDX-License-Identifier: Apache-2.0
"""From the end of the owner, or of the node that leads, to the next send that is acknowledged.

Brokers are killed. Ours is also asked to end, and paused: then its address accepts connections and nobody answers, so
the proxy leads to the standby, as one that asks for health does. Ours begins with 100,000 messages.

A client sends one message after the other and tries again until it is acknowledged. The send that counts began after
the end: one that was on its way may have been acknowledged by the node that is gone.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

from peers.contract import UnavailableError
from stored_server import StoredServer, Switch
from turns import Found

from stored.contenders import CLUSTERS, cluster, served_name_of
from stored.queues import StoredQueue, client_of, declare, server_of
from stored.scale import BODIES, LIST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from plan import Plan

    from stored.places import Place

KILLED, TERMINATED, PAUSED = (f"failover/1KiB/stored_{way}" for way in ("killed", "terminated", "paused"))
SIGNALS = {KILLED: signal.SIGKILL, TERMINATED: signal.SIGTERM, PAUSED: signal.SIGSTOP}
BACKLOG = 100_000
WARM_SENDS = 50
WARM_SECONDS = 3.0
"""How long the client sends before the kill. By then the standby waits."""
PATIENCE_SECONDS = 90.0


class Killable(Protocol):
    """What goes on when one of its servers is killed."""

    def send_once(self, body: bytes) -> None:
        """Send a message; raise any exception if it is not acknowledged."""

    def reconnect(self) -> None:
        """Connect the calling thread again; raise any exception if that is not possible yet."""

    def kill_leader(self) -> float:
        """Kill the server that owns or leads the queue; return the moment."""


class _Ours(StoredQueue):
    """An owner and its standby, and a client with one address for both."""

    def __init__(self, owner: StoredServer, standby: StoredServer, switch: Switch, end: signal.Signals) -> None:
        super().__init__(client_of(switch.port))
        self._owner, self._standby, self._switch, self._end = owner, standby, switch, end

    def send_once(self, body: bytes) -> None:
        """Send; the client itself tries again."""
        self.send(body)

    def reconnect(self) -> None:
        """Nothing: the client does it."""

    def kill_leader(self) -> float:
        """Send the owner the signal that ends it."""
        moment = time.monotonic()
        self._owner.process.send_signal(self._end)
        if self._end == signal.SIGSTOP:
            self._switch.lead_to([self._standby.port])
        return moment


@contextlib.contextmanager
def ours(place: Place, end: signal.Signals, backlog: int) -> Iterator[Killable]:
    """Two servers of one place, which has `backlog` messages."""
    with place.run() as found:
        declare(found)
        with server_of(found) as owner, server_of(found, standby=True) as standby:
            switch = Switch([owner.port, standby.port])
            queue = _Ours(owner, standby, switch, end)
            try:
                for _ in range(0, backlog, LIST):
                    queue.send_many(BODIES)
                yield queue
            finally:
                switch.close()
                standby.kill()  # first: the client would wait for it
                queue.close()


def of_place(place: Place, plan: Plan) -> Iterator[Found]:
    """Ours over a store."""
    for case, end in SIGNALS.items():
        if plan.wants("failover", case):
            seconds = seconds_until_sent(partial(ours, place, end, plan.of(BACKLOG, LIST)))
            yield Found(case, served_name_of(place), {"seconds": seconds}, place.level.value)


def of_cluster(module: str, name: str) -> Iterator[Found]:
    """A broker of three nodes."""
    shown = next(shown for one, _, shown in CLUSTERS if one == module)
    level = "os" if module == "kafka_cluster" else "fsync"
    yield Found(KILLED, shown, {"seconds": seconds_until_sent(lambda: cluster(module, name))}, level)


def seconds_until_sent(run: Callable[[], AbstractContextManager[Killable]]) -> float:
    """Kill the leader while a client sends; return how long it was without an acknowledgement."""
    with run() as queue:
        sends: list[tuple[float, float]] = []
        stop = threading.Event()

        def send() -> None:
            while not stop.is_set():
                began = time.monotonic()
                try:
                    queue.send_once(BODIES[0])
                except Exception:  # noqa: BLE001 -- each client fails in its own ways while there is no leader
                    with contextlib.suppress(Exception):
                        queue.reconnect()
                    stop.wait(0.02)
                else:
                    sends.append((began, time.monotonic()))

        sender = threading.Thread(target=send)
        sender.start()
        try:
            _wait_for(lambda: len(sends) >= WARM_SENDS)
            time.sleep(WARM_SECONDS)
            killed = queue.kill_leader()
            _wait_for(lambda: sends[-1][0] > killed)
        finally:
            stop.set()
            sender.join(PATIENCE_SECONDS)
        return next(ended for began, ended in sends if began > killed) - killed


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise UnavailableError(f"no send was acknowledged in {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.01)
