# SPDX-License-Identifier: Apache-2.0
"""Transactions over several queues, topics, and entities with duplicate detection."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusClient
from oxbus.exceptions import InvalidOperationError, MessageLockLostError
from transacting import KEY, LOCK_SECONDS, message, texts, undone

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


class TestEntities:
    """Transactions over one entity, or several in one partition (B-306, B-321 to B-324)."""

    def test_one_entity_only(
        self, client: ServiceBusClient, neighbours: tuple[str, str], snapshot: Callable[[str], object]
    ) -> None:
        """Another entity is refused with the service's text, and nothing happens to it (B-306)."""
        first, second = neighbours
        before = snapshot(second)
        with (
            client.get_queue_sender(first) as sender,
            client.get_queue_sender(second) as other,
            client.transaction() as txn,
        ):
            sender.send_messages(message(), transaction=txn)
            with pytest.raises(InvalidOperationError, match="cannot span multiple entities or partitions"):
                other.send_messages(message(), transaction=txn)
        assert snapshot(second) == before

    def test_several_entities(
        self,
        client: ServiceBusClient,
        neighbours: tuple[str, str],
        snapshot: Callable[[str], object],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """With cross_entity=True a message moves from one queue to another (B-306, B-321, B-324)."""
        first, second = neighbours
        with (
            client.get_queue_sender(first) as sender,
            client.get_queue_receiver(first) as receiver,
            client.get_queue_sender(second) as onward,
            client.get_queue_receiver(second) as end,
        ):
            sender.send_messages(message("request"))
            before = snapshot(second)
            request = receive_one(receiver)
            with undone(client, cross_entity=True) as txn:
                receiver.complete_message(request, transaction=txn)
                onward.send_messages(message("step"), transaction=txn)
            assert snapshot(second) == before
            with client.transaction(cross_entity=True) as txn:
                onward.send_messages(message("step"), transaction=txn)
                receiver.complete_message(request, transaction=txn)
                sender.send_messages(message("note"), transaction=txn)
            assert texts(end.receive_messages(10, max_wait_time=0)) == ["step"]
            assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["note"]

    def test_messages_of_two_entities_are_not_settled_together(
        self,
        client: ServiceBusClient,
        neighbours: tuple[str, str],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """A transaction settles messages of one entity, however many it sends to (B-324)."""
        held = []
        receivers = []
        for name in neighbours:
            client.get_queue_sender(name).send_messages(message(name))
            receivers.append(client.get_queue_receiver(name))
            held.append(receive_one(receivers[-1]))
        with client.transaction(cross_entity=True) as txn:
            receivers[0].complete_message(held[0], transaction=txn)
            with pytest.raises(InvalidOperationError):
                receivers[1].complete_message(held[1], transaction=txn)
        receivers[1].complete_message(held[1])

    def test_several_entities_need_the_same_key(
        self, client: ServiceBusClient, admin: ServiceBusAdministrationClient
    ) -> None:
        """With partitioned entities, all sends of a transaction have the same key (B-322)."""
        for name in ("a", "b"):
            admin.create_queue(name, enable_partitioning=True)
        first, second = client.get_queue_sender("a"), client.get_queue_sender("b")
        with client.transaction(cross_entity=True) as txn:
            first.send_messages(message("one"), transaction=txn)
            with pytest.raises(InvalidOperationError):
                second.send_messages(message("two", key="another"), transaction=txn)
            second.send_messages(message("two"), transaction=txn)
        (shown,) = client.get_queue_receiver("b").peek_messages()
        assert str(shown) == "two"

    def test_another_namespace_is_refused(
        self, sender: ServiceBusSender, open_namespace: Callable[..., Namespace]
    ) -> None:
        """A transaction cannot span two namespaces (B-329)."""
        other = ServiceBusClient(open_namespace())
        for cross_entity in (False, True):
            with other.transaction(cross_entity=cross_entity) as txn, pytest.raises(InvalidOperationError):
                sender.send_messages(message(), transaction=txn)

    @pytest.mark.parametrize("nothing", ["txn", 1, object()])
    def test_only_transactions_are_transactions(self, sender: ServiceBusSender, nothing: object) -> None:
        """Anything else as `transaction` is a TypeError (B-306)."""
        with pytest.raises(TypeError, match="transaction"):
            sender.send_messages(message(), transaction=nothing)  # type: ignore[arg-type]


class TestTopics:
    """Topics and subscriptions in transactions (B-323, B-343)."""

    def test_a_send_fans_out_at_the_commit(
        self,
        client: ServiceBusClient,
        topic: str,
        subscribe: Callable[..., str],
        take_copies: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """Every subscription gets all messages of the transaction, or none (B-315, B-343)."""
        subscribe("all")
        subscribe("too")
        with client.get_topic_sender(topic) as sender, client.transaction() as txn:
            sender.send_messages([message("one"), message("two")], transaction=txn)
            assert take_copies("all") == take_copies("too") == []
        with client.get_topic_sender(topic) as sender, undone(client) as txn:
            sender.send_messages(message("three"), transaction=txn)
        for subscription in ("all", "too"):
            copies = take_copies(subscription)
            assert texts(copies) == ["one", "two"]
            numbers = [each.enqueued_sequence_number for each in copies]
            assert None not in numbers
            assert len(set(numbers)) == 2

    def test_settling_a_copy_and_sending_to_its_topic(
        self,
        client: ServiceBusClient,
        topic: str,
        subscribe: Callable[..., str],
        publish: Callable[..., None],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """Topic and subscription are two entities, so this needs cross_entity=True (B-306, B-323)."""
        subscribe("all")
        publish("one", partition_key=KEY)
        with client.get_topic_sender(topic) as sender, client.get_subscription_receiver(topic, "all") as receiver:
            one = receive_one(receiver)
            with client.transaction() as txn:
                receiver.complete_message(one, transaction=txn)
                with pytest.raises(InvalidOperationError):
                    sender.send_messages(message("two"), transaction=txn)
                txn.rollback()
            with client.transaction(cross_entity=True) as txn:
                receiver.complete_message(one, transaction=txn)
                sender.send_messages(message("two"), transaction=txn)
            assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["two"]

    def test_scheduled_messages_wait_at_the_topic(
        self,
        client: ServiceBusClient,
        topic: str,
        subscribe: Callable[..., str],
        clock: ManualClock,
        take_copies: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """A transaction can schedule messages at a topic (B-240, B-241)."""
        subscribe("all")
        with client.get_topic_sender(topic) as sender, client.transaction() as txn:
            numbers = sender.schedule_messages(message("one"), clock.now() + timedelta(minutes=1), transaction=txn)
        assert len(numbers) == 1
        assert take_copies() == []
        clock.advance(61)
        assert texts(take_copies()) == ["one"]

    def test_copies_are_dropped_at_the_topic(
        self,
        client: ServiceBusClient,
        make_topic: Callable[..., str],
        subscribe: Callable[..., str],
        take_copies: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """Duplicate detection of a topic remembers committed messages (B-228, B-230)."""
        topic = make_topic(requires_duplicate_detection=True)
        subscribe("all")
        with client.get_topic_sender(topic) as sender:
            with undone(client) as txn:
                sender.send_messages(message("lost", message_id="m"), transaction=txn)
            with client.transaction() as txn:
                sender.send_messages(message("first", message_id="m"), transaction=txn)
                sender.send_messages(message("copy", message_id="m"), transaction=txn)
            sender.send_messages(message("copy", message_id="m"))
        assert texts(take_copies()) == ["first"]


class TestDuplicates:
    """Only a commit remembers ids (B-230)."""

    @pytest.fixture
    def detecting(self, make_queue: Callable[..., str]) -> str:
        """A queue with duplicate detection."""
        return make_queue("detecting", requires_duplicate_detection=True)

    def test_a_rollback_leaves_no_trace_of_an_id(
        self, client: ServiceBusClient, detecting: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
    ) -> None:
        """The id of a rolled-back message is not remembered, that of a committed one is (B-230)."""
        with client.get_queue_sender(detecting) as sender, client.get_queue_receiver(detecting) as receiver:
            txn = client.transaction()
            sender.send_messages(message("lost", message_id="m"), transaction=txn)
            txn.rollback()
            with client.transaction() as txn:
                sender.send_messages(message("first", message_id="m"), transaction=txn)
                sender.send_messages(message("copy", message_id="m"), transaction=txn)
            sender.send_messages(message("copy", message_id="m"))
            assert texts(drain(receiver)) == ["first"]

    def test_the_first_commit_wins(
        self, client: ServiceBusClient, detecting: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
    ) -> None:
        """Of two open transactions with one id, the first to commit stores its message (B-230)."""
        with client.get_queue_sender(detecting) as sender, client.get_queue_receiver(detecting) as receiver:
            first, second = client.transaction(), client.transaction()
            sender.send_messages(message("first", message_id="m"), transaction=first)
            sender.send_messages(message("second", message_id="m"), transaction=second)
            sender.send_messages(message("beside", message_id="n"), transaction=second)
            second.commit()
            first.commit()
            assert texts(drain(receiver)) == ["second", "beside"]

    def test_a_commit_that_fails_leaves_no_trace_of_an_id(
        self,
        client: ServiceBusClient,
        detecting: str,
        clock: ManualClock,
        drain: Callable[..., list[ServiceBusReceivedMessage]],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """A failed commit remembers no id (B-230)."""
        with client.get_queue_sender(detecting) as sender, client.get_queue_receiver(detecting) as receiver:
            sender.send_messages(message("old", message_id="o"))
            txn = client.transaction()
            receiver.complete_message(receive_one(receiver), transaction=txn)
            sender.send_messages(message("lost", message_id="m"), transaction=txn)
            clock.advance(LOCK_SECONDS)
            with pytest.raises(MessageLockLostError):
                txn.commit()
            sender.send_messages(message("new", message_id="m"))
            assert texts(drain(receiver)) == ["old", "new"]

    def test_scheduled_copies_are_dropped(
        self, client: ServiceBusClient, detecting: str, clock: ManualClock, admin: ServiceBusAdministrationClient
    ) -> None:
        """A scheduled duplicate is dropped too; its number names no message (B-225, B-227)."""
        due = clock.now() + timedelta(minutes=1)
        with client.get_queue_sender(detecting) as sender, client.transaction() as txn:
            messages = [message("first", message_id="m"), message("copy", message_id="m")]
            numbers = sender.schedule_messages(messages, due, transaction=txn)
        assert len(numbers) == 2
        assert admin.get_queue_runtime_properties(detecting).scheduled_message_count == 1
