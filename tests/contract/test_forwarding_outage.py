# SPDX-License-Identifier: Apache-2.0
"""Forwarding while a partition of source or destination is out of service (B-074, B-086, B-093, B-273)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

    Take = Callable[..., list[ServiceBusReceivedMessage]]

BAD = 3
ALL = range(16)
KEY = next(key for key in map(str, range(1000)) if oxbus.partition_id(key, 16) == BAD)
"""A key of the bad partition."""

FAULTS = pytest.mark.parametrize("fault", ["unavailable", "busy", "enospc"])


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts."""
    return [str(message) for message in messages]


@pytest.fixture
def home() -> Callable[[str], int]:
    """The partition of a plain queue."""

    def home(name: str) -> int:
        return oxbus.partition_id(name.lower(), 16)

    return home


@pytest.fixture
def plain_to_partitioned(admin: ServiceBusAdministrationClient, home: Callable[[str], int]) -> str:
    """The name of a plain queue outside the bad partition that forwards to the partitioned queue `to`."""
    name = next(name for name in ("a", "b", "c") if home(name) != BAD)
    admin.create_queue("to", enable_partitioning=True)
    admin.create_queue(name, forward_to="to")
    return name


@FAULTS
def test_keyed_messages_wait_for_their_partition(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    plain_to_partitioned: str,
    send_to: Callable[..., None],
    take_from: Take,
    key_in: Callable[..., str],
    clock: ManualClock,
    fault: str,
) -> None:
    """They stay in transfer while others pass, and arrive in order after healing (B-093, B-273)."""
    source = plain_to_partitioned
    inject_fault(namespace, BAD, fault)
    for number in range(300):
        send_to(source, str(number), partition_key=KEY)
        if number % 10 == 0:
            send_to(source, f"other {number}", partition_key=key_in(number // 10 % 3))
    assert sorted(texts(take_from("to"))) == sorted(f"other {number}" for number in range(0, 300, 10))
    clock.advance(60)
    counts = admin.get_queue_runtime_properties(source)
    assert (counts.transfer_message_count, counts.active_message_count) == (300, 0)
    assert (counts.dead_letter_message_count, counts.total_message_count) == (0, 300)
    heal(namespace, BAD)
    assert texts(take_from("to")) == [str(number) for number in range(300)]
    assert admin.get_queue_runtime_properties(source).total_message_count == 0


def test_held_messages_can_be_browsed(
    namespace: Namespace, plain_to_partitioned: str, send_to: Callable[..., None], client: ServiceBusClient
) -> None:
    """Messages in transfer can be peeked at the source, and no delivery is counted (B-290, B-341)."""
    inject_fault(namespace, BAD, "unavailable")
    send_to(plain_to_partitioned, "x", partition_key=KEY)
    with client.get_queue_receiver(plain_to_partitioned) as receiver:
        (message,) = receiver.peek_messages()
    assert (str(message), message.delivery_count) == ("x", 0)


def test_held_messages_are_received_once_forwarding_ends(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    plain_to_partitioned: str,
    send_to: Callable[..., None],
    take_from: Take,
) -> None:
    """Clearing `forward_to` makes them receivable, in order (B-331)."""
    inject_fault(namespace, BAD, "unavailable")
    numbers = [str(number) for number in range(20)]
    send_to(plain_to_partitioned, *numbers, partition_key=KEY)
    queue = admin.get_queue(plain_to_partitioned)
    queue.forward_to = None
    admin.update_queue(queue)
    assert texts(take_from(plain_to_partitioned)) == numbers


@pytest.mark.parametrize("fault", ["busy", "enospc"])
def test_keyless_messages_go_elsewhere(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    take_from: Take,
    home: Callable[[str], int],
    clock: ManualClock,
    fault: str,
) -> None:
    """Keyless messages go to another partition of the destination (B-073, B-086)."""
    source = next(name for name in map(str, range(1000)) if home(name) == BAD)
    admin.create_queue("to", enable_partitioning=True)
    admin.create_queue(source, forward_to="to")
    due = clock.now() + timedelta(minutes=1)
    with client.get_queue_sender(source) as sender:
        sender.schedule_messages([ServiceBusMessage(str(number)) for number in range(20)], due)
        sender.schedule_messages([ServiceBusMessage("keyed", partition_key=KEY)], due)
    inject_fault(namespace, BAD, fault)
    clock.advance(61)
    messages = take_from("to")
    assert sorted(texts(messages), key=int) == [str(number) for number in range(20)]
    assert BAD not in {message.partition_id for message in messages}
    assert admin.get_queue_runtime_properties(source).transfer_message_count == 1
    heal(namespace, BAD)
    assert texts(take_from("to")) == ["keyed"]


def test_keyless_messages_avoid_full_partitions(
    admin: ServiceBusAdministrationClient, send_to: Callable[..., None], home: Callable[[str], int]
) -> None:
    """When one partition is full, the others accept them; when all are full, they are refused (B-073, B-335)."""
    source = next(name for name in map(str, range(1000)) if home(name) == BAD)
    admin.create_queue("to", enable_partitioning=True, max_size_in_megabytes=1)
    admin.create_queue(source, forward_to="to")
    big = "x" * 500_000
    send_to("to", big, big, partition_key=KEY)
    send_to(source, *[big] * 32)
    counts = admin.get_queue_runtime_properties("to")
    assert [partition.active_message_count for partition in counts.partitions] == [2] * 16
    counts = admin.get_queue_runtime_properties(source)
    assert (counts.dead_letter_message_count, counts.transfer_message_count) == (2, 0)


def test_sources_of_other_partitions_go_on(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    send_to: Callable[..., None],
    take_from: Take,
    key_in: Callable[..., str],
) -> None:
    """Fifteen partitions of the source forward; messages of the bad one move after it heals (B-093)."""
    admin.create_queue("to", enable_partitioning=True)
    admin.create_queue("from", enable_partitioning=True, forward_to="to", status="ReceiveDisabled")
    for partition in ALL:
        send_to("from", str(partition), partition_key=key_in(partition))
    queue = admin.get_queue("from")
    queue.status = "Active"
    admin.update_queue(queue)
    inject_fault(namespace, BAD, "unavailable")
    for partition in set(ALL) - {BAD}:
        send_to("from", "more", partition_key=key_in(partition))
    send_to("from", *["keyless"] * 32)
    messages = take_from("to")
    assert {message.partition_id for message in messages} == set(ALL) - {BAD}
    assert len(messages) == 15 + 15 + 32
    heal(namespace, BAD)
    assert texts(take_from("to")) == [str(BAD)]


def test_plain_destination_is_down(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    send_to: Callable[..., None],
    take_from: Take,
    home: Callable[[str], int],
) -> None:
    """All messages wait for a plain destination, dead letters of the source included (B-269, B-273)."""
    to = next(name for name in map(str, range(1000)) if home(name) == BAD)
    source = next(name for name in "abc" if home(name) != BAD)
    admin.create_queue(to)
    admin.create_queue(source, forward_dead_lettered_messages_to=to, default_message_time_to_live=timedelta(hours=1))
    admin.create_queue("s", enable_partitioning=True, forward_to=to)
    inject_fault(namespace, BAD, "busy")
    numbers = [str(number) for number in range(200)]
    for number in numbers:
        send_to("s", number, partition_key="k")
    assert take_from(to) == []
    assert admin.get_queue_runtime_properties("s").transfer_message_count == 200
    send_to(source, "dead", partition_key="k")
    with client.get_queue_receiver(source) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=0)
        receiver.dead_letter_message(message)
    assert admin.get_queue_runtime_properties(source).dead_letter_message_count == 1
    heal(namespace, BAD)
    arrived = texts(take_from(to))
    arrived.remove("dead")
    assert arrived == numbers


def test_held_messages_expire(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    plain_to_partitioned: str,
    send_to: Callable[..., None],
    take_from: Take,
    clock: ManualClock,
) -> None:
    """A message that expires while it waits does not arrive (B-246, B-330)."""
    inject_fault(namespace, BAD, "unavailable")
    send_to(plain_to_partitioned, "short", partition_key=KEY, time_to_live=timedelta(seconds=30))
    send_to(plain_to_partitioned, "long", partition_key=KEY)
    clock.advance(60)
    heal(namespace, BAD)
    assert texts(take_from("to")) == ["long"]
    assert admin.get_queue_runtime_properties(plain_to_partitioned).total_message_count == 0


def test_senders_share_the_work(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    partitioned: bool,
    take_from: Take,
    in_background: Callable[..., Any],
) -> None:
    """Concurrent sends to sources that forward to each other lose and duplicate nothing (B-330)."""
    names = ["a", "b", "c"]
    admin.create_queue("to", enable_partitioning=partitioned, requires_duplicate_detection=True)
    for name in names:
        admin.create_queue(name, enable_partitioning=partitioned, requires_duplicate_detection=True, forward_to="to")
    queue = admin.get_queue("b")
    queue.forward_to = "a"
    admin.update_queue(queue)

    def send(thread: int) -> None:
        with oxbus.ServiceBusClient(namespace) as client, client.get_queue_sender(names[thread % 3]) as sender:
            for number in range(500):
                text = f"{thread} {number}"
                sender.send_messages(ServiceBusMessage(text, message_id=text, partition_key=str(thread)))

    for call in [in_background(send, thread) for thread in range(6)]:
        call.result()
    messages = texts(take_from("to"))
    for thread in range(6):
        mine = [each for each in messages if each.startswith(f"{thread} ")]
        assert mine == [f"{thread} {number}" for number in range(500)]
    assert [admin.get_queue_runtime_properties(name).total_message_count for name in names] == [0, 0, 0]
