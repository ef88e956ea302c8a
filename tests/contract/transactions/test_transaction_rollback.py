# SPDX-License-Identifier: Apache-2.0
"""Rolled-back transactions and failed commits have no effect (B-306 to B-330)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import oxbus
import pytest
from oxbus import ServiceBusClient
from oxbus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    PartitionUnavailableError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import EntityStatus
from oxbus.testing import heal, inject_fault
from transacting import KEY, LOCK_SECONDS, VERBS, message, texts, undone

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


class TestRollback:
    """A rollback undoes all operations (B-316)."""

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
        """Nothing is sent or settled, and the same messages can be settled again (B-316)."""
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

    def test_a_rolled_back_schedule_returns_no_numbers(
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
        """Closing the namespace rolls back open transactions (B-326)."""
        txn = client.transaction()
        sender.send_messages(message(), transaction=txn)
        namespace.close()
        with pytest.raises(ValueError, match="closed"):
            txn.commit()


class TestFailedCommits:
    """A failed commit does nothing (B-306, B-316, B-330)."""

    def test_an_expired_lock_fails_the_commit(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        queue_name: str,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
        snapshot: Callable[[str], object],
    ) -> None:
        """Nothing is sent or settled; other locks stay valid until they expire (B-155, B-316)."""
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

    def test_an_expired_lock_is_refused_at_once(
        self,
        client: ServiceBusClient,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
        clock: ManualClock,
    ) -> None:
        """Settling with an expired lock fails in the call itself (B-155)."""
        clock.advance(LOCK_SECONDS)
        with client.transaction() as txn, pytest.raises(MessageLockLostError):
            receiver.complete_message(locked[0], transaction=txn)

    def test_a_message_settled_outside_the_transaction(
        self,
        client: ServiceBusClient,
        sender: ServiceBusSender,
        receiver: ServiceBusReceiver,
        locked: list[ServiceBusReceivedMessage],
    ) -> None:
        """Settling the message outside of the transaction makes its commit fail (B-317)."""
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
        """A message is settled once in a transaction, and once after it (B-160, B-316)."""
        with client.transaction() as txn:
            receiver.complete_message(locked[0], transaction=txn)
            with pytest.raises(MessageAlreadySettled):
                receiver.abandon_message(locked[0], transaction=txn)
        assert locked[0].lock_token is None
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(locked[0])
        with client.transaction() as txn, pytest.raises(MessageAlreadySettled):
            receiver.complete_message(locked[0], transaction=txn)

    def test_a_dead_letter_is_distinct_from_its_message(
        self,
        client: ServiceBusClient,
        make_queue: Callable[..., str],
        clock: ManualClock,
        receive_one: Callable[..., ServiceBusReceivedMessage],
    ) -> None:
        """Both have one number, and a transaction settles each separately (B-111, B-316).

        Found by the model: the dead letter was refused as already settled.
        """
        name = make_queue(max_delivery_count=1)
        with (
            client.get_queue_sender(name) as sender,
            client.get_queue_receiver(name) as receiver,
            client.get_queue_receiver(name, sub_queue="deadletter") as dead_letters,
        ):
            sender.send_messages(message("one"))
            before = receive_one(receiver)
            # The commit fails because the first lock expired; the dead letter stays.
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
        """Sends that fit one by one but not together fail the commit and change nothing (B-316)."""
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
        """A refused commit is not retried when space is free again (B-320)."""
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
        """In memory the limit makes the commit fail; in a directory bodies are spilled to disk (R-25)."""
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
        """The failed commit has no effect, and after the outage the messages are still locked (B-316)."""
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
        """A queue that refuses sends refuses the commit (B-397)."""
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
