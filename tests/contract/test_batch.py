# SPDX-License-Identifier: Apache-2.0
"""Batches: all or nothing, one key, one partition (B-079 to B-084)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageBatch
from oxbus.exceptions import InvalidOperationError, MessageSizeExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSender

LOW_48_BITS = (1 << 48) - 1

MIXED_KEYS = [
    pytest.param([{"partition_key": "a"}, {"partition_key": "b"}], id="two partition keys"),
    pytest.param([{"partition_key": "a"}, {}], id="key and no key"),
    pytest.param([{}, {"partition_key": "a"}], id="no key and key"),
    pytest.param([{"session_id": "a"}, {"session_id": "b"}], id="two session ids"),
    pytest.param([{"session_id": "a"}, {"partition_key": "b"}], id="session id and partition key"),
]


def test_keyed_batch_stays_together_and_in_order(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A batch with one key goes to that key's partition with consecutive numbers in its order (B-079, B-080)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(50)])
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    assert [str(message) for message in messages] == [str(number) for number in range(50)]
    assert {message.partition_id for message in messages} == {oxbus.partition_id("k")}
    assert [message.sequence_number & LOW_48_BITS for message in messages] == list(range(1, 51))


def test_keyless_batch_goes_whole_to_one_partition(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A keyless batch goes whole to one partition; the next batch may go to another (B-081)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for batch in range(16):
            sender.send_messages([ServiceBusMessage(str(batch)) for _ in range(5)])
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    places: dict[str, set[int | None]] = {}
    for message in messages:
        places.setdefault(str(message), set()).add(message.partition_id)
    assert len(messages) == 80
    assert [len(partitions) for partitions in places.values()] == [1] * 16
    assert len(set.union(*places.values())) == 16


@pytest.mark.parametrize("keys", MIXED_KEYS)
def test_mixed_keys_are_refused_whole(
    client: ServiceBusClient, partitioned_queue: str, snapshot: Callable[[str], object], keys: list[dict[str, Any]]
) -> None:
    """A partitioned queue refuses a batch with different keys and stores nothing (B-079, B-080)."""
    before = snapshot(partitioned_queue)
    with client.get_queue_sender(partitioned_queue) as sender:
        with pytest.raises(InvalidOperationError, match="key"):
            sender.send_messages([ServiceBusMessage(b"x", **key) for key in keys])
        batch = sender.create_message_batch()
        for key in keys:
            batch.add_message(ServiceBusMessage(b"x", **key))
        with pytest.raises(InvalidOperationError, match="key"):
            sender.send_messages(batch)
    assert snapshot(partitioned_queue) == before


@pytest.mark.parametrize("keys", MIXED_KEYS)
def test_plain_queue_takes_mixed_keys(
    client: ServiceBusClient,
    plain_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    keys: list[dict[str, Any]],
) -> None:
    """A batch to a plain queue may mix keys and keeps its order (B-084)."""
    with client.get_queue_sender(plain_queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number), **key) for number, key in enumerate(keys)])
    with client.get_queue_receiver(plain_queue) as receiver:
        assert [str(message) for message in drain(receiver)] == ["0", "1"]


@pytest.mark.parametrize("intruder", [b"bytes", "text", None, 7], ids=repr)
def test_one_bad_item_refuses_the_whole_list(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], intruder: Any
) -> None:
    """When one item of a list is not a message, none is stored (B-079)."""
    before = snapshot(queue_name)
    with pytest.raises(TypeError):
        sender.send_messages([ServiceBusMessage(b"a"), intruder, ServiceBusMessage(b"b")])
    assert snapshot(queue_name) == before


def test_one_large_message_refuses_the_whole_list(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    snapshot: Callable[[str], object],
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """When one message is over the limit, none is stored and no sequence number is used (B-055, B-079, B-105)."""
    queue_name = make_queue(max_message_size_in_kilobytes=1024)
    before = snapshot(queue_name)
    small, large = ServiceBusMessage(b"a", partition_key="k"), ServiceBusMessage(b"x" * 1_100_000, partition_key="k")
    with client.get_queue_sender(queue_name) as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages([small, large])
        assert snapshot(queue_name) == before
        sender.send_messages(small)
    with client.get_queue_receiver(queue_name) as receiver:
        assert receive_one(receiver).sequence_number & LOW_48_BITS == 1


@pytest.mark.parametrize("nothing", ["list", "batch"])
def test_sending_nothing_is_no_error(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], nothing: str
) -> None:
    """An empty list and an empty batch are accepted and store nothing, as in the SDK (B-079)."""
    before = snapshot(queue_name)
    sender.send_messages([] if nothing == "list" else sender.create_message_batch())
    assert snapshot(queue_name) == before


def test_batch_object_fills_up_to_its_size(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A batch takes messages until its size limit, refuses the next one and can then be sent (B-053, B-079)."""
    batch = sender.create_message_batch(max_size_in_bytes=10_000)
    assert isinstance(batch, ServiceBusMessageBatch)
    assert batch.max_size_in_bytes == 10_000
    added = 0
    while batch.size_in_bytes < 9000:
        batch.add_message(ServiceBusMessage(b"x" * 1000))
        added += 1
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"x" * 1000))
    assert len(batch) == added
    assert 5 <= added <= 9
    assert 1000 * added < batch.size_in_bytes <= 10_000
    sender.send_messages(batch)
    with client.get_queue_receiver(queue_name) as receiver:
        messages = drain(receiver)
    assert [b"".join(message.body) for message in messages] == [b"x" * 1000] * added


def test_properties_count_toward_the_batch_size(sender: ServiceBusSender) -> None:
    """The size of a batch grows with properties and not only with bodies (B-053)."""
    batch = sender.create_message_batch(max_size_in_bytes=2000)
    batch.add_message(ServiceBusMessage(b"", application_properties={"note": "y" * 1000}))
    assert batch.size_in_bytes > 1000
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"", application_properties={"note": "y" * 1000}))
    assert len(batch) == 1


def test_batch_object_keeps_its_content_after_a_refusal(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A refused batch can be sent to a queue that accepts it (B-080, B-084)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        nothing: Any = "no message"
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage(b"a", partition_key="a"))
        with pytest.raises(TypeError):
            batch.add_message(nothing)
        batch.add_message(ServiceBusMessage(b"b", partition_key="a"))
        sender.send_messages(batch)
    with client.get_queue_receiver(partitioned_queue) as receiver:
        assert [str(message) for message in drain(receiver)] == ["a", "b"]


def test_a_message_may_be_sent_again(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Sending takes a copy: changing and re-sending the same object stores two messages (R-05)."""
    message = ServiceBusMessage(b"x", message_id="1")
    sender.send_messages(message)
    message.message_id = "2"
    sender.send_messages([message, message])
    with client.get_queue_receiver(queue_name) as receiver:
        assert sorted(str(message.message_id) for message in drain(receiver)) == ["1", "2", "2"]
