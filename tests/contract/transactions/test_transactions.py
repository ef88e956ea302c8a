# SPDX-License-Identifier: Apache-2.0
"""Transactions: sends, settlements and session states commit together or not at all (B-306, B-307, B-315)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessageState, ServiceBusSubQueue
from oxbus.exceptions import InvalidOperationError
from transacting import LOCK_SECONDS, VERBS, message, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


class TestTogether:
    """Operations take effect at the commit, and not before (B-307, B-315)."""

    def test_sends_are_visible_after_the_commit_only(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        snapshot: Callable[[str], object],
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """No receive, peek or count shows a message before the commit (B-315)."""
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
        """Complete, abandon, defer, dead-letter and a send take effect together (B-307)."""
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
            (dead_lettered,) = drain(dead_letters)
        assert (str(dead_lettered), dead_lettered.dead_letter_reason) == ("old 3", "broken")
        assert dead_lettered.dead_letter_error_description == "no address"
        assert dead_lettered.sequence_number == dead.sequence_number
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
        """Lists of messages can be settled in a transaction (B-307)."""
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
        """The commit fills the list that schedule_messages returned; its numbers can be cancelled (B-240, B-307)."""
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

    def test_messages_scheduled_for_the_past_can_be_received_at_once(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        clock: ManualClock,
        drain: Callable[..., list[ServiceBusReceivedMessage]],
    ) -> None:
        """A message scheduled in the past is available at the commit (B-234, B-248, B-307).

        It used to wait for the clock to move if the queue was accessed at the same time. Its time to live started at
        the due time, so it could end before the commit.
        """
        assert receiver.receive_messages(max_wait_time=0) == []
        with client.transaction() as txn:
            late = message("late", time_to_live=timedelta(minutes=2))
            sender.schedule_messages(late, clock.now() - timedelta(minutes=5), transaction=txn)
            clock.advance(30)
        (received,) = drain(receiver)
        assert (str(received), received.enqueued_time_utc) == ("late", clock.now())
        assert received.expires_at_utc == clock.now() + timedelta(minutes=2)

    def test_a_commit_wakes_a_waiting_receive(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        in_background: Callable[..., Any],
    ) -> None:
        """A commit wakes waiting receives, as a send does (B-315)."""
        waiting = in_background(receiver.receive_messages, max_wait_time=3600)
        with client.transaction() as txn:
            sender.send_messages(message("one"), transaction=txn)
            assert waiting.running
        assert texts(waiting.result()) == ["one"]

    def test_an_abandoned_message_wakes_a_waiting_receiver(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        in_background: Callable[..., Any],
    ) -> None:
        """Messages abandoned in a transaction can be received at its commit (B-163, B-315)."""
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
        """The time to live starts at the commit (B-246, B-315)."""
        with client.transaction() as txn:
            sender.send_messages(message("one", time_to_live=timedelta(seconds=30)), transaction=txn)
            clock.advance(40)
        received = receive_one(receiver)
        assert received.enqueued_time_utc == clock.now()
        assert received.expires_at_utc == clock.now() + timedelta(seconds=30)

    def test_a_commit_of_nothing_is_no_error(self, client: ServiceBusClient) -> None:
        """An empty transaction can be committed and rolled back (B-306)."""
        with client.transaction():
            pass
        client.transaction().commit()
        client.transaction().rollback()

    def test_exhausted_deliveries_dead_letter_at_the_commit(
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
        """The delivery limit at the commit decides about an abandoned message (B-178, B-307).

        Found by the model: a limit that was lowered before the commit was ignored.
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
        """A dead letter is resent and completed in one transaction; dead-lettering it again is refused (B-261)."""
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
        """Messages fetched by number are completed or stay deferred (B-282, B-284, B-307)."""
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
        """A renewal takes effect at once and keeps the transaction's settlement valid (B-307)."""
        with client.transaction() as txn, txn.scope():
            receiver.complete_message(locked[0])
            clock.advance(LOCK_SECONDS - 1)
            receiver.renew_message_lock(locked[0])
            clock.advance(LOCK_SECONDS - 1)
            txn.complete()
        assert receiver.peek_messages()[0].sequence_number != locked[0].sequence_number
