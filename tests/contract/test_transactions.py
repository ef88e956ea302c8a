# SPDX-License-Identifier: Apache-2.0
"""Transactions: sends, settlements and session states that happen together or not at all (B-306 to B-330, B-050)."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import oxbus
import pytest
from oxbus import ServiceBusClient, ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from oxbus.exceptions import (
    InvalidOperationError,
    MessageAlreadySettled,
    MessageLockLostError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    PartitionUnavailableError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    SessionLockLostError,
)
from oxbus.management import EntityStatus
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender, Transaction
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

KEY = "key-a"
VERBS = ("complete", "abandon", "defer", "dead_letter")
LOCK_SECONDS = 60
MINUTES = 60


def message(body: str = "m", key: str | None = KEY, **options: Any) -> ServiceBusMessage:
    """A message with a key."""
    return ServiceBusMessage(body, partition_key=key, **options)


def with_property(body: str, name: str, value: str) -> ServiceBusMessage:
    """A message with one property."""
    properties: dict[str, Any] = {name: value}
    return ServiceBusMessage(body, **properties)


@contextlib.contextmanager
def undone(client: ServiceBusClient, **options: Any) -> Iterator[Transaction]:
    """A transaction that an exception ends."""
    with pytest.raises(KeyError), client.transaction(**options) as txn:  # noqa: PT012 -- it is raised at the end
        yield txn
        raise KeyError


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies, in the order of the messages."""
    return [str(each) for each in messages]


@pytest.fixture
def locked(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> list[ServiceBusReceivedMessage]:
    """Five messages with one key, locked."""
    for number in range(5):
        sender.send_messages(message(f"old {number}"))
    return drain(receiver)


@pytest.fixture
def two_keys(key_in: Callable[..., str]) -> tuple[str, str]:
    """Two keys that live in one partition."""
    first = key_in(3)
    candidates = (f"other-{number}" for number in range(10_000))
    return first, next(key for key in candidates if oxbus.partition_id(key) == 3)


@pytest.fixture
def neighbours(admin: ServiceBusAdministrationClient, partitioned: bool) -> tuple[str, str]:
    """Two queues that a transaction can span: partitioned ones, or plain ones that live in one partition."""
    names = ["first"] + [f"second{number}" for number in range(1000)]
    home = oxbus.partition_id("first")
    second = next(name for name in names[1:] if oxbus.partition_id(name) == home)
    for name in ("first", second):
        admin.create_queue(name, enable_partitioning=partitioned)
    return "first", second


class TestTogether:
    """All of it happens at the commit, and nothing before (B-307, B-315)."""

    def test_sends_are_there_after_the_commit_only(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        snapshot: Callable[[str], object],
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """Neither receive nor peek nor counts show a message before the commit (B-315)."""
        before = snapshot(queue_name)
        with client.transaction() as txn:
            sender.send_messages(message("one"), transaction=txn)
            sender.send_messages([message("two"), message("three")], transaction=txn)
            batch = sender.create_message_batch()
            batch.add_message(message("four"))
            sender.send_messages(batch, transaction=txn)
            assert snapshot(queue_name) == before
            assert receiver.receive_messages(max_wait_time=0) == []
        received = drain(receiver)
        assert texts(received) == ["one", "two", "three", "four"]
        numbers = [each.sequence_number for each in received]
        assert numbers == list(range(numbers[0], numbers[0] + 4))

    def test_settlements_happen_at_the_commit_only(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        snapshot: Callable[[str], object],
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """Complete, abandon, defer, dead-letter and a send in one transaction (B-307)."""
        before = snapshot(queue_name)
        done, back, aside, dead, kept = locked
        with client.transaction() as txn:
            receiver.complete_message(done, transaction=txn)
            receiver.abandon_message(back, properties_to_modify={"again": 1}, transaction=txn)
            receiver.defer_message(aside, properties_to_modify={"later": 2}, transaction=txn)
            receiver.dead_letter_message(dead, reason="broken", error_description="no address", transaction=txn)
            sender.send_messages(message("new"), transaction=txn)
            assert snapshot(queue_name) == before
        counts = admin.get_queue_runtime_properties(queue_name)
        assert counts.total_message_count == 5
        assert (counts.deferred_message_count, counts.dead_letter_message_count) == (1, 1)
        assert counts.locked_message_count == 1
        received = drain(receiver)
        assert texts(received) == ["old 1", "new"]
        assert (received[0].delivery_count, received[0].application_properties) == (1, {"again": 1})
        (deferred,) = receiver.receive_deferred_messages(aside.sequence_number)
        assert deferred.application_properties == {"later": 2}
        with client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead_letters:
            (buried,) = drain(dead_letters)
        assert (str(buried), buried.dead_letter_reason) == ("old 3", "broken")
        assert buried.dead_letter_error_description == "no address"
        assert buried.sequence_number == dead.sequence_number
        receiver.complete_message(kept)

    @pytest.mark.parametrize("verb", VERBS)
    def test_the_plural_verbs_take_part(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        verb: str,
    ) -> None:
        """A list is settled in a transaction as one message is (B-307)."""
        with client.transaction() as txn:
            getattr(receiver, f"{verb}_messages")(locked, transaction=txn)
            assert admin.get_queue_runtime_properties(queue_name).locked_message_count == 5
        counts = admin.get_queue_runtime_properties(queue_name)
        found = (counts.total_message_count, counts.deferred_message_count, counts.dead_letter_message_count)
        assert (
            found == {"complete": (0, 0, 0), "abandon": (5, 0, 0), "defer": (5, 5, 0), "dead_letter": (5, 0, 5)}[verb]
        )
        assert counts.locked_message_count == 0

    def test_scheduled_messages_get_their_numbers_at_the_commit(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        clock: ManualClock,
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """The list that schedule_messages returns is filled then, and its numbers cancel (B-240, B-307)."""
        due = clock.now() + timedelta(minutes=5)
        with client.transaction() as txn:
            numbers = sender.schedule_messages([message("stays"), message("goes")], due, transaction=txn)
            sender.send_messages(message("by property", scheduled_enqueue_time_utc=due), transaction=txn)
            assert numbers == []
            assert receiver.peek_messages() == []
        assert len(numbers) == 2
        shown = {each.sequence_number: each for each in receiver.peek_messages(10)}
        assert [str(shown[number]) for number in numbers] == ["stays", "goes"]
        assert {each.state for each in shown.values()} == {ServiceBusMessageState.SCHEDULED}
        sender.cancel_scheduled_messages(numbers[1])
        clock.advance(301)
        assert sorted(texts(drain(receiver))) == ["by property", "stays"]

    def test_what_is_scheduled_for_the_past_can_be_received_at_once(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        clock: ManualClock,
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """A time that is over waits for nothing, and the message comes at the commit (B-234, B-248, B-307).

        It waited for the clock to move when somebody had looked at the queue at the same time, and its life had begun
        when it was due: it could be over before the commit.
        """
        assert receiver.receive_messages(max_wait_time=0) == []
        with client.transaction() as txn:
            late = message("late", time_to_live=timedelta(minutes=2))
            sender.schedule_messages(late, clock.now() - timedelta(minutes=5), transaction=txn)
            clock.advance(30)
        (received,) = drain(receiver)
        assert (str(received), received.enqueued_time_utc) == ("late", clock.now())
        assert received.expires_at_utc == clock.now() + timedelta(minutes=2)

    def test_a_waiting_receive_gets_what_a_commit_brings(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        in_background: Callable[..., Any],
    ) -> None:
        """Who waits is woken by the commit, as by a send (B-315)."""
        waiting = in_background(receiver.receive_messages, max_wait_time=3600)
        with client.transaction() as txn:
            sender.send_messages(message("one"), transaction=txn)
            assert waiting.running
        assert texts(waiting.result()) == ["one"]

    def test_an_abandoned_message_wakes_who_waits(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        in_background: Callable[..., Any],
    ) -> None:
        """What a commit gives back can be received at once (B-163, B-315)."""
        waiting = in_background(receiver.receive_messages, max_wait_time=3600)
        with client.transaction() as txn:
            receiver.abandon_message(locked[0], transaction=txn)
            assert waiting.running
        assert texts(waiting.result()) == ["old 0"]

    def test_time_to_live_runs_from_the_commit(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        clock: ManualClock,
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """A message is accepted when the transaction is committed (B-246, B-315)."""
        with client.transaction() as txn:
            sender.send_messages(message("one", time_to_live=timedelta(seconds=30)), transaction=txn)
            clock.advance(40)
        received = receive_one(receiver)
        assert received.enqueued_time_utc == clock.now()
        assert received.expires_at_utc == clock.now() + timedelta(seconds=30)

    def test_a_commit_of_nothing_is_no_error(self, client: ServiceBusClient) -> None:
        """A transaction in which nothing was done can be committed and rolled back (B-306)."""
        with client.transaction():
            pass
        client.transaction().commit()
        client.transaction().rollback()

    def test_exhausted_deliveries_bury_at_the_commit(
        self,
        client: ServiceBusClient,
        make_queue: Callable[..., str],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """The last abandon in a transaction moves the message to the dead-letter queue (B-178, B-307)."""
        name = make_queue(max_delivery_count=1)
        with (
            client.get_queue_sender(name) as sender,
            client.get_queue_receiver(name) as receiver,
            client.get_queue_receiver(name, sub_queue="deadletter") as dead_letters,
        ):
            sender.send_messages(message("one"))
            with client.transaction() as txn:
                receiver.abandon_message(receive_one(receiver), transaction=txn)
                assert dead_letters.peek_messages() == []
            assert receive_one(dead_letters).dead_letter_reason == "MaxDeliveryCountExceeded"

    def test_the_limit_of_deliveries_is_that_of_the_commit(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        make_queue: Callable[..., str],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """An abandoned message counts by the settings that the queue has when it comes back (B-178, B-307).

        The model found it: a limit that was lowered before the commit was not heeded.
        """
        name = make_queue(max_delivery_count=3)
        with (
            client.get_queue_sender(name) as sender,
            client.get_queue_receiver(name) as receiver,
            client.get_queue_receiver(name, sub_queue="deadletter") as dead_letters,
        ):
            sender.send_messages(message("one"))
            with client.transaction() as txn:
                receiver.abandon_message(receive_one(receiver), transaction=txn)
                queue = admin.get_queue(name)
                queue.max_delivery_count = 1
                admin.update_queue(queue)
            assert receive_one(dead_letters).dead_letter_reason == "MaxDeliveryCountExceeded"

    def test_dead_letters_are_settled_in_a_transaction(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """A dead letter is sent anew and completed in one transaction; to bury it again is refused (B-261)."""
        receiver.dead_letter_messages(locked)
        with client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
            again, back, aside, *_ = drain(dead_letters)
            with client.transaction() as txn:
                sender.send_messages(message(f"again {again}"), transaction=txn)
                dead_letters.complete_message(again, transaction=txn)
                dead_letters.abandon_message(back, transaction=txn)
                dead_letters.defer_message(aside, transaction=txn)
                with pytest.raises(InvalidOperationError):
                    dead_letters.dead_letter_message(back, transaction=txn)
            assert texts(drain(dead_letters)) == ["old 1"]
            assert texts(dead_letters.receive_deferred_messages(aside.sequence_number)) == ["old 2"]
        assert texts(drain(receiver)) == ["again old 0"]

    def test_deferred_messages_are_settled_in_a_transaction(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
    ) -> None:
        """What was fetched by number is completed or stays deferred (B-282, B-284, B-307)."""
        receiver.defer_messages(locked)
        numbers = [each.sequence_number for each in locked]
        fetched = receiver.receive_deferred_messages(numbers)
        with client.transaction() as txn:
            receiver.complete_messages(fetched[:2], transaction=txn)
            receiver.abandon_messages(fetched[2:4], transaction=txn)
            receiver.dead_letter_message(fetched[4], transaction=txn)
        counts = admin.get_queue_runtime_properties(queue_name)
        assert (counts.deferred_message_count, counts.dead_letter_message_count) == (2, 1)
        assert len(receiver.receive_deferred_messages(numbers[2:4])) == 2

    def test_a_lock_can_be_renewed_in_between(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """A renewal happens at once and keeps the settlement of the transaction good (B-307)."""
        with client.transaction() as txn, txn.scope():
            receiver.complete_message(locked[0])
            clock.advance(LOCK_SECONDS - 1)
            receiver.renew_message_lock(locked[0])
            clock.advance(LOCK_SECONDS - 1)
            txn.complete()
        assert receiver.peek_messages()[0].sequence_number != locked[0].sequence_number


class TestRollback:
    """What is rolled back has not happened (B-316)."""

    @pytest.mark.parametrize("verb", VERBS)
    def test_an_error_rolls_back_and_messages_stay_locked(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        snapshot: Callable[[str], object],
        verb: str,
    ) -> None:
        """Nothing was sent or settled, and the same objects can be settled again (B-316)."""
        before = snapshot(queue_name)
        lost = message("lost")
        with undone(client) as txn:
            sender.send_messages(lost, transaction=txn)
            getattr(receiver, f"{verb}_messages")(locked, transaction=txn)
        assert snapshot(queue_name) == before
        assert receiver.receive_messages(max_wait_time=0) == []
        with client.transaction() as txn:
            receiver.complete_messages(locked[:2], transaction=txn)
            sender.send_messages(lost, transaction=txn)
        receiver.complete_messages(locked[2:])
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["lost"]

    def test_the_list_of_numbers_stays_empty(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock
    ) -> None:
        """A rolled-back schedule gives no numbers and leaves no gap in them (B-105, B-316)."""
        due = clock.now() + timedelta(minutes=5)
        sender.send_messages(message("before"))
        txn = client.transaction()
        numbers = sender.schedule_messages(message(), due, transaction=txn)
        txn.rollback()
        assert numbers == []
        sender.send_messages(message("after"))
        first, second = receiver.receive_messages(10, max_wait_time=0)
        assert second.sequence_number == first.sequence_number + 1

    def test_locks_end_as_they_would_have(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """A transaction does not keep a message locked (B-316)."""
        with undone(client) as txn:
            receiver.complete_messages(locked, transaction=txn)
        clock.advance(LOCK_SECONDS)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(locked[0])
        again = receiver.receive_messages(10, max_wait_time=0)
        assert [each.delivery_count for each in again] == [1] * 5

    def test_a_closed_namespace_ends_its_transactions(
        self, namespace: Namespace, client: ServiceBusClient, sender: ServiceBusSender
    ) -> None:
        """What was not committed when the namespace closed never happened (B-326)."""
        txn = client.transaction()
        sender.send_messages(message(), transaction=txn)
        namespace.close()
        with pytest.raises(ValueError, match="closed"):
            txn.commit()


class TestKeys:
    """Keys of a partitioned entity, and their absence on another (B-308 to B-314)."""

    def test_a_send_needs_a_key(
        self, client: ServiceBusClient, partitioned_queue: str, plain_queue: str, snapshot: Callable[[str], object]
    ) -> None:
        """Keyless is refused on a partitioned queue, and the message id is no key there (B-308, B-314)."""
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
        """Other keys are refused, also of the same partition; a plain queue takes them (B-309, B-313)."""
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
        """With duplicate detection it counts as key when there is no other (B-314)."""
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
        """The second message is refused when it is of another partition, and can be settled alone (B-310)."""
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
        """A send must hit the partition of the settled message, by whatever key (B-311)."""
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
        """A transactional send to a session queue carries a session id (B-312)."""
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
        """A partitioned queue takes one session in a transaction, another one several (B-313)."""
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
        """A topic counts as one with sessions when any of its subscriptions requires them (B-312)."""
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
    """How much and how long (B-050, B-318, B-319)."""

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
        """Two minutes from the first operation it is rolled back, whatever comes next (B-318)."""
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
        """The time counts from the first operation, not from the making of the transaction (B-318)."""
        with client.transaction() as txn:
            clock.advance(10 * MINUTES)
            sender.send_messages(message("one"), transaction=txn)
            clock.advance(2 * MINUTES - 1)
            sender.send_messages(message("two"), transaction=txn)
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["one", "two"]

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_finished_transaction_takes_nothing_more(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        end: str,
    ) -> None:
        """After the end every use is refused with the service's text, but `begin` (B-327)."""
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
        """A block whose transaction was ended by hand does not end it again (B-327)."""
        with client.transaction() as txn:
            sender.send_messages(message("one"), transaction=txn)
            txn.rollback()
        with client.transaction() as txn:
            sender.send_messages(message("two"), transaction=txn)
            txn.commit()
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["two"]


class TestEntities:
    """One entity, or several that live in one partition (B-306, B-321 to B-324)."""

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
        """A transaction receives from one entity, however many it sends to (B-324)."""
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
        """Partitioned entities meet in the partition of the key that all sends have (B-322)."""
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

    def test_another_namespace_takes_no_part(
        self, sender: ServiceBusSender, open_namespace: Callable[..., Namespace]
    ) -> None:
        """There are no transactions over two namespaces (B-329)."""
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
        """Topic and subscription are two entities, so it takes cross_entity=True (B-306, B-323)."""
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
        """A transaction schedules for a topic as well (B-240, B-241)."""
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
        """Duplicate detection of a topic counts what was committed (B-228, B-230)."""
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
    """Ids are remembered by a commit and by nothing else (B-230)."""

    @pytest.fixture
    def detecting(self, make_queue: Callable[..., str]) -> str:
        """A queue that drops copies."""
        return make_queue("detecting", requires_duplicate_detection=True)

    def test_a_rollback_leaves_no_trace_of_an_id(
        self, client: ServiceBusClient, detecting: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
    ) -> None:
        """The id of a rolled-back message is free, that of a committed one is not (B-230)."""
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
        """Of two open transactions with one id the one that is committed first has the message (B-230)."""
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
        """As after a rollback (B-230)."""
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
        """A copy that was to wait is dropped too; its number names nothing (B-225, B-227)."""
        due = clock.now() + timedelta(minutes=1)
        with client.get_queue_sender(detecting) as sender, client.transaction() as txn:
            messages = [message("first", message_id="m"), message("copy", message_id="m")]
            numbers = sender.schedule_messages(messages, due, transaction=txn)
        assert len(numbers) == 2
        assert admin.get_queue_runtime_properties(detecting).scheduled_message_count == 1


class TestFailedCommits:
    """A commit that cannot do all of it does nothing (B-306, B-316, B-330)."""

    def test_a_lock_that_is_over(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
        snapshot: Callable[[str], object],
    ) -> None:
        """Nothing is sent or settled; the locks that hold go on until their own ends (B-155, B-316)."""
        clock.advance(LOCK_SECONDS - 10)
        for kept in locked[:3]:
            receiver.renew_message_lock(kept)
        txn = client.transaction()
        receiver.complete_messages(locked, transaction=txn)
        sender.send_messages(message("lost"), transaction=txn)
        clock.advance(20)
        before = snapshot(queue_name)
        with pytest.raises(MessageLockLostError):
            txn.commit()
        assert snapshot(queue_name) == before
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["old 3", "old 4"]
        receiver.complete_message(locked[0])
        clock.advance(LOCK_SECONDS - 21)
        receiver.complete_message(locked[1])
        clock.advance(1)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(locked[2])

    def test_a_lock_that_is_over_already(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """The call itself says so (B-155)."""
        clock.advance(LOCK_SECONDS)
        with client.transaction() as txn, pytest.raises(MessageLockLostError):
            receiver.complete_message(locked[0], transaction=txn)

    def test_a_message_that_was_settled_beside_it(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
    ) -> None:
        """Whoever settles a message outside of the transaction breaks its commit (B-317)."""
        txn = client.transaction()
        receiver.complete_messages(locked[:2], transaction=txn)
        sender.send_messages(message("lost"), transaction=txn)
        receiver.abandon_message(locked[1])
        with pytest.raises(MessageLockLostError):
            txn.commit()
        receiver.complete_message(locked[0])
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["old 1"]

    def test_settling_twice(
        self, client: ServiceBusClient, receiver: ServiceBusReceiver, locked: list[ServiceBusReceivedMessage]
    ) -> None:
        """A message is settled once in a transaction, and once for good (B-160, B-316)."""
        with client.transaction() as txn:
            receiver.complete_message(locked[0], transaction=txn)
            with pytest.raises(MessageAlreadySettled):
                receiver.abandon_message(locked[0], transaction=txn)
        assert locked[0].lock_token is None
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(locked[0])
        with client.transaction() as txn, pytest.raises(MessageAlreadySettled):
            receiver.complete_message(locked[0], transaction=txn)

    def test_a_dead_letter_is_not_the_message_that_it_was(
        self,
        client: ServiceBusClient,
        make_queue: Callable[..., str],
        clock: ManualClock,
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """Both have one number, and each is settled for itself in a transaction (B-111, B-316).

        The model found it: the dead letter was refused as a message that was settled before.
        """
        name = make_queue(max_delivery_count=1)
        with (
            client.get_queue_sender(name) as sender,
            client.get_queue_receiver(name) as receiver,
            client.get_queue_receiver(name, sub_queue="deadletter") as dead_letters,
        ):
            sender.send_messages(message("one"))
            before = receive_one(receiver)
            # The commit fails: the first lock is over, and the dead letter stays.
            txn = client.transaction()
            receiver.complete_message(before, transaction=txn)
            clock.advance(61)
            dead = receive_one(dead_letters)
            assert dead.sequence_number == before.sequence_number
            dead_letters.complete_message(dead, transaction=txn)
            with pytest.raises(MessageLockLostError):
                txn.commit()
            assert texts(dead_letters.peek_messages()) == ["one"]

    def test_a_full_queue(
        self,
        client: ServiceBusClient,
        make_queue: Callable[..., str],
        snapshot: Callable[[str], object],
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """What fits one by one and not together leaves everything as it was (B-316)."""
        name = make_queue("full", max_size_in_megabytes=1)
        large = message("x" * 220_000)
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
            sender.send_messages(large)
            old = receive_one(receiver)
            before = snapshot(name)
            txn = client.transaction()
            receiver.complete_message(old, transaction=txn)
            for _ in range(5):
                sender.send_messages(large, transaction=txn)
            with pytest.raises(ServiceBusQuotaExceededError):
                txn.commit()
            assert snapshot(name) == before
            with client.transaction() as txn:
                receiver.complete_message(old, transaction=txn)
                for _ in range(3):
                    sender.send_messages(large, transaction=txn)
            assert len(receiver.receive_messages(10, max_wait_time=0)) == 3

    def test_a_refused_commit_is_not_tried_again(
        self, client: ServiceBusClient, make_queue: Callable[..., str]
    ) -> None:
        """When there is room again, what was rolled back stays away (B-320)."""
        name = make_queue("full", max_size_in_megabytes=1)
        large = message("x" * 700_000)
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name, max_wait_time=0) as receiver:
            sender.send_messages(large)
            txn = client.transaction()
            sender.send_messages(message("late"), transaction=txn)
            sender.send_messages(large, transaction=txn)
            with pytest.raises(ServiceBusQuotaExceededError):
                txn.commit()
            receiver.complete_messages(receiver.receive_messages())
            sender.send_messages(message("after"))
            assert texts(receiver.receive_messages(10)) == ["after"]

    def test_a_memory_limit(self, store: str, open_namespace: Callable[..., Namespace], partitioned: bool) -> None:
        """In memory the limit refuses the commit; in a directory bodies go to disk (R-25)."""
        namespace = open_namespace(memory_limit_bytes=2 << 20)
        admin = oxbus.management.ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=partitioned)
        client = ServiceBusClient(namespace)
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            txn = client.transaction()
            bodies = [f"{number}" * 100_000 for number in range(9)]
            for _ in range(3):
                for body in bodies:
                    sender.send_messages(message(body), transaction=txn)
            if store == "memory":
                with pytest.raises(ServiceBusQuotaExceededError):
                    txn.commit()
                assert receiver.peek_messages() == []
            else:
                txn.commit()
                assert texts(receiver.receive_messages(100, max_wait_time=0)) == bodies * 3

    @pytest.mark.parametrize("fault", ["unavailable", "busy", "enospc"])
    def test_a_partition_out_of_service(
        self,
        namespace: Namespace,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        snapshot: Callable[[str], object],
        partitioned: bool,
        fault: str,
    ) -> None:
        """The commit fails, nothing happened, and after the outage the messages are still locked (B-316)."""
        partition_id = oxbus.partition_id(KEY if partitioned else queue_name)
        before = snapshot(queue_name)
        txn = client.transaction()
        receiver.complete_messages(locked, transaction=txn)
        sender.send_messages(message("lost"), transaction=txn)
        inject_fault(namespace, partition_id, fault)
        with pytest.raises(ServiceBusError) as refusal:
            txn.commit()
        if fault == "unavailable":
            assert isinstance(refusal.value, PartitionUnavailableError)
        heal(namespace, partition_id)
        assert snapshot(queue_name) == before
        receiver.complete_messages(locked)

    def test_a_queue_that_was_disabled_or_deleted(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
    ) -> None:
        """What refuses a send refuses the commit (B-397)."""
        txn = client.transaction()
        sender.send_messages(message("lost"), transaction=txn)
        receiver.complete_message(locked[0], transaction=txn)
        properties = admin.get_queue(queue_name)
        properties.status = EntityStatus.SEND_DISABLED
        admin.update_queue(properties)
        with pytest.raises(MessagingEntityDisabledError):
            txn.commit()
        receiver.complete_message(locked[0])
        properties.status = EntityStatus.ACTIVE
        admin.update_queue(properties)
        txn = client.transaction()
        sender.send_messages(message("lost"), transaction=txn)
        admin.delete_queue(queue_name)
        with pytest.raises(MessagingEntityNotFoundError):
            txn.commit()


class TestSessions:
    """Sessions in transactions (B-213, B-312, B-328)."""

    @pytest.fixture
    def name(self, make_queue: Callable[..., str]) -> str:
        """A queue with sessions."""
        return make_queue("sessions", requires_session=True)

    def test_state_messages_and_a_send_go_together(self, client: ServiceBusClient, name: str) -> None:
        """State, settlement and send happen at the commit (B-213, B-328)."""
        with (
            client.get_queue_sender(name) as sender,
            client.get_queue_receiver(name, session_id="s", max_wait_time=0) as receiver,
        ):
            sender.send_messages([ServiceBusMessage(str(number), session_id="s") for number in range(3)])
            one, two, three = receiver.receive_messages(3)
            session = receiver.session
            assert session is not None
            session.set_state(b"old")
            with undone(client) as txn:
                session.set_state(b"lost", transaction=txn)
                receiver.complete_message(one, transaction=txn)
            assert session.get_state() == b"old"
            with client.transaction() as txn:
                session.set_state(b"between", transaction=txn)
                receiver.complete_message(one, transaction=txn)
                receiver.abandon_message(two, transaction=txn)
                session.set_state(b"new", transaction=txn)
                sender.send_messages(ServiceBusMessage("next", session_id="s"), transaction=txn)
                assert session.get_state() == b"old"
            assert session.get_state() == b"new"
            assert texts(receiver.receive_messages(10)) == ["1", "next"]
            receiver.complete_message(three)
            with client.transaction() as txn:
                session.set_state(None, transaction=txn)
            assert session.get_state() is None

    def test_a_session_that_is_lost(self, client: ServiceBusClient, name: str, clock: ManualClock) -> None:
        """The commit fails, and another receiver gets the messages and the old state (B-203, B-316)."""
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("one", session_id="s"))
            receiver = client.get_queue_receiver(name, session_id="s", max_wait_time=0)
            (one,) = receiver.receive_messages()
            session = receiver.session
            assert session is not None
            txn = client.transaction()
            session.set_state(b"lost", transaction=txn)
            receiver.complete_message(one, transaction=txn)
            sender.send_messages(ServiceBusMessage("lost", session_id="s"), transaction=txn)
            clock.advance(LOCK_SECONDS)
            with pytest.raises(SessionLockLostError):
                txn.commit()
        with client.get_queue_receiver(name, session_id="s", max_wait_time=0) as receiver:
            session = receiver.session
            assert session is not None
            assert session.get_state() is None
            assert texts(receiver.receive_messages(10)) == ["one"]

    def test_a_closed_receiver_breaks_the_commit(self, client: ServiceBusClient, name: str) -> None:
        """Closing gives the session back, so its messages are not locked any more (B-205)."""
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("one", session_id="s"))
        receiver = client.get_queue_receiver(name, session_id="s", max_wait_time=0)
        (one,) = receiver.receive_messages()
        txn = client.transaction()
        receiver.complete_message(one, transaction=txn)
        receiver.close()
        with pytest.raises(SessionLockLostError):
            txn.commit()
        with client.get_queue_receiver(name, session_id="s", max_wait_time=0) as receiver:
            assert texts(receiver.receive_messages(10)) == ["one"]


class TestScopes:
    """The shape of the platform's samples: a scope, and calls that do not name the transaction."""

    @pytest.mark.parametrize("name", ["partition_key", "session_id"])
    def test_the_sample(self, client: ServiceBusClient, queue_name: str, name: str) -> None:
        """Both samples of the partitioning page: with PartitionKey and with SessionId (B-308, B-312)."""
        txn = client.transaction()
        with txn.scope():
            message = with_property("Hello", name, "myKey")
            client.get_queue_sender(queue_name).send_messages(message)
            txn.complete()
        txn.commit()
        (received,) = client.get_queue_receiver(queue_name).receive_messages(10, max_wait_time=0)
        assert (str(received), getattr(received, name)) == ("Hello", "myKey")

    def test_the_session_sample(self, client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
        """The sample with SessionId on a queue with sessions (B-312)."""
        name = make_queue(requires_session=True)
        txn = client.transaction()
        with txn.scope():
            client.get_queue_sender(name).send_messages(ServiceBusMessage("Hello", session_id="mySession"))
            txn.complete()
        txn.commit()
        with client.get_queue_receiver(name, session_id="mySession", max_wait_time=0) as receiver:
            assert texts(receiver.receive_messages()) == ["Hello"]

    def test_a_scope_that_was_not_completed_rolls_back(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver
    ) -> None:
        """Without `complete` the commit is a rollback, also when another scope was completed."""
        txn = client.transaction()
        with txn.scope():
            sender.send_messages(message())
        txn.commit()
        txn = client.transaction()
        with txn.scope():
            sender.send_messages(message())
        with txn.scope():
            sender.send_messages(message())
            txn.complete()
        txn.commit()
        txn = client.transaction()
        with contextlib.suppress(KeyError), txn.scope():
            sender.send_messages(message())
            txn.complete()
            raise KeyError
        txn.commit()
        assert receiver.peek_messages() == []

    def test_completing_outside_of_a_scope_is_refused(self, client: ServiceBusClient) -> None:
        """There is nothing to complete then, as in a scope of another transaction."""
        txn, other = client.transaction(), client.transaction()
        with pytest.raises(InvalidOperationError):
            txn.complete()
        with txn.scope(), pytest.raises(InvalidOperationError):
            other.complete()

    def test_every_call_inside_is_part_of_it(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """Sends, schedules and settlements inside belong to it; calls after it do not (B-307)."""
        with client.transaction() as txn:
            with txn.scope():
                sender.send_messages(message("one"))
                numbers = sender.schedule_messages(message("two"), clock.now() + timedelta(minutes=1))
                receiver.complete_messages(locked[:2])
                receiver.dead_letter_message(locked[2])
                txn.complete()
            receiver.complete_message(locked[3])
            assert admin.get_queue_runtime_properties(queue_name).total_message_count == 4
            assert numbers == []
        counts = admin.get_queue_runtime_properties(queue_name)
        assert (counts.total_message_count, counts.dead_letter_message_count) == (4, 1)
        assert len(numbers) == 1

    def test_a_named_transaction_wins_over_the_scope(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver
    ) -> None:
        """Scopes nest, and `transaction=` says which one is meant."""
        outer, inner = client.transaction(), client.transaction()
        with outer.scope():
            sender.send_messages(message("outer"))
            with inner.scope():
                sender.send_messages(message("inner"))
                sender.send_messages(message("named"), transaction=outer)
                inner.complete()
            sender.send_messages(message("outer again"))
            outer.complete()
        inner.rollback()
        outer.commit()
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["outer", "named", "outer again"]

    def test_what_cannot_be_part_is_refused(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock
    ) -> None:
        """Cancelling and tables are refused in a scope; a receive is simply not part of it (B-240, B-307)."""
        (number,) = sender.schedule_messages(message(), clock.now() + timedelta(minutes=1))
        sender.send_messages(message("one"))
        with client.transaction() as txn, txn.scope():
            with pytest.raises(InvalidOperationError, match="transaction"):
                sender.cancel_scheduled_messages(number)
            with pytest.raises(InvalidOperationError, match="transaction"):
                sender.send_arrow(cast("Any", []))
            (one,) = receiver.receive_messages(max_wait_time=0)
            txn.rollback()
        receiver.complete_message(one)
        sender.cancel_scheduled_messages(number)

    def test_a_scope_is_that_of_its_thread(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        in_background: Callable[..., Any],
    ) -> None:
        """Another thread sends as ever while this one is in a scope."""
        with client.transaction() as txn, txn.scope():
            sender.send_messages(message("lost"))
            in_background(sender.send_messages, message("beside")).result()
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ["beside"]


class TestRenewal:
    """What a commit settles is settled for everybody (B-160)."""

    def test_a_renewer_leaves_committed_messages_alone(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """No lock is reported as lost that a transaction has ended (B-160)."""
        failures: list[object] = []
        with oxbus.AutoLockRenewer(
            on_lock_renew_failure=lambda renewable, _error: failures.append(renewable)
        ) as renewer:
            for each in locked:
                renewer.register(receiver, each, max_lock_renewal_duration=600)
            with client.transaction() as txn:
                receiver.complete_messages(locked, transaction=txn)
            clock.advance(LOCK_SECONDS - 1)
        assert failures == []
        assert [each.auto_renew_error for each in locked] == [None] * 5


class TestThreads:
    """Many transactions at once (B-306, B-330)."""

    def test_messages_move_between_threads_without_loss(
        self,
        client: ServiceBusClient,
        queue_name: str,
        admin: ServiceBusAdministrationClient,
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """Threads that receive, settle and send on in transactions neither lose nor double a message (R-12)."""
        tokens, moves = 24, 60
        for token in range(tokens):
            client.get_queue_sender(queue_name).send_messages(message(str(token), key=f"k{token % 6}"))
        left = threading.Semaphore(tokens * moves)
        errors: list[BaseException] = []

        def move(side: int) -> None:
            try:
                with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
                    done = 0
                    while left.acquire(blocking=False):
                        for each in receiver.receive_messages(1, max_wait_time=0):
                            txn = client.transaction()
                            receiver.complete_message(each, transaction=txn)
                            sender.send_messages(message(str(each), key=each.partition_key), transaction=txn)
                            done += 1
                            if (done + side) % 5:
                                txn.commit()
                            else:
                                txn.rollback()
                                receiver.abandon_message(each)
            except BaseException as error:  # noqa: BLE001 - shown by the test
                errors.append(error)

        workers = [threading.Thread(target=move, args=(side,)) for side in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert errors == []
        found = []
        with (
            client.get_queue_receiver(queue_name) as receiver,
            client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead_letters,
        ):
            found = drain(receiver) + drain(dead_letters)
        assert sorted(int(str(each)) for each in found) == list(range(tokens))
        assert admin.get_queue_runtime_properties(queue_name).total_message_count == tokens

    def test_one_transaction_may_be_shared(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver
    ) -> None:
        """Threads that send in one transaction all take part in it (B-306)."""
        with client.transaction() as txn:

            def send() -> None:
                for number in range(20):
                    sender.send_messages(message(str(number)), transaction=txn)

            workers = [threading.Thread(target=send) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        assert len(receiver.receive_messages(100, max_wait_time=0)) == 80
