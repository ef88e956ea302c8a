# SPDX-License-Identifier: Apache-2.0
"""Choice of a message's partition (B-057 to B-078, truth table in appendix A)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import oxbus
import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    PartitionUnavailableError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient

PARTITIONS = 16
REFUSALS = {
    "unavailable": PartitionUnavailableError,
    "busy": ServiceBusServerBusyError,
    "enospc": ServiceBusQuotaExceededError,
}

# Appendix A, duplicate detection off: session id, partition key, message id -> effective key.
STORED_ROWS = [
    pytest.param(None, None, None, None, id="no key"),
    pytest.param(None, None, "m", None, id="message id only"),
    pytest.param(None, "p", None, "p", id="partition key"),
    pytest.param(None, "p", "m", "p", id="partition key and message id"),
    pytest.param("s", None, None, "s", id="session id"),
    pytest.param("s", None, "m", "s", id="session id and message id"),
    pytest.param("s", "s", None, "s", id="equal session id and partition key"),
    pytest.param("s", "s", "m", "s", id="all three"),
]


@pytest.mark.parametrize(("session_id", "partition_key", "message_id", "effective_key"), STORED_ROWS)
def test_truth_table_of_plain_sends(
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    session_id: str | None,
    partition_key: str | None,
    message_id: str | None,
    effective_key: str | None,
) -> None:
    """The key is the session id, else the partition key; otherwise round robin; never the message id (B-063, B-066)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for _ in range(PARTITIONS):
            sender.send_messages(
                ServiceBusMessage(b"x", session_id=session_id, partition_key=partition_key, message_id=message_id)
            )
    with client.get_queue_receiver(partitioned_queue) as receiver:
        found = {message.partition_id for message in drain(receiver)}
    expected = set(range(PARTITIONS)) if effective_key is None else {oxbus.partition_id(effective_key)}
    assert found == expected


def test_different_session_id_and_partition_key_are_refused(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    snapshot: Callable[[str], object],
    with_two_keys: Callable[..., object],
) -> None:
    """A message whose partition key differs from its session id is an invalid operation and is not stored (B-064)."""
    queue_name = make_queue()
    before = snapshot(queue_name)
    with client.get_queue_sender(queue_name) as sender, pytest.raises(InvalidOperationError, match="partition_key"):
        with_two_keys(sender.send_messages)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("key", ["a", "N12345", "schlüssel", "鍵", "x" * 128, " "])
def test_partition_id_names_the_partition_of_a_key(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]], key: str
) -> None:
    """Equal keys go to one partition, which `oxbus.partition_id` computes without a broker (B-062, B-071)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for number in range(5):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=key))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    assert [message.partition_id for message in messages] == [oxbus.partition_id(key)] * 5
    assert [message.partition_key for message in messages] == [key] * 5


def test_a_key_lives_in_the_same_partition_of_every_queue(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The partition depends on the key alone, not on the queue or the sender (B-062)."""
    found = set()
    for name in ("first", "second"):
        admin.create_queue(name, enable_partitioning=True)
        for _ in range(2):
            with client.get_queue_sender(name) as sender:
                sender.send_messages(ServiceBusMessage(b"x", partition_key="customer-7"))
            with client.get_queue_receiver(name) as receiver:
                message = receive_one(receiver)
                found.add(message.partition_id)
                receiver.complete_message(message)
    assert found == {oxbus.partition_id("customer-7")}


def test_the_hash_follows_the_number_of_partitions(
    open_namespace: Callable[..., Namespace], drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A namespace with another number of partitions spreads keys over that number (B-062, B-106)."""
    namespace = open_namespace(partitions=7)
    assert namespace.partitions == 7
    admin = oxbus.management.ServiceBusAdministrationClient(namespace)
    admin.create_queue("seven", enable_partitioning=True)
    keys = [f"key-{number}" for number in range(50)]
    with oxbus.ServiceBusClient(namespace) as client:
        with client.get_queue_sender("seven") as sender:
            for key in keys:
                sender.send_messages(ServiceBusMessage(key, partition_key=key))
        with client.get_queue_receiver("seven") as receiver:
            placed = {message.partition_key: message.partition_id for message in drain(receiver)}
    assert placed == {key: oxbus.partition_id(key, 7) for key in keys}
    assert set(placed.values()) == set(range(7))


def test_keyless_messages_go_round_robin(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Messages without a key spread evenly over all partitions (B-072)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for number in range(10 * PARTITIONS):
            sender.send_messages(ServiceBusMessage(str(number)))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        taken = Counter(message.partition_id for message in drain(receiver))
    assert taken == dict.fromkeys(range(PARTITIONS), 10)


def test_a_plain_queue_has_one_partition_for_all_keys(
    client: ServiceBusClient, plain_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A plain queue keeps all keys in one order and shows no partition id (B-104, B-120)."""
    with client.get_queue_sender(plain_queue) as sender:
        for number in range(40):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=f"key-{number}"))
    with client.get_queue_receiver(plain_queue) as receiver:
        messages = drain(receiver)
    assert [str(message) for message in messages] == [str(number) for number in range(40)]
    assert {message.partition_id for message in messages} == {None}


def test_messages_of_one_key_keep_their_order(
    client: ServiceBusClient, queue_name: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Messages of a key are received in the order they were sent (B-076)."""
    keys = [f"key-{number}" for number in range(40)]
    with client.get_queue_sender(queue_name) as sender:
        for number in range(5):
            for key in keys:
                sender.send_messages(ServiceBusMessage(str(number), partition_key=key))
    with client.get_queue_receiver(queue_name) as receiver:
        messages = drain(receiver)
    seen: dict[str | None, list[str]] = {}
    for message in messages:
        seen.setdefault(message.partition_key, []).append(str(message))
    assert seen == {key: ["0", "1", "2", "3", "4"] for key in keys}


def test_receivers_see_the_partition_key_as_it_was_sent(
    client: ServiceBusClient, queue_name: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """The partition key is received unchanged, and stays unset when the session id was the key (B-077)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage(b"x", partition_key="p", message_id="1"))
        sender.send_messages(ServiceBusMessage(b"x", session_id="s", message_id="2"))
        sender.send_messages(ServiceBusMessage(b"x", message_id="3"))
    with client.get_queue_receiver(queue_name) as receiver:
        keys = {message.message_id: (message.partition_key, message.session_id) for message in drain(receiver)}
    assert keys == {"1": ("p", None), "2": (None, "s"), "3": (None, None)}


@pytest.mark.parametrize("fault", REFUSALS)
def test_keyed_send_to_a_faulted_partition_fails(
    namespace: Namespace,
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    key_in: Callable[..., str],
    fault: str,
) -> None:
    """A keyed message never goes elsewhere: its send fails while others succeed (B-074, B-089, B-090, B-099)."""
    inject_fault(namespace, 3, fault)
    with client.get_queue_sender(partitioned_queue) as sender:
        with pytest.raises(REFUSALS[fault]) as refusal:
            sender.send_messages(ServiceBusMessage(b"lost", partition_key=key_in(3)))
        with pytest.raises(REFUSALS[fault]):
            sender.send_messages([ServiceBusMessage(b"lost", session_id=key_in(3))])
        sender.send_messages(ServiceBusMessage(b"kept", partition_key=key_in(4)))
    assert refusal.value.is_transient or fault == "enospc"
    heal(namespace, 3)
    with client.get_queue_receiver(partitioned_queue) as receiver:
        assert [str(message) for message in drain(receiver)] == ["kept"]


@pytest.mark.parametrize("fault", REFUSALS)
def test_keyless_sends_skip_a_faulted_partition(
    namespace: Namespace,
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    fault: str,
) -> None:
    """Keyless messages go to the other partitions, and use this one again after it heals (B-073)."""
    inject_fault(namespace, 3, fault)
    with client.get_queue_sender(partitioned_queue) as sender:
        for _ in range(3 * PARTITIONS):
            sender.send_messages(ServiceBusMessage(b"single"))
        sender.send_messages([ServiceBusMessage(b"batch") for _ in range(4)])
        heal(namespace, 3)
        for _ in range(PARTITIONS):
            sender.send_messages(ServiceBusMessage(b"later"))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    assert Counter(str(message) for message in messages) == {"single": 48, "batch": 4, "later": 16}
    early = {message.partition_id for message in messages if str(message) != "later"}
    assert early == set(range(PARTITIONS)) - {3}
    assert 3 in {message.partition_id for message in messages if str(message) == "later"}


def test_keyless_send_fails_when_every_partition_is_down(
    namespace: Namespace, client: ServiceBusClient, partitioned_queue: str
) -> None:
    """With no partition left, a keyless send fails with a transient error (B-073, B-090)."""
    for partition_id in range(PARTITIONS):
        inject_fault(namespace, partition_id, "unavailable")
    with client.get_queue_sender(partitioned_queue) as sender, pytest.raises(ServiceBusServerBusyError) as refusal:
        sender.send_messages(ServiceBusMessage(b"x"))
    assert refusal.value.is_transient


def test_plain_queue_lives_in_the_partition_of_its_name(
    namespace: Namespace, client: ServiceBusClient, plain_queue: str
) -> None:
    """A plain queue is out of service with its home partition only (B-057, B-099)."""
    home = oxbus.partition_id(plain_queue)
    for partition_id in range(PARTITIONS):
        inject_fault(namespace, partition_id, "unavailable")
    with client.get_queue_sender(plain_queue) as sender:
        with pytest.raises(PartitionUnavailableError):
            sender.send_messages(ServiceBusMessage(b"x"))
        heal(namespace, home)
        sender.send_messages(ServiceBusMessage(b"x"))


def test_receive_skips_a_faulted_partition(
    namespace: Namespace,
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Receivers get messages of healthy partitions, and those of the others after they heal (B-093)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for _ in range(PARTITIONS):
            sender.send_messages(ServiceBusMessage(b"x"))
    inject_fault(namespace, 5, "unavailable")
    with client.get_queue_receiver(partitioned_queue) as receiver:
        assert {message.partition_id for message in drain(receiver)} == set(range(PARTITIONS)) - {5}
        heal(namespace, 5)
        assert {message.partition_id for message in drain(receiver)} == {5}


def test_settling_a_message_of_a_faulted_partition_is_transient(
    namespace: Namespace,
    client: ServiceBusClient,
    partitioned_queue: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    key_in: Callable[..., str],
) -> None:
    """Settling fails while the message's partition is down, and works if it heals in time (B-095)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        sender.send_messages(ServiceBusMessage(b"x", partition_key=key_in(2)))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        message = receive_one(receiver)
        inject_fault(namespace, 2, "unavailable")
        with pytest.raises(PartitionUnavailableError):
            receiver.complete_message(message)
        with pytest.raises(PartitionUnavailableError):
            receiver.renew_message_lock(message)
        heal(namespace, 2)
        receiver.complete_message(message)


def test_partition_health_names_the_faulted_partition(namespace: Namespace) -> None:
    """`partition_health` has one entry per partition, with a reason for those out of service (B-097)."""
    inject_fault(namespace, 7, "unavailable")
    health = {entry.partition_id: entry for entry in namespace.partition_health()}
    assert sorted(health) == list(range(PARTITIONS))
    healthy = {entry.status for number, entry in health.items() if number != 7}
    assert len(healthy) == 1
    assert health[7].status not in healthy
    assert health[7].reason


@pytest.mark.parametrize("partitions", [1, 7, 16, 1000])
def test_partition_id_stays_in_range(partitions: int) -> None:
    """The hash names one of `partitions` partitions for text and for the same bytes alike (B-062)."""
    for key in ("", "a", "N12345", "schlüssel"):
        number = oxbus.partition_id(key, partitions)
        assert 0 <= number < partitions
        assert number == oxbus.partition_id(key.encode(), partitions)
