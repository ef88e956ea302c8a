# SPDX-License-Identifier: Apache-2.0
"""Transactions with sessions, scopes, lock renewal and threads."""

from __future__ import annotations

import contextlib
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import oxbus
import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, SessionLockLostError
from transacting import LOCK_SECONDS, message, texts, undone, with_property

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


class TestSessions:
    """Sessions in transactions (B-213, B-312, B-328)."""

    @pytest.fixture
    def name(self, make_queue: Callable[..., str]) -> str:
        """A queue with sessions."""
        return make_queue("sessions", requires_session=True)

    def test_state_messages_and_a_send_go_together(self, client: ServiceBusClient, name: str) -> None:
        """State, settlement and send take effect at the commit (B-213, B-328)."""
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
        """The commit fails, and the next holder gets the messages and the old state (B-203, B-316)."""
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
        """Closing releases the session, so its messages are no longer locked (B-205)."""
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
    """Scopes, as in the service's samples: calls in a scope do not name the transaction."""

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
        """Without `complete` the commit is a rollback, even if another scope was completed."""
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
        """`complete` is refused outside of a scope and in a scope of another transaction."""
        txn, other = client.transaction(), client.transaction()
        with pytest.raises(InvalidOperationError):
            txn.complete()
        with txn.scope(), pytest.raises(InvalidOperationError):
            other.complete()

    def test_calls_in_the_scope_belong_to_the_transaction(
        self,
        client: ServiceBusClient,
        admin: ServiceBusAdministrationClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """Sends, schedules and settlements in the scope belong to it; later calls do not (B-307)."""
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
        """Scopes nest, and `transaction=` selects the transaction."""
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

    def test_unsupported_operations_are_refused(
        self, client: ServiceBusClient, sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock
    ) -> None:
        """Cancelling and tables are refused in a scope; a receive is not part of the transaction (B-240, B-307)."""
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
        """Sends of another thread are not part of this thread's scope, unless Python gives threads their context."""
        with client.transaction() as txn, txn.scope():
            sender.send_messages(message("lost"))
            in_background(sender.send_messages, message("beside")).result()
        inherits = getattr(sys.flags, "thread_inherit_context", 0)
        assert texts(receiver.receive_messages(10, max_wait_time=0)) == ([] if inherits else ["beside"])


class TestRenewal:
    """Lock renewal of messages that a commit settles (B-160)."""

    def test_a_renewer_leaves_committed_messages_alone(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """A lock that a transaction ended is not reported as lost (B-160)."""
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
        """Threads that receive, settle and send in transactions lose and duplicate no message (R-12)."""
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
        """Sends of several threads can be in one transaction (B-306)."""
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
