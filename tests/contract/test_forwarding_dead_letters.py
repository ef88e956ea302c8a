# SPDX-License-Identifier: Apache-2.0
"""Unforwardable messages, and forwarded dead letters (B-264, B-267 to B-269, B-273, B-334, B-335)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from oxbus.exceptions import MessageNotFoundError, ServiceBusError
from oxbus.management import EntityStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

    Take = Callable[..., list[ServiceBusReceivedMessage]]

MIB = 1 << 20


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts."""
    return [str(message) for message in messages]


def change(admin: ServiceBusAdministrationClient, queue: str, **options: Any) -> None:
    """Change options of a queue."""
    properties = admin.get_queue(queue)
    for name, value in options.items():
        setattr(properties, name, value)
    admin.update_queue(properties)


@pytest.fixture
def dead_letter_all(client: ServiceBusClient) -> Callable[..., None]:
    """Dead-letter all messages of a queue."""

    def dead_letter_all(queue: str, **options: Any) -> None:
        with client.get_queue_receiver(queue) as receiver:
            while messages := receiver.receive_messages(100, max_wait_time=0):
                for message in messages:
                    receiver.dead_letter_message(message, **options)

    return dead_letter_all


@pytest.fixture
def only_dead_letter(take_from: Take, admin: ServiceBusAdministrationClient) -> Callable[[str], Any]:
    """The single dead letter of a queue that has no other messages."""

    def only_dead_letter(queue: str) -> ServiceBusReceivedMessage:
        counts = admin.get_queue_runtime_properties(queue)
        assert (counts.total_message_count, counts.dead_letter_message_count) == (1, 1)
        assert (counts.transfer_message_count, counts.transfer_dead_letter_message_count) == (0, 0)
        (dead,) = take_from(queue, "deadletter")
        return dead

    return only_dead_letter


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED])
def test_destination_is_disabled(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    send_to: Callable[..., None],
    take_from: Take,
    only_dead_letter: Callable[[str], Any],
    status: EntityStatus,
) -> None:
    """The message is dead-lettered at its source and not retried (B-268, B-335, B-400)."""
    make_queue("to")
    make_queue("from", forward_to="to")
    change(admin, "to", status=status)
    send_to("from", "refused", partition_key="k", application_properties={"a": 1})
    change(admin, "to", status=EntityStatus.ACTIVE)
    dead = only_dead_letter("from")
    assert (str(dead), dead.dead_letter_reason) == ("refused", "MessagingEntityDisabledException")
    assert "status forbids sending" in dead.dead_letter_error_description
    assert dead.application_properties["a"] == 1
    assert dead.dead_letter_source is None
    send_to("from", "taken", partition_key="k")
    assert texts(take_from("to")) == ["taken"]


def test_destination_is_deleted(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    send_to: Callable[..., None],
    take_from: Take,
    only_dead_letter: Callable[[str], Any],
) -> None:
    """Sends to the source fail until an entity of that name exists again (B-268, B-339)."""
    make_queue("to")
    make_queue("from", forward_to="to")
    admin.delete_queue("to")
    send_to("from", "refused", partition_key="k")
    dead = only_dead_letter("from")
    assert (str(dead), dead.dead_letter_reason) == ("refused", "MessagingEntityNotFoundException")
    assert dead.dead_letter_error_description == "The auto forwarding destination entity doesn't exist: `to`."
    make_queue("to")
    send_to("from", "taken", partition_key="k")
    assert texts(take_from("to")) == ["taken"]


def test_no_session_id(
    make_queue: Callable[..., str], send_to: Callable[..., None], only_dead_letter: Callable[[str], Any]
) -> None:
    """A destination with sessions refuses a message without one (B-185, B-267)."""
    make_queue("to", requires_session=True)
    make_queue("from", forward_to="to")
    send_to("from", "refused", partition_key="k")
    dead = only_dead_letter("from")
    assert (str(dead), dead.dead_letter_reason) == ("refused", "Session id is null.")
    assert (
        dead.dead_letter_error_description
        == "Session enabled entity doesn't allow a message whose session identifier is null."
    )


def test_too_large(
    make_queue: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    only_dead_letter: Callable[[str], Any],
) -> None:
    """A message over the size limit of the destination is dead-lettered at the source (B-268)."""
    make_queue("to", max_message_size_in_kilobytes=1024)
    make_queue("from", max_message_size_in_kilobytes=4096, forward_to="to")
    send_to("from", "x" * (2 * MIB), partition_key="k")
    send_to("from", "small", partition_key="k")
    assert texts(take_from("to")) == ["small"]
    dead = only_dead_letter("from")
    assert (len(str(dead)), dead.dead_letter_reason) == (2 * MIB, "MessageSizeExceededException")


def test_largest_message_passes(make_queue: Callable[..., str], client: ServiceBusClient, take_from: Take) -> None:
    """Data that forwarding adds to a message does not count toward its size (B-268)."""
    for name, to in (("c", None), ("b", "c"), ("a", "b")):
        make_queue(name, max_message_size_in_kilobytes=1024, forward_to=to)
    size = MIB
    with client.get_queue_sender("a") as sender:
        while True:
            try:
                sender.send_messages(ServiceBusMessage(b"x" * size, partition_key="k"))
                break
            except ServiceBusError:
                size -= 1
    (moved,) = take_from("c")
    assert len(str(moved)) == size > MIB - 200


def test_destination_is_full(
    admin: ServiceBusAdministrationClient, make_queue: Callable[..., str], client: ServiceBusClient, take_from: Take
) -> None:
    """Messages beyond the destination's size are dead-lettered at the source; later ones pass (B-268, B-335)."""
    make_queue("to", max_size_in_megabytes=1)
    make_queue("from", forward_to="to")
    with client.get_queue_sender("from") as sender:
        for number in range(13):
            sender.send_messages(ServiceBusMessage(b"x" * 100_000, partition_key="k", subject=str(number)))
    counts = admin.get_queue_runtime_properties("from")
    assert (counts.dead_letter_message_count, counts.transfer_message_count) == (3, 0)
    assert [message.subject for message in take_from("to")] == [str(number) for number in range(10)]
    with client.get_queue_sender("from") as sender:
        sender.send_messages(ServiceBusMessage(b"y", partition_key="k"))
    assert texts(take_from("to")) == ["y"]
    dead = take_from("from", "deadletter")
    assert [message.subject for message in dead] == ["10", "11", "12"]
    assert {message.dead_letter_reason for message in dead} == {"QuotaExceededException"}


def test_backlog_fills_the_destination(
    admin: ServiceBusAdministrationClient, make_queue: Callable[..., str], client: ServiceBusClient
) -> None:
    """Messages that move together are counted together (B-335)."""
    make_queue("to", max_size_in_megabytes=1)
    make_queue("from")
    with client.get_queue_sender("from") as sender:
        for _ in range(13):
            sender.send_messages(ServiceBusMessage(b"x" * 100_000, partition_key="k"))
    change(admin, "from", forward_to="to")
    assert admin.get_queue_runtime_properties("to").active_message_count == 10
    assert admin.get_queue_runtime_properties("from").dead_letter_message_count == 3


def test_dead_letters_move(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    send_to: Callable[..., None],
    take_from: Take,
    dead_letter_all: Callable[..., None],
) -> None:
    """They keep their reason, show their source, and cannot be received at the source (B-137, B-264, B-269)."""
    make_queue("graves")
    make_queue("from", forward_dead_lettered_messages_to="graves")
    send_to("from", "a", "b", partition_key="k")
    dead_letter_all("from", reason="why", error_description="more")
    moved = take_from("graves")
    assert texts(moved) == ["a", "b"]
    for message in moved:
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "more")
        assert (message.dead_letter_source, message.partition_key, message.delivery_count) == ("from", "k", 0)
    assert admin.get_queue_runtime_properties("from").total_message_count == 0
    with (
        client.get_queue_receiver("from", sub_queue="deadletter") as receiver,
        pytest.raises(ServiceBusError, match="auto-forwarding enabled"),
    ):
        receiver.receive_messages(max_wait_time=0)
    send_to("from", "still received", partition_key="k")
    assert texts(take_from("from")) == ["still received"]


def test_dead_letters_of_the_system_move(
    make_queue: Callable[..., str],
    send_to: Callable[..., None],
    client: ServiceBusClient,
    take_from: Take,
    clock: ManualClock,
) -> None:
    """Expired messages and those with exhausted deliveries are forwarded too (B-267, B-269)."""
    make_queue("graves")
    make_queue(
        "from",
        max_delivery_count=1,
        dead_lettering_on_message_expiration=True,
        forward_dead_lettered_messages_to="graves",
    )
    send_to("from", "abandoned", partition_key="k")
    with client.get_queue_receiver("from") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=0)
        receiver.abandon_message(message)
    send_to("from", "expired", partition_key="k", time_to_live=timedelta(seconds=30))
    clock.advance(31)
    assert take_from("from") == []
    found = {str(message): message.dead_letter_reason for message in take_from("graves")}
    assert found == {"abandoned": "MaxDeliveryCountExceeded", "expired": "TTLExpiredException"}


def test_unforwardable_messages_move_to_the_dead_letter_destination(
    make_queue: Callable[..., str], admin: ServiceBusAdministrationClient, send_to: Callable[..., None], take_from: Take
) -> None:
    """With both options, messages that the destination refuses go to the dead-letter destination (B-268, B-269)."""
    for name in ("to", "graves"):
        make_queue(name)
    make_queue("from", forward_to="to", forward_dead_lettered_messages_to="graves")
    change(admin, "to", status=EntityStatus.DISABLED)
    send_to("from", *map(str, range(200)), partition_key="k")
    moved = take_from("graves")
    assert texts(moved) == [str(number) for number in range(200)]
    assert {message.dead_letter_reason for message in moved} == {"MessagingEntityDisabledException"}
    assert {message.dead_letter_source for message in moved} == {"from"}


def test_dead_letters_of_a_subscription_move_to_a_topic(
    admin: ServiceBusAdministrationClient,
    topic: str,
    client: ServiceBusClient,
    send_to: Callable[..., None],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    partitioned: bool,
) -> None:
    """The source is the path of the subscription (B-264, B-269)."""
    admin.create_topic("graves", enable_partitioning=partitioned)
    admin.create_subscription("graves", "all")
    admin.create_subscription(topic, "all", forward_dead_lettered_messages_to="graves")
    send_to(topic, "x", partition_key="k")
    with client.get_subscription_receiver(topic, "all") as receiver:
        (message,) = drain(receiver)
        receiver.dead_letter_message(message, reason="why")
    with client.get_subscription_receiver("graves", "all") as receiver:
        (moved,) = drain(receiver)
    assert str(moved.dead_letter_source).lower() == f"{topic}/subscriptions/all"
    assert moved.dead_letter_reason == "why"
    assert moved.enqueued_sequence_number == message.enqueued_sequence_number


@pytest.mark.parametrize("way", ["deleted", "disabled", "cleared"])
def test_dead_letters_wait_for_their_destination(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    send_to: Callable[..., None],
    take_from: Take,
    dead_letter_all: Callable[..., None],
    way: str,
) -> None:
    """Refused dead letters stay until the destination accepts them, in order, or until they are received (B-269)."""
    make_queue("graves")
    make_queue("from", forward_dead_lettered_messages_to="graves")
    if way == "deleted":
        admin.delete_queue("graves")
    else:
        change(admin, "graves", status=EntityStatus.DISABLED)
    numbers = [str(number) for number in range(300)]
    send_to("from", *numbers, partition_key="k")
    dead_letter_all("from")
    assert admin.get_queue_runtime_properties("from").dead_letter_message_count == 300
    if way == "cleared":
        change(admin, "from", forward_dead_lettered_messages_to=None)
        assert texts(take_from("from", "deadletter")) == numbers
        return
    if way == "deleted":
        make_queue("graves")
    else:
        change(admin, "graves", status=EntityStatus.ACTIVE)
    assert texts(take_from("graves")) == numbers
    assert admin.get_queue_runtime_properties("from").total_message_count == 0


def test_one_refused_dead_letter_does_not_hold_up_others(
    make_queue: Callable[..., str], send_to: Callable[..., None], take_from: Take, dead_letter_all: Callable[..., None]
) -> None:
    """A dead letter that is too large stays, and later ones move (B-269)."""
    make_queue("graves", max_message_size_in_kilobytes=1024)
    make_queue("from", max_message_size_in_kilobytes=4096, forward_dead_lettered_messages_to="graves")
    send_to("from", "x" * (2 * MIB), "small", partition_key="k")
    dead_letter_all("from")
    assert texts(take_from("graves")) == ["small"]


def test_receive_disabled_source_keeps_its_messages(
    make_queue: Callable[..., str], admin: ServiceBusAdministrationClient, send_to: Callable[..., None], take_from: Take
) -> None:
    """Forwarding counts as receiving: messages stay while receiving is disabled (B-339, B-396)."""
    make_queue("to")
    make_queue("from", forward_to="to")
    change(admin, "from", status=EntityStatus.RECEIVE_DISABLED)
    send_to("from", "1", "2", partition_key="k")
    assert take_from("to") == []
    counts = admin.get_queue_runtime_properties("from")
    assert (counts.active_message_count, counts.transfer_message_count, counts.total_message_count) == (0, 2, 2)
    change(admin, "from", status=EntityStatus.ACTIVE)
    assert texts(take_from("to")) == ["1", "2"]


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode))
def test_transfer_dead_letter_queue_is_empty(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    send_to: Callable[..., None],
    mode: ServiceBusReceiveMode,
) -> None:
    """It can be browsed and received from; unforwardable messages go to the dead-letter queue (B-268, B-273)."""
    make_queue("to")
    make_queue("from", forward_to="to", forward_dead_lettered_messages_to="to")
    change(admin, "to", status=EntityStatus.DISABLED)
    send_to("from", "refused", partition_key="k")
    for sub_queue in (ServiceBusSubQueue.TRANSFER_DEAD_LETTER, "transferdeadletter"):
        with client.get_queue_receiver("from", sub_queue=sub_queue, receive_mode=mode) as receiver:
            assert receiver.receive_messages(10, max_wait_time=0) == []
            assert receiver.peek_messages(10) == []
            assert receiver.peek_messages(10, sequence_number=1) == []
            with pytest.raises(MessageNotFoundError):
                receiver.receive_deferred_messages(1)
    counts = admin.get_queue_runtime_properties("from")
    assert (counts.transfer_dead_letter_message_count, counts.dead_letter_message_count) == (0, 1)
    change(admin, "from", forward_dead_lettered_messages_to=None)
    with client.get_queue_receiver("from", sub_queue="deadletter") as receiver:
        (dead,) = receiver.receive_messages(max_wait_time=0)
        with (
            client.get_queue_receiver("from", sub_queue="transferdeadletter") as other,
            pytest.raises(ServiceBusError, match=r"belongs to another entity|lock supplied is invalid"),
        ):
            other.complete_message(dead)
        receiver.complete_message(dead)


def test_transfer_dead_letter_queue_of_a_subscription(
    topic: str, subscribe: Callable[..., str], client: ServiceBusClient, publish: Callable[..., None]
) -> None:
    """Every subscription has an empty one (B-273)."""
    subscribe()
    publish("x")
    with client.get_subscription_receiver(topic, "all", sub_queue="transferdeadletter") as receiver:
        assert receiver.receive_messages(max_wait_time=0) == []
        assert receiver.peek_messages() == []
