# SPDX-License-Identifier: Apache-2.0
"""Sends while one of sixteen partitions is out of service, and after it heals."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import oxbus
import pytest
from outage_scene import ALL, BAD, GOOD, KEYS, Scene, refused, run_story, texts
from oxbus import ServiceBusMessage
from oxbus.exceptions import PartialSendError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def send_keyed_to_the_partition(scene: Scene) -> Generator[None]:
    """The send fails at once and stores nothing (B-074, B-090)."""
    yield
    with scene.sender() as sender:
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("refused", partition_key=KEYS[BAD]))
        refused(
            lambda: scene.send("refused", partition_key=KEYS[BAD]),
            lambda: scene.send("refused", session_id=KEYS[BAD]),
            lambda: scene.send("refused", session_id=KEYS[BAD], partition_key=KEYS[BAD]),
            lambda: sender.send_messages([ServiceBusMessage("refused", partition_key=KEYS[BAD]) for _ in range(3)]),
            lambda: sender.send_messages(batch),
        )
    yield
    assert scene.peek() == []
    scene.send("stored", partition_key=KEYS[BAD])
    assert scene.take_from(BAD).partition_id == BAD


def send_keyed_to_other_partitions(scene: Scene) -> Generator[None]:
    """The send succeeds in the partition of the key (B-099)."""
    yield
    scene.send_to_each("kept", partitions=GOOD)
    assert {str(message): message.partition_id for message in scene.take()} == {f"kept {it}": it for it in GOOD}
    yield
    assert scene.take() == []


def send_keyless(scene: Scene) -> Generator[None]:
    """The sends succeed; each message is stored once in another partition (B-073, B-091)."""
    yield
    scene.send(*map(str, range(48)))
    messages = scene.take()
    assert texts(messages) == sorted(map(str, range(48)))
    assert {message.partition_id for message in messages} == set(GOOD)
    yield
    assert scene.take() == []
    scene.send(*map(str, range(48)))
    assert {message.partition_id for message in scene.take()} == set(ALL)


def send_a_keyless_batch(scene: Scene) -> Generator[None]:
    """The send succeeds; the whole batch is in one other partition (B-081)."""
    yield
    with scene.sender() as sender:
        for number in range(32):
            sender.send_messages([ServiceBusMessage(f"{number}") for _ in range(3)])
    found = Counter((str(message), message.partition_id) for message in scene.take())
    assert set(found.values()) == {3}
    assert {partition_id for _, partition_id in found} == set(GOOD)
    assert len(found) == 32
    yield
    assert scene.take() == []


def send_a_table(scene: Scene) -> Generator[None]:
    """The error names the rows with a key of the partition; all others are stored, keyless ones elsewhere."""
    pa = pytest.importorskip("pyarrow")
    yield
    keys = [KEYS[BAD], KEYS[GOOD[0]], None, None]
    table = pa.table({"body": [b"0", b"1", b"2", b"3"], "partition_key": keys})
    with scene.sender() as sender, pytest.raises(PartialSendError) as refusal:
        sender.send_arrow(table)
    assert refusal.value.rows == [0]
    assert texts(scene.take()) == ["1", "2", "3"]
    yield
    with scene.sender() as sender:
        sender.send_arrow(table.slice(0, 1))
    assert texts(scene.take()) == ["0"]


def send_with_a_message_id(scene: Scene) -> Generator[None]:
    """With duplicate detection the id is the key; a refused id stays free, a stored one stays known (B-219)."""
    scene.send("first", to="ids", message_id=KEYS[BAD])
    other = next(key for key in (f"id-{n}" for n in range(10_000)) if oxbus.partition_id(key) == BAD)
    yield
    refused(
        lambda: scene.send("copy", to="ids", message_id=KEYS[BAD]),
        lambda: scene.send("refused", to="ids", message_id=other),
    )
    scene.send("elsewhere", "copy", to="ids", message_id=KEYS[GOOD[0]])
    assert texts(scene.take("ids")) == ["elsewhere"]
    yield
    scene.send("copy", to="ids", message_id=KEYS[BAD])
    scene.send("second", "copy", to="ids", message_id=other)
    assert texts(scene.take("ids")) == ["first", "second"]


def schedule(scene: Scene) -> Generator[None]:
    """Schedules act like sends; messages pending in the partition become due once it heals (B-237, B-238)."""
    soon = scene.clock.now() + timedelta(minutes=1)
    with scene.sender() as sender:
        sender.schedule_messages([ServiceBusMessage("due", partition_key=KEYS[BAD])], soon)
        sender.schedule_messages([ServiceBusMessage("due elsewhere", partition_key=KEYS[GOOD[0]])], soon)
        yield
        refused(lambda: sender.schedule_messages(ServiceBusMessage("refused", partition_key=KEYS[BAD]), soon))
        for number in range(16):
            (scheduled,) = sender.schedule_messages(ServiceBusMessage(f"keyless {number}"), soon)
            assert scheduled >> 48 != BAD
    scene.clock.advance(120)
    assert texts(scene.take()) == sorted(["due elsewhere", *(f"keyless {number}" for number in range(16))])
    yield
    (message,) = scene.take()
    assert (str(message), message.partition_id) == ("due", BAD)


def cancel_scheduled(scene: Scene) -> Generator[None]:
    """Cancelling fails in the partition and succeeds elsewhere (B-095)."""
    soon = scene.clock.now() + timedelta(minutes=1)
    with scene.sender() as sender:
        numbers = {
            partition_id: sender.schedule_messages(ServiceBusMessage("x", partition_key=KEYS[partition_id]), soon)
            for partition_id in ALL
        }
        yield
        refused(lambda: sender.cancel_scheduled_messages(numbers[BAD]))
        for partition_id in GOOD:
            sender.cancel_scheduled_messages(numbers[partition_id])
        yield
        sender.cancel_scheduled_messages(numbers[BAD])
    scene.clock.advance(120)
    assert scene.take() == []


@pytest.mark.parametrize(
    "operation",
    [
        send_keyed_to_the_partition,
        send_keyed_to_other_partitions,
        send_keyless,
        send_a_keyless_batch,
        send_a_table,
        send_with_a_message_id,
        schedule,
        cancel_scheduled,
    ],
    ids=lambda it: it.__name__,
)
def test_outage(scene: Scene, operation: Callable[[Scene], Generator[None]]) -> None:
    """Each row holds before, during and after the outage, and the partition works again after it (B-090 to B-099)."""
    run_story(scene, operation)
