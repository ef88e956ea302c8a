# SPDX-License-Identifier: Apache-2.0
"""Calls that take guards of the core in different orders do not wait for each other for ever (docs/concurrency.md, R-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_bus import Bus

ROUNDS = 400


@pytest.fixture
def sessions(make_bus: Callable[..., Bus]) -> Bus:
    """A bus of one partition with a queue that requires sessions."""
    bus = make_bus(partitions=1, durability="os")
    bus.open()
    bus.admin.create_queue("q", requires_session=True)
    return bus


def test_management_beside_session_states_and_checkpoints(
    sessions: Bus, clock: Any, in_background: Callable[..., Any]
) -> None:
    """An update woke the holders of sessions under the guard that a checkpoint waits for, and waited for a state."""
    options = sessions.admin.get_queue("q")
    receiver = sessions.client.get_queue_receiver("q", session_id="s", max_wait_time=0)
    session = receiver.session
    assert session is not None
    kept = session

    def states() -> None:
        for _ in range(20 * ROUNDS):
            kept.set_state(b"x" * 2000)

    def updates() -> None:
        for _ in range(ROUNDS):
            sessions.admin.update_queue(options)

    def others() -> None:
        for number in range(ROUNDS // 4):
            sessions.admin.create_queue(f"other-{number}", requires_session=True)
            with sessions.sender(f"other-{number}") as sender:
                sender.send_messages(ServiceBusMessage(b"x", session_id="s"))
            sessions.admin.delete_queue(f"other-{number}")

    def clocks() -> None:
        for _ in range(ROUNDS):
            clock.advance(0.01)

    def checkpoints() -> None:
        for _ in range(ROUNDS):
            sessions.namespace.checkpoint()

    calls = [in_background(call) for call in (states, updates, others, clocks, checkpoints)]
    for call in calls:
        call.result()
    assert session.get_state() == b"x" * 2000
