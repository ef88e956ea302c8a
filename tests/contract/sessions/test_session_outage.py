# SPDX-License-Identifier: Apache-2.0
"""Sessions of a partition that is out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError, PartitionUnavailableError, SessionLockLostError
from oxbus.testing import heal, inject_fault
from session_receiving import PAST_THE_LOCK, id_of, session_of, take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


def test_partition_out_of_service(
    namespace: Namespace, client: ServiceBusClient, admin: ServiceBusAdministrationClient, key_in: Callable[..., str]
) -> None:
    """Its sessions are unavailable and others work; after healing all are available (B-089, B-094, B-095)."""
    admin.create_queue("spread", enable_partitioning=True, requires_session=True)
    down, up = key_in(3), key_in(4)
    with client.get_queue_sender("spread") as sender:
        for session_id in (down, up):
            for text in "12":
                sender.send_messages(ServiceBusMessage(text, session_id=session_id))

    def accept(session_id: Any) -> ServiceBusReceiver:
        return client.get_queue_receiver("spread", session_id=session_id, max_wait_time=0)

    holder = accept(down)
    (held,) = take(holder, 1)
    session = session_of(holder)
    session.set_state(b"kept")
    inject_fault(namespace, 3, "unavailable")
    refused: list[Callable[[], object]] = [
        lambda: holder.receive_messages(max_wait_time=0),
        lambda: holder.complete_message(held),
        session.renew_lock,
        session.get_state,
        lambda: session.set_state(b"x"),
        lambda: accept(key_in(3) if key_in(3) != down else down).receive_messages(),
    ]
    for call in refused:
        with pytest.raises(PartitionUnavailableError) as refusal:
            call()
        assert refusal.value.is_transient
    other = accept(NEXT_AVAILABLE_SESSION)
    assert id_of(other) == up
    assert texts(take(other)) == ["1", "2"]
    with pytest.raises(OperationTimeoutError):
        accept(NEXT_AVAILABLE_SESSION).receive_messages()
    assert list(client.list_queue_sessions("spread")) == [up]
    heal(namespace, 3)
    assert session.get_state() == b"kept"
    holder.complete_message(held)
    assert texts(take(holder)) == ["2"]
    holder.close()
    again = accept(NEXT_AVAILABLE_SESSION)
    assert id_of(again) == down
    assert texts(take(again)) == ["2"]


def test_lock_that_expires_during_an_outage(
    namespace: Namespace,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    key_in: Callable[..., str],
) -> None:
    """A session lost during the outage of its partition is available after it heals (B-095, B-206)."""
    admin.create_queue("spread", enable_partitioning=True, requires_session=True)
    with client.get_queue_sender("spread") as sender:
        sender.send_messages(ServiceBusMessage("1", session_id=key_in(3)))
    holder = client.get_queue_receiver("spread", session_id=key_in(3), max_wait_time=0)
    take(holder)
    inject_fault(namespace, 3, "unavailable")
    clock.advance(PAST_THE_LOCK)
    heal(namespace, 3)
    with pytest.raises(SessionLockLostError):
        holder.receive_messages()
    with client.get_queue_receiver("spread", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
        (message,) = take(receiver)
        assert message.delivery_count == 1
        receiver.complete_message(message)


def test_accept_from_one_partition(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, key_in: Callable[..., str]
) -> None:
    """`partition_id` accepts the next session of one partition, and refuses a named one of another (B-199)."""
    admin.create_queue("spread", enable_partitioning=True, requires_session=True)
    with client.get_queue_sender("spread") as sender:
        for partition_id in range(16):
            sender.send_messages(ServiceBusMessage("x", session_id=key_in(partition_id)))
    with client.get_queue_receiver(
        "spread", session_id=NEXT_AVAILABLE_SESSION, partition_id=7, max_wait_time=0
    ) as receiver:
        assert id_of(receiver) == key_in(7)
    with (
        pytest.raises(ValueError, match="partition"),
        client.get_queue_receiver("spread", session_id=key_in(2), partition_id=7, max_wait_time=0),
    ):
        pass
