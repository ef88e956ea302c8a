# SPDX-License-Identifier: Apache-2.0
"""Each aircraft is a session: receivers alternate, and its flights stay in order.

The tail number is the session id. A session needs an id, so flights without a tail number are skipped and counted.
A receiver accepts the next available session, receives some of its flights, completes them and releases the session;
another receiver may accept it next.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import oxbus
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusClient
from oxbus.demo import session_checks
from oxbus.demo.scenarios import ScenarioResult, in_threads
from oxbus.exceptions import OperationTimeoutError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceiver

QUEUE = "aircraft"
RECEIVERS = 3
FLIGHTS_PER_TURN = 200
"""An aircraft with many flights needs several turns."""


@dataclass(frozen=True)
class SessionTurn:
    """The messages that one receiver got from a session before it released it."""

    receiver: int
    session_id: str
    messages: pa.Table
    """Columns `message_id` and `session_id`, in order of delivery."""


@dataclass
class TurnLog:
    """All turns in order: a turn is recorded while its session is held."""

    turns: list[SessionTurn] = field(default_factory=list)
    held_twice: int = 0
    """How often a session was accepted while another receiver held it."""
    _held_sessions: set[str] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def accepted(self, session_id: str) -> None:
        """Record that a receiver holds the session."""
        with self._guard:
            self.held_twice += session_id in self._held_sessions
            self._held_sessions.add(session_id)

    def ends(self, turn: SessionTurn) -> None:
        """Record the messages of a turn; the receiver releases the session afterwards."""
        with self._guard:
            self.turns.append(turn)
            self._held_sessions.discard(turn.session_id)


def run_scenario(
    messages: pa.Table, make_client: Callable[[oxbus.Namespace], ServiceBusClient] = ServiceBusClient
) -> ScenarioResult:
    """Send the flights to a queue with sessions, drain it with several receivers, and check the order.

    Args:
        messages: Columns `message_id`, `partition_key` (the tail number) and `body`, in sending order.
        make_client: Creates the client; tests pass one that tampers.
    """
    with_tail_number = messages.filter(pc.is_valid(messages["partition_key"]))
    flights = with_tail_number.select(["message_id", "partition_key", "body"]).rename_columns(
        ["message_id", "session_id", "body"]
    )
    book = TurnLog()
    with oxbus.Namespace() as namespace, make_client(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue(QUEUE, enable_partitioning=True, requires_session=True)
        began = time.perf_counter()
        with client.get_queue_sender(QUEUE) as sender:
            sender.send_arrow(flights)
        in_threads([partial(_take_turns, client, number, book) for number in range(RECEIVERS)])
        seconds = time.perf_counter() - began
        left_in_queue = admin.get_queue_runtime_properties(QUEUE).total_message_count or 0
    checks = session_checks.check_sessions(flights, messages.num_rows - flights.num_rows, book, left_in_queue)
    return ScenarioResult(checks, flights.num_rows, seconds)


def _take_turns(client: ServiceBusClient, number: int, book: TurnLog) -> None:
    """Accept one session after the other until none is available; other receivers drain those that they hold."""
    while True:
        try:
            receiver = client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
            with receiver:
                session_id = _accepted(receiver)
                book.accepted(session_id)
                batch = pa.table(receiver.receive_arrow(FLIGHTS_PER_TURN, max_wait_time=0))
                if batch.num_rows:
                    receiver.settle_arrow(batch, "complete")
                book.ends(SessionTurn(number, session_id, batch.select(["message_id", "session_id"])))
        except OperationTimeoutError:
            return


def _accepted(receiver: ServiceBusReceiver) -> str:
    session_id = receiver.session.session_id if receiver.session else None
    if session_id is None:
        raise AssertionError("a receiver of the next available session has accepted one")
    return session_id
