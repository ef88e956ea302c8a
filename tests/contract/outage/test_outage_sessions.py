# SPDX-License-Identifier: Apache-2.0
"""Sessions and transactions while one of sixteen partitions is out of service, and after it heals."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import oxbus
import pytest
from outage_scene import ALL, BAD, GOOD, KEYS, Scene, drain, each, id_of, refused, run_story, texts
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError, PartitionUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def accept_a_session_by_id(scene: Scene) -> Generator[None]:
    """Accepting fails for a session of the partition, even an empty one, and succeeds elsewhere (B-094)."""
    for partition_id in (BAD, GOOD[0]):
        scene.send("kept", to="sessions", session_id=KEYS[partition_id])
    empty = next(key for key in (f"empty-{n}" for n in range(10_000)) if oxbus.partition_id(key) == BAD)
    yield
    refused(
        lambda: scene.accept(KEYS[BAD]),
        lambda: scene.accept(empty),
        lambda: scene.send("refused", to="sessions", session_id=KEYS[BAD]),
    )
    with scene.accept(KEYS[GOOD[0]]) as receiver:
        assert texts(drain(receiver)) == ["kept"]
    yield
    with scene.accept(KEYS[BAD]) as receiver:
        assert texts(drain(receiver)) == ["kept"]
    scene.accept(empty).close()


def accept_the_next_session(scene: Scene) -> Generator[None]:
    """Accept-next returns sessions of the other partitions, or times out if there is none (B-094)."""
    for partition_id in ALL:
        scene.send("kept", to="sessions", session_id=KEYS[partition_id])
    yield
    held = [scene.accept(NEXT_AVAILABLE_SESSION) for _ in GOOD]
    assert {id_of(receiver) for receiver in held} == {KEYS[partition_id] for partition_id in GOOD}
    with pytest.raises(OperationTimeoutError):
        scene.accept(NEXT_AVAILABLE_SESSION)
    yield
    with scene.accept(NEXT_AVAILABLE_SESSION) as receiver:
        assert id_of(receiver) == KEYS[BAD]
    for receiver in held:
        receiver.close()


def hold_a_session(scene: Scene) -> Generator[None]:
    """The holder receives nothing and other calls fail; after healing it continues with its session (B-095)."""
    scene.send("first", "second", to="sessions", session_id=KEYS[BAD])
    receiver = scene.accept(KEYS[BAD])
    session = receiver.session
    assert session is not None
    session.set_state(b"before")
    (message,) = receiver.receive_messages(1, max_wait_time=0)
    yield
    refused(
        lambda: receiver.complete_message(message),
        lambda: session.set_state(b"meanwhile"),
        session.get_state,
        session.renew_lock,
    )
    with suppress(PartitionUnavailableError):
        assert receiver.receive_messages(1, max_wait_time=0) == []
    yield
    receiver.complete_message(message)
    session.renew_lock()
    assert session.get_state() == b"before"
    assert texts(drain(receiver)) == ["second"]
    receiver.close()


def list_sessions(scene: Scene) -> Generator[None]:
    """The list shows the sessions of the other partitions (B-097, B-216)."""
    for partition_id in ALL:
        scene.send("kept", to="sessions", session_id=KEYS[partition_id])
    yield
    assert set(scene.client.list_queue_sessions("sessions")) == {KEYS[partition_id] for partition_id in GOOD}
    yield
    assert set(scene.client.list_queue_sessions("sessions")) == set(KEYS.values())


def commit_a_transaction(scene: Scene) -> Generator[None]:
    """A commit in the partition fails and rolls back; elsewhere it succeeds (B-306)."""
    scene.send_to_each("taken", partitions=(BAD, GOOD[0]))
    held = {message.partition_id: message for message in scene.take()}

    def move(partition_id: int) -> None:
        with scene.client.transaction() as transaction, scene.sender() as sender:
            message = ServiceBusMessage(f"made {partition_id}", partition_key=KEYS[partition_id])
            sender.send_messages(message, transaction=transaction)
            scene.receiver().complete_message(held[partition_id], transaction=transaction)

    yield
    refused(lambda: move(BAD))
    move(GOOD[0])
    assert scene.peek() == [f"made {GOOD[0]}"]
    yield
    assert scene.peek() == sorted([f"made {GOOD[0]}", f"taken {BAD}"])
    move(BAD)
    assert scene.peek() == each("made", (BAD, GOOD[0]))


@pytest.mark.parametrize(
    "operation",
    [accept_a_session_by_id, accept_the_next_session, hold_a_session, list_sessions, commit_a_transaction],
    ids=lambda it: it.__name__,
)
def test_outage(scene: Scene, operation: Callable[[Scene], Generator[None]]) -> None:
    """Each row holds before, during and after the outage, and the partition works again after it (B-090 to B-099)."""
    run_story(scene, operation)
