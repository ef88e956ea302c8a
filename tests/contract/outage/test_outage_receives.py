# SPDX-License-Identifier: Apache-2.0
"""Receives and settlements while one of sixteen partitions is out of service, and after it heals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from outage_scene import ALL, BAD, GOOD, KEYS, Scene, drain, each, refused, run_story, texts
from oxbus import ServiceBusReceiveMode
from oxbus.exceptions import PartitionUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from oxbus import ServiceBusReceivedMessage


def receive(scene: Scene) -> Generator[None]:
    """A receive returns messages of the other partitions, or nothing if only this one has some (B-093)."""
    scene.send_to_each("kept")
    yield
    messages = scene.take()
    assert texts(messages) == each("kept", GOOD)
    scene.receiver().complete_messages(messages)
    assert scene.take() == []
    with scene.receiver("q", max_wait_time=0) as receiver:
        assert list(receiver) == []
    yield
    (message,) = scene.take()
    assert (str(message), message.delivery_count) == (f"kept {BAD}", 0)


def receive_and_delete(scene: Scene) -> Generator[None]:
    """The same in receive-and-delete mode; messages in the partition stay (B-093)."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    scene.send_to_each("kept")
    yield
    assert texts(scene.take("q", receive_mode=mode)) == each("kept", GOOD)
    yield
    assert texts(scene.take("q", receive_mode=mode)) == [f"kept {BAD}"]


def receive_from_a_prefetch_cache(scene: Scene) -> Generator[None]:
    """A prefetched message of the partition is not delivered, and is not lost (B-093, B-125)."""
    scene.send_to_each("kept")
    receiver = scene.receiver("q", prefetch_count=100)
    first = receiver.receive_messages(max_wait_time=0)
    yield
    messages = first + drain(receiver)
    assert {message.partition_id for message in messages} - {first[0].partition_id} == set(GOOD) - {
        first[0].partition_id
    }
    yield
    assert texts(messages + drain(receiver)) == each("kept", ALL)


def settle_and_renew(scene: Scene) -> Generator[None]:
    """Calls fail for a message of the partition and succeed elsewhere; the lock survives the outage (B-095)."""
    for text in ("complete", "abandon", "defer", "dead-letter", "renew"):
        scene.send_to_each(text, partitions=(BAD, GOOD[0]))
    receiver = scene.receiver()
    held = {str(message): message for message in scene.take()}

    def calls(partition_id: int) -> list[Callable[[], Any]]:
        return [
            lambda: receiver.complete_message(held[f"complete {partition_id}"]),
            lambda: receiver.abandon_message(held[f"abandon {partition_id}"]),
            lambda: receiver.defer_message(held[f"defer {partition_id}"]),
            lambda: receiver.dead_letter_message(held[f"dead-letter {partition_id}"]),
            lambda: receiver.renew_message_lock(held[f"renew {partition_id}"]),
        ]

    yield
    refused(*calls(BAD))
    for call in calls(GOOD[0]):
        call()
    yield
    for call in calls(BAD):
        call()
    runtime = scene.admin.get_queue_runtime_properties("q")
    assert (runtime.active_message_count, runtime.dead_letter_message_count) == (6, 2)
    assert texts(scene.take()) == each("abandon", (BAD, GOOD[0]))


def settle_several(scene: Scene) -> Generator[None]:
    """Messages of the other partitions are settled; the error names the rest, which can be settled later (B-095)."""
    verbs = ("complete", "abandon", "defer", "dead_letter")
    for verb in verbs:
        scene.send_to_each(verb)
    receiver = scene.receiver()
    taken = scene.take()
    held = {verb: [message for message in taken if str(message).startswith(verb)] for verb in verbs}
    left = {verb: [message for message in messages if message.partition_id == BAD] for verb, messages in held.items()}

    def settle(verb: str, messages: list[ServiceBusReceivedMessage]) -> None:
        getattr(receiver, f"{verb}_messages")(messages)

    yield
    for verb in verbs:
        with pytest.raises(PartitionUnavailableError) as refusal:
            settle(verb, held[verb])
        assert refusal.value.effect == "partial"
        assert refusal.value.sequence_numbers == [message.sequence_number for message in left[verb]]
        with pytest.raises(PartitionUnavailableError) as refusal:
            settle(verb, left[verb])
        assert refusal.value.effect is None
    assert texts(scene.take("q", sub_queue="deadletter")) == each("dead_letter", GOOD)
    yield
    for verb in verbs:
        settle(verb, left[verb])
    runtime = scene.admin.get_queue_runtime_properties("q")
    assert (runtime.active_message_count, runtime.dead_letter_message_count) == (2 * len(ALL), len(ALL))
    assert texts(scene.take()) == each("abandon", ALL)


def locks_that_expire(scene: Scene) -> Generator[None]:
    """Once the partition heals, the message is ready again with one more delivery (B-095, B-160)."""
    scene.send("kept", partition_key=KEYS[BAD])
    scene.take_from(BAD)
    yield
    scene.clock.advance(300)
    assert scene.take() == []
    yield
    assert scene.take_from(BAD).delivery_count == 1


def peek(scene: Scene) -> Generator[None]:
    """Peek shows messages of the other partitions, also when it starts at a number of this one (B-093, B-297)."""
    scene.send_to_each("kept")
    with scene.receiver("q", prefetch_count=0) as browser:
        number = next(it.sequence_number for it in browser.peek_messages(16) if it.partition_id == BAD)
    yield
    assert scene.peek() == each("kept", GOOD)
    with scene.receiver("q", prefetch_count=0) as browser:
        assert {it.partition_id for it in browser.peek_messages(16, sequence_number=number)} <= set(GOOD)
    yield
    assert scene.peek() == each("kept", ALL)


def receive_deferred(scene: Scene) -> Generator[None]:
    """A fetch fails for a number of the partition and succeeds elsewhere (B-095)."""
    scene.send_to_each("kept", partitions=(BAD, GOOD[0]))
    numbers = {}
    for message in scene.take():
        numbers[message.partition_id] = message.sequence_number
        scene.receiver().defer_message(message)
    yield
    refused(lambda: scene.receiver().receive_deferred_messages(numbers[BAD]))
    (message,) = scene.receiver().receive_deferred_messages(numbers[GOOD[0]])
    scene.receiver().complete_message(message)
    yield
    (message,) = scene.receiver().receive_deferred_messages(numbers[BAD])
    scene.receiver().complete_message(message)
    assert scene.peek() == []


def dead_letters(scene: Scene) -> Generator[None]:
    """Dead letters of the other partitions can be received (B-093)."""
    scene.send_to_each("kept")
    for message in scene.take():
        scene.receiver().dead_letter_message(message)
    yield
    assert texts(scene.take("q", sub_queue="deadletter")) == each("kept", GOOD)
    yield
    assert texts(scene.take("q", sub_queue="deadletter")) == [f"kept {BAD}"]


@pytest.mark.parametrize(
    "operation",
    [
        receive,
        receive_and_delete,
        receive_from_a_prefetch_cache,
        settle_and_renew,
        settle_several,
        locks_that_expire,
        peek,
        receive_deferred,
        dead_letters,
    ],
    ids=lambda it: it.__name__,
)
def test_outage(scene: Scene, operation: Callable[[Scene], Generator[None]]) -> None:
    """Each row holds before, during and after the outage, and the partition works again after it (B-090 to B-099)."""
    run_story(scene, operation)
