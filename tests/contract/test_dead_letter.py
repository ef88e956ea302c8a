# SPDX-License-Identifier: Apache-2.0
"""The dead-letter queue (B-111, B-168, B-179, B-254, B-259 to B-267)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from oxbus.exceptions import MessagingEntityNotFoundError, ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


@pytest.fixture
def dead_letters(client: ServiceBusClient, queue_name: str) -> ServiceBusReceiver:
    """A receiver of the dead-letter queue of `queue_name`."""
    return client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)


@pytest.fixture
def message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> ServiceBusReceivedMessage:
    """One message with many properties, locked by `receiver`."""
    sender.send_messages(
        ServiceBusMessage(
            b"body",
            message_id="id-1",
            partition_key="k",
            subject="subject",
            correlation_id="correlation",
            application_properties={"a": 1},
        )
    )
    return receive_one(receiver)


def test_every_queue_has_a_dead_letter_queue(dead_letters: ServiceBusReceiver) -> None:
    """The dead-letter queue exists with its queue and starts empty (B-259)."""
    assert dead_letters.receive_messages(max_wait_time=0) == []
    assert dead_letters.peek_messages() == []


@pytest.mark.parametrize("sub_queue", [ServiceBusSubQueue.DEAD_LETTER, "deadletter"], ids=["enum", "text"])
def test_sub_queue_is_named_by_enum_or_text(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    sub_queue: Any,
) -> None:
    """The sub-queue may be given as the enum or as its value, as in the SDK (B-020)."""
    receiver.dead_letter_message(message)
    with client.get_queue_receiver(queue_name, sub_queue=sub_queue) as dead_letters:
        assert receive_one(dead_letters).message_id == "id-1"


def test_message_keeps_what_it_had(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A dead letter keeps number, enqueued time, count, partition, body and properties (B-111, B-265, B-266)."""
    receiver.abandon_message(message)
    message = receive_one(receiver)
    clock.advance(30)
    receiver.dead_letter_message(message, reason="r", error_description="d")
    dead = receive_one(dead_letters)
    same = (
        "sequence_number",
        "enqueued_time_utc",
        "delivery_count",
        "partition_id",
        "partition_key",
        "message_id",
        "subject",
        "correlation_id",
    )
    assert {name: getattr(dead, name) for name in same} == {name: getattr(message, name) for name in same}
    assert dead.delivery_count == 1
    assert b"".join(dead.body) == b"body"
    assert (dead.application_properties or {})["a"] == 1


def test_reason_and_description_are_application_properties_too(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Reason and description are added as properties with their exact names (B-165, B-263)."""
    receiver.dead_letter_message(message, reason="broken", error_description="no address")
    dead = receive_one(dead_letters)
    assert dead.application_properties == {
        "a": 1,
        "DeadLetterReason": "broken",
        "DeadLetterErrorDescription": "no address",
    }


def test_reason_is_optional(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A message can be dead-lettered without a reason (B-165)."""
    receiver.dead_letter_message(message)
    dead = receive_one(dead_letters)
    assert not dead.dead_letter_reason
    assert not dead.dead_letter_error_description


def test_dead_letter_source_is_not_set_when_reading_the_queue_itself(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """`dead_letter_source` is set on forwarded dead letters only (B-264)."""
    receiver.dead_letter_message(message)
    assert receive_one(dead_letters).dead_letter_source is None


@pytest.mark.parametrize("text", ["x" * 4096, "ä" * 4096], ids=["ascii", "two bytes"])
def test_longest_reason_is_kept_whole(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    text: str,
) -> None:
    """Reason and description may have 4,096 characters each (B-168)."""
    receiver.dead_letter_message(message, reason=text, error_description=text)
    dead = receive_one(dead_letters)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == (text, text)


@pytest.mark.parametrize("name", ["reason", "error_description"])
def test_longer_reason_is_refused(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    queue_name: str,
    snapshot: Callable[[str], object],
    name: str,
) -> None:
    """A reason or description of 4,097 characters is a ValueError and the lock stays valid (B-168)."""
    before = snapshot(queue_name)
    with pytest.raises(ValueError, match=r"4,?096"):
        receiver.dead_letter_message(message, **{name: "x" * 4097})  # type: ignore[arg-type] # the names are texts
    assert snapshot(queue_name) == before
    receiver.complete_message(message)


def test_messages_come_out_by_number(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """The dead-letter queue is ordered by sequence number, not by arrival (B-265)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(6)])
    for message in reversed(drain(receiver)):
        receiver.dead_letter_message(message)
    assert [str(message) for message in drain(dead_letters)] == ["0", "1", "2", "3", "4", "5"]


def test_partitioned_queue_has_a_partitioned_dead_letter_queue(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A message is dead-lettered in its own partition (B-266)."""
    with client.get_queue_sender(partitioned_queue) as sender, client.get_queue_receiver(partitioned_queue) as receiver:
        keys = [f"key-{number}" for number in range(50)]
        for key in keys:
            sender.send_messages(ServiceBusMessage(b"x", partition_key=key))
        receiver.dead_letter_messages(drain(receiver))
    with client.get_queue_receiver(partitioned_queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        found = {message.partition_key: message.partition_id for message in drain(dead_letters)}
    assert found == {key: oxbus.partition_id(key) for key in keys}


@pytest.mark.parametrize("name", ["orders/$DeadLetterQueue", "orders/$deadletterqueue"])
def test_dead_letter_queue_rejects_sends(client: ServiceBusClient, queue_name: str, name: str) -> None:
    """Messages reach a dead-letter queue by dead-lettering only (B-260)."""
    assert queue_name == "orders"
    with pytest.raises((ServiceBusError, ValueError)), client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))


def test_it_cannot_be_deleted_alone(admin: ServiceBusAdministrationClient, queue_name: str) -> None:
    """The dead-letter queue can only be deleted with its queue (B-259)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.delete_queue(f"{queue_name}/$DeadLetterQueue")
    assert admin.get_queue(queue_name).name == queue_name


def test_it_goes_with_its_queue(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    queue_name: str,
    dead_letters: ServiceBusReceiver,
) -> None:
    """Deleting a queue deletes its dead letters; a new queue of that name has none (B-259)."""
    receiver.dead_letter_message(message)
    admin.delete_queue(queue_name)
    with pytest.raises(MessagingEntityNotFoundError):
        dead_letters.receive_messages(max_wait_time=0)
    make_queue(queue_name)
    with client.get_queue_receiver(queue_name, sub_queue="deadletter") as new_dead_letters:
        assert new_dead_letters.receive_messages(max_wait_time=0) == []


def test_it_is_received_from_like_a_queue(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    dead_letters: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Peek-lock, expiry, renewal, abandon and receive-and-delete work on dead letters (B-261)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(4)])
    receiver.dead_letter_messages(drain(receiver))
    first = receive_one(dead_letters)
    assert first.locked_until_utc == clock.now() + timedelta(minutes=1)
    clock.advance(40)
    dead_letters.renew_message_lock(first)
    assert len(drain(dead_letters)) == 3
    dead_letters.complete_message(first)
    clock.advance(60.1)
    again = receive_one(dead_letters)
    assert (str(again), again.delivery_count) == ("1", 1)
    dead_letters.abandon_message(again)
    with client.get_queue_receiver(
        queue_name, sub_queue="deadletter", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as taker:
        assert [str(message) for message in drain(taker)] == ["1", "2", "3"]
    clock.advance(3600)
    assert drain(dead_letters) == []


def test_waiting_receiver_wakes_when_a_message_is_dead_lettered(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    in_background: Callable[..., Any],
) -> None:
    """A receiver waiting on the dead-letter queue gets a message when it arrives (B-261, R-21)."""
    waiting = in_background(dead_letters.receive_messages, max_wait_time=600)
    receiver.dead_letter_message(message)
    (dead,) = waiting.result()
    assert dead.message_id == "id-1"


def test_dead_letter_can_be_deferred(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Deferral works in the dead-letter queue through its own receiver (B-261, B-287)."""
    receiver.dead_letter_message(message)
    dead_letters.defer_message(receive_one(dead_letters))
    assert dead_letters.receive_messages(max_wait_time=0) == []
    (deferred,) = dead_letters.receive_deferred_messages([message.sequence_number])
    dead_letters.complete_message(deferred)
    assert dead_letters.peek_messages(sequence_number=1) == []


def test_dead_letter_cannot_be_dead_lettered_again(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    snapshot: Callable[[str], object],
) -> None:
    """Dead-lettering from the dead-letter queue is refused and the message stays locked there (B-261)."""
    receiver.dead_letter_message(message)
    dead = receive_one(dead_letters)
    before = snapshot(queue_name)
    with pytest.raises(ServiceBusError):
        dead_letters.dead_letter_message(dead)
    with pytest.raises(ServiceBusError):
        dead_letters.dead_letter_messages([dead])
    assert snapshot(queue_name) == before
    dead_letters.complete_message(dead)


def test_time_to_live_does_not_run_there(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A dead letter does not expire (B-254, B-262)."""
    sender.send_messages(ServiceBusMessage(b"x", time_to_live=timedelta(seconds=10)))
    receiver.dead_letter_message(receive_one(receiver))
    clock.advance(30 * 24 * 3600)
    dead_letters.complete_message(receive_one(dead_letters))


def test_dead_letters_can_be_resubmitted_as_copies(
    message: ServiceBusReceivedMessage,
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A copy of a dead letter is a new message with a new number (B-270)."""
    receiver.dead_letter_message(message, reason="r")
    dead = receive_one(dead_letters)
    sender.send_messages(
        ServiceBusMessage(b"".join(dead.body), message_id=dead.message_id, partition_key=dead.partition_key)
    )
    dead_letters.complete_message(dead)
    copy = receive_one(receiver)
    assert (copy.message_id, copy.delivery_count) == ("id-1", 0)
    assert copy.sequence_number == message.sequence_number + 1
