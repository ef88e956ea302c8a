# SPDX-License-Identifier: Apache-2.0
"""Calls that take several guards of the core do not deadlock (docs/concurrency.md, R-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_bus import Bus

ROUNDS = 400
STATE = b"x" * 2000


def repeat(count: int, call: Callable[[int], Any]) -> None:
    """Make a call many times."""
    for number in range(count):
        call(number)


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
    """An update notified session holders under the guard that a checkpoint waits for, and waited for a state."""
    options = sessions.admin.get_queue("q")
    receiver = sessions.client.get_queue_receiver("q", session_id="s", max_wait_time=0)
    session = receiver.session
    assert session is not None

    def make_and_delete(number: int) -> None:
        name = f"other-{number}"
        sessions.admin.create_queue(name, requires_session=True)
        sessions.send("x", queue_name=name, session_id="s")
        sessions.admin.delete_queue(name)

    calls: list[tuple[int, Callable[[int], Any]]] = [
        (20 * ROUNDS, lambda _: session.set_state(STATE)),
        (ROUNDS, lambda _: sessions.admin.update_queue(options)),
        (ROUNDS // 4, make_and_delete),
        (ROUNDS, lambda _: clock.advance(0.01)),
        (ROUNDS, lambda _: sessions.namespace.checkpoint()),
    ]
    for running in [in_background(repeat, count, call) for count, call in calls]:
        running.result()
    assert session.get_state() == STATE
