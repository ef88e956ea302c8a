# SPDX-License-Identifier: Apache-2.0
"""Limits of one transaction: keys, partitions, number of messages and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, OperationTimeoutError, ServiceBusQuotaExceededError
from transacting import MINUTES, message, texts, with_property

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


class TestKeys:
    """Keys in transactions on partitioned and plain entities (B-308 to B-314)."""

    def test_a_send_needs_a_key(
        self, client: ServiceBusClient, partitioned_queue: str, plain_queue: str, snapshot: Callable[[str], object]
    ) -> None:
        """A partitioned queue refuses keyless sends, and the message id is not a key (B-308, B-314)."""
        before = snapshot(partitioned_queue)
        with client.get_queue_sender(partitioned_queue) as sender, client.transaction() as txn:
            for keyless in (message(key=None), message(key=None, message_id="m"), [message(key=None)] * 2):
                with pytest.raises(InvalidOperationError, match=r"(?i)key"):
                    sender.send_messages(keyless, transaction=txn)
        assert snapshot(partitioned_queue) == before
        with (
            client.get_queue_sender(plain_queue) as sender,
            client.get_queue_receiver(plain_queue) as receiver,
            client.transaction() as txn,
        ):
            sender.send_messages(message("one", key=None), transaction=txn)
            sender.send_messages(message("two", key=None, message_id="m"), transaction=txn)
            txn.commit()
            assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["one", "two"]

    @pytest.mark.parametrize("name", ["partition_key", "session_id"])
    def test_all_sends_need_the_same_key(
        self, client: ServiceBusClient, partitioned_queue: str, plain_queue: str, two_keys: tuple[str, str], name: str
    ) -> None:
        """Different keys are refused, even of the same partition; a plain queue accepts them (B-309, B-313)."""
        first, second = two_keys
        with (
            client.get_queue_sender(partitioned_queue) as sender,
            client.get_queue_receiver(partitioned_queue) as receiver,
        ):
            with client.transaction() as txn:
                sender.send_messages(with_property("one", name, first), transaction=txn)
                for other in (second, "elsewhere"):
                    with pytest.raises(InvalidOperationError):
                        sender.send_messages(with_property("two", name, other), transaction=txn)
                sender.send_messages(with_property("three", name, first), transaction=txn)
            assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["one", "three"]
        with client.get_queue_sender(plain_queue) as sender, client.transaction() as txn:
            for key in (first, second, "elsewhere"):
                sender.send_messages(with_property(key, name, key), transaction=txn)
        with client.get_queue_receiver(plain_queue) as receiver:
            assert texts(receiver.receive_messages(10, max_wait_time=0)) == [first, second, "elsewhere"]

    def test_a_session_id_and_a_key_must_be_one(
        self, client: ServiceBusClient, sender: ServiceBusSender, with_two_keys: Callable[..., object]
    ) -> None:
        """Two different keys of one message are refused in a transaction as well (B-064, B-312)."""
        with client.transaction() as txn, pytest.raises(InvalidOperationError):
            with_two_keys(lambda both: sender.send_messages(both, transaction=txn))

    @pytest.mark.parametrize(
        ("first", "second", "stored"),
        [
            ({"message_id": "m"}, {"message_id": "m", "partition_key": "m"}, 1),
            ({"message_id": "m"}, {"message_id": "n"}, None),
            ({"message_id": "m", "partition_key": "p"}, {"message_id": "n", "partition_key": "p"}, 2),
            ({"message_id": "m", "session_id": "s"}, {"message_id": "n", "session_id": "s"}, 2),
        ],
    )
    def test_the_message_id_is_a_key_where_copies_are_dropped(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        first: dict[str, Any],
        second: dict[str, Any],
        stored: int | None,
    ) -> None:
        """With duplicate detection the message id is the key if there is no other (B-314)."""
        admin.create_queue("q", enable_partitioning=True, requires_duplicate_detection=True)
        with client.get_queue_sender("q") as sender, client.transaction() as txn:
            sender.send_messages(ServiceBusMessage("1", **first), transaction=txn)
            if stored is None:
                with pytest.raises(InvalidOperationError):
                    sender.send_messages(ServiceBusMessage("2", **second), transaction=txn)
            else:
                sender.send_messages(ServiceBusMessage("2", **second), transaction=txn)
        assert admin.get_queue_runtime_properties("q").total_message_count == (stored or 1)

    def test_settlements_are_of_one_partition(
        self,
        client: ServiceBusClient,
        partitioned_queue: str,
        key_in: Callable[..., str],
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """A second message of another partition is refused, and can be settled outside (B-310)."""
        with (
            client.get_queue_sender(partitioned_queue) as sender,
            client.get_queue_receiver(partitioned_queue) as receiver,
        ):
            for partition_id in (1, 2):
                sender.send_messages(message(key=key_in(partition_id)))
            first, second = drain(receiver)
            with client.transaction() as txn:
                receiver.complete_message(first, transaction=txn)
                with pytest.raises(InvalidOperationError, match="cannot span multiple entities or partitions"):
                    receiver.complete_message(second, transaction=txn)
            receiver.complete_message(second)

    def test_send_and_settlement_are_of_one_partition(
        self,
        client: ServiceBusClient,
        partitioned_queue: str,
        key_in: Callable[..., str],
        two_keys: tuple[str, str],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """A send must go to the partition of the settled message, with any key of it (B-311)."""
        with (
            client.get_queue_sender(partitioned_queue) as sender,
            client.get_queue_receiver(partitioned_queue) as receiver,
        ):
            sender.send_messages(message("request", key=two_keys[0]))
            request = receive_one(receiver)
            with client.transaction() as txn:
                receiver.complete_message(request, transaction=txn)
                with pytest.raises(InvalidOperationError):
                    sender.send_messages(message("elsewhere", key=key_in(4)), transaction=txn)
                sender.send_messages(message("reply", key=two_keys[1]), transaction=txn)
            assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["reply"]

    def test_a_session_queue_needs_session_ids(self, client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
        """A transactional send to a session queue needs a session id (B-312)."""
        name = make_queue(requires_session=True)
        with client.get_queue_sender(name) as sender, client.transaction() as txn:
            with pytest.raises(InvalidOperationError, match="SessionId"):
                sender.send_messages(message(), transaction=txn)
            sender.send_messages(ServiceBusMessage("one", session_id="s", partition_key="s"), transaction=txn)
        with client.get_queue_receiver(name, session_id="s", max_wait_time=0) as receiver:
            assert texts(receiver.receive_messages()) == ["one"]

    def test_sessions_of_one_transaction(
        self, client: ServiceBusClient, make_queue: Callable[..., str], partitioned: bool
    ) -> None:
        """A partitioned queue allows one session per transaction, a plain queue several (B-313)."""
        name = make_queue(requires_session=True)
        with client.get_queue_sender(name) as sender, client.transaction() as txn:
            sender.send_messages(ServiceBusMessage("one", session_id="s"), transaction=txn)
            if partitioned:
                with pytest.raises(InvalidOperationError):
                    sender.send_messages(ServiceBusMessage("two", session_id="t"), transaction=txn)
            else:
                sender.send_messages(ServiceBusMessage("two", session_id="t"), transaction=txn)
        if not partitioned:
            with client.get_queue_receiver(name, session_id="t", max_wait_time=0) as receiver:
                assert texts(receiver.receive_messages()) == ["two"]

    def test_a_topic_with_a_session_subscription_needs_session_ids(
        self, client: ServiceBusClient, topic: str, subscribe: Callable[..., str]
    ) -> None:
        """A topic needs session ids if any of its subscriptions requires sessions (B-312)."""
        subscribe("plain")
        with client.get_topic_sender(topic) as sender:
            with client.transaction() as txn:
                sender.send_messages(message("before"), transaction=txn)
            subscribe("by-session", requires_session=True)
            with client.transaction() as txn:
                with pytest.raises(InvalidOperationError, match="SessionId"):
                    sender.send_messages(message("after"), transaction=txn)
                sender.send_messages(ServiceBusMessage("after", session_id="s"), transaction=txn)
        with client.get_subscription_receiver(topic, "by-session", session_id="s", max_wait_time=0) as receiver:
            assert texts(receiver.receive_messages(10)) == ["after"]


class TestLimits:
    """Limits of messages and time (B-050, B-318, B-319)."""

    def test_a_hundred_messages(
        self, client: ServiceBusClient, admin: ServiceBusAdministrationClient, sender: ServiceBusSender, queue_name: str
    ) -> None:
        """The hundred-and-first is refused with the service's text; the others can be committed (B-050, B-319)."""
        with client.transaction() as txn:
            sender.send_messages([message()] * 60, transaction=txn)
            with pytest.raises(ServiceBusQuotaExceededError):
                sender.send_messages([message()] * 41, transaction=txn)
            sender.send_messages([message()] * 40, transaction=txn)
            with pytest.raises(
                ServiceBusQuotaExceededError, match="Cannot send more than 100 messages in a single transaction"
            ):
                sender.send_messages(message(), transaction=txn)
        assert admin.get_queue_runtime_properties(queue_name).total_message_count == 100

    @pytest.mark.parametrize("late", ["commit", "send", "settle"])
    def test_two_minutes(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        clock: ManualClock,
        snapshot: Callable[[str], object],
        receive_one: Callable[..., ServiceBusReceivedMessage],
        late: str,
    ) -> None:
        """Two minutes after its first operation a transaction is rolled back, whatever is called next (B-318)."""
        before = snapshot(queue_name)
        txn = client.transaction()
        clock.advance(10 * MINUTES)
        sender.send_messages(message(), transaction=txn)
        clock.advance(2 * MINUTES)
        sender.send_messages(message("beside"))
        received = receive_one(receiver)
        calls: dict[str, Callable[[], object]] = {
            "commit": txn.commit,
            "send": lambda: sender.send_messages(message(), transaction=txn),
            "settle": lambda: receiver.complete_message(received, transaction=txn),
        }
        with pytest.raises(OperationTimeoutError) as refusal:
            calls[late]()
        receiver.complete_message(received)
        assert refusal.value.condition == "amqp:transaction:timeout"
        assert snapshot(queue_name) == before
        with pytest.raises(InvalidOperationError):
            txn.commit()

    def test_just_under_two_minutes(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock
    ) -> None:
        """The time starts at the first operation, not at the creation of the transaction (B-318)."""
        with client.transaction() as txn:
            clock.advance(10 * MINUTES)
            sender.send_messages(message("one"), transaction=txn)
            clock.advance(2 * MINUTES - 1)
            sender.send_messages(message("two"), transaction=txn)
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["one", "two"]

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_finished_transaction_refuses_operations(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        end: str,
    ) -> None:
        """After the end every use except `begin` is refused with the service's text (B-327)."""
        txn = client.transaction()
        sender.send_messages(message("one"), transaction=txn)
        getattr(txn, end)()
        uses: list[Callable[[], object]] = [
            lambda: sender.send_messages(message(), transaction=txn),
            lambda: receiver.complete_message(locked[0], transaction=txn),
            txn.commit,
            txn.rollback,
        ]
        for use in uses:
            with pytest.raises(InvalidOperationError, match="hasn't been declared yet, or has already been discharged"):
                use()
        txn.begin()
        receiver.complete_message(locked[0], transaction=txn)
        with pytest.raises(InvalidOperationError):
            txn.begin()
        txn.commit()

    def test_work_after_the_end_inside_the_block_stays_out(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver
    ) -> None:
        """A `with` block does not end a transaction that was ended by a call (B-327)."""
        with client.transaction() as txn:
            sender.send_messages(message("one"), transaction=txn)
            txn.rollback()
        with client.transaction() as txn:
            sender.send_messages(message("two"), transaction=txn)
            txn.commit()
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["two"]
