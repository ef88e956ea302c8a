# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client of the unmodified azure-servicebus SDK."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageNotFoundError, SessionCannotBeLockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from azure.servicebus import ServiceBusReceivedMessage
    from oxbus.server import Server

WAIT_SECONDS = 30


def text(message: ServiceBusReceivedMessage) -> str:
    """The body as text."""
    return b"".join(message.body).decode()


async def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive exactly `count` messages."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        found = await receiver.receive_messages(count - len(messages), max_wait_time=WAIT_SECONDS)
        assert found, f"{len(messages)} of {count} messages came"
        messages += found
    return messages


@pytest.fixture
def run(server: Server) -> Callable[[Callable[[ServiceBusClient], Coroutine[None, None, None]]], None]:
    """Run a test with an asynchronous client without retries."""

    def run(test: Callable[[ServiceBusClient], Coroutine[None, None, None]]) -> None:
        async def main() -> None:
            async with ServiceBusClient.from_connection_string(server.connection_string, retry_total=0) as client:
                await test(client)

        asyncio.run(main())

    return run


def test_messages_are_sent_received_and_settled(run: Callable[..., None], queue: str) -> None:
    """A batch arrives in order, and each kind of settlement has its effect."""

    async def test(client: ServiceBusClient) -> None:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages([ServiceBusMessage(name, partition_key="k") for name in "abcd"])
        async with client.get_queue_receiver(queue) as receiver:
            a, b, c, d = await take(receiver, 4)
            assert [text(message) for message in (a, b, c, d)] == list("abcd")
            await receiver.renew_message_lock(a)
            await receiver.complete_message(a)
            await receiver.abandon_message(b)
            await receiver.defer_message(c)
            await receiver.dead_letter_message(d, reason="why")
            (again,) = await take(receiver, 1)
            assert (text(again), again.delivery_count) == ("b", 1)
            await receiver.complete_message(again)
            (fetched,) = await receiver.receive_deferred_messages(c.sequence_number or 0)
            await receiver.complete_message(fetched)
            assert await receiver.peek_messages(10) == []
        async with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            (dead,) = await take(receiver, 1)
            assert dead.dead_letter_reason == "why"
            await receiver.complete_message(dead)

    run(test)


def test_annotations_and_footer_are_received(run: Callable[..., None], queue: str) -> None:
    """Annotations of both kinds, rank, footer and a decimal (B-429, B-430)."""

    async def test(client: ServiceBusClient) -> None:
        message = AmqpAnnotatedMessage(
            data_body=[b"body"],
            header={"priority": 5},
            annotations={"annotations": 2},
            delivery_annotations={"delivery_annotations": 3},
            footer={"footer": 6},
            application_properties={"decimal": Decimal("1.2345")},
        )
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(message)
        async with client.get_queue_receiver(queue) as receiver:
            (found,) = await take(receiver, 1)
            raw: Any = found.raw_amqp_message
            assert (raw.header.priority, raw.footer) == (5, {b"footer": 6})
            assert (raw.annotations[b"annotations"], raw.delivery_annotations[b"delivery_annotations"]) == (2, 3)
            assert raw.application_properties == {b"decimal": Decimal("1.2345")}
            await receiver.complete_message(found)

    run(test)


def test_messages_are_scheduled_and_cancelled(run: Callable[..., None], queue: str) -> None:
    """Scheduled messages can be peeked until they are cancelled."""

    async def test(client: ServiceBusClient) -> None:
        due = datetime.now(UTC) + timedelta(hours=1)
        async with client.get_queue_sender(queue) as sender:
            (number,) = await sender.schedule_messages(ServiceBusMessage("x"), due)
            async with client.get_queue_receiver(queue) as receiver:
                (peeked,) = await receiver.peek_messages()
                assert peeked.sequence_number == number
                assert peeked.scheduled_enqueue_time_utc is not None
                assert abs(peeked.scheduled_enqueue_time_utc - due) < timedelta(seconds=1)
                await sender.cancel_scheduled_messages(number)
                assert await receiver.peek_messages(sequence_number=1) == []
            with pytest.raises(MessageNotFoundError):
                await sender.cancel_scheduled_messages(number)

    run(test)


def test_a_waiting_receiver_is_woken(run: Callable[..., None], queue: str) -> None:
    """A waiting receive gets a message that is sent during the wait."""

    async def test(client: ServiceBusClient) -> None:
        async with client.get_queue_receiver(queue) as receiver, client.get_queue_sender(queue) as sender:
            waiting = asyncio.create_task(take(receiver, 1))
            await sender.send_messages(ServiceBusMessage("x"))
            (message,) = await waiting
            await receiver.complete_message(message)

    run(test)


def test_sessions_are_accepted_renewed_and_released(run: Callable[..., None], make_queue: Callable[..., str]) -> None:
    """The next session is accepted, has a state, is renewed by the renewer, and is exclusive."""
    queue = make_queue("sessions", requires_session=True)

    async def test(client: ServiceBusClient) -> None:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(ServiceBusMessage("x", session_id="s"))
        async with (
            client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver,
            AutoLockRenewer() as renewer,
        ):
            session = receiver.session
            assert session is not None
            assert session.session_id == "s"
            renewer.register(receiver, session)
            await session.set_state("open")
            assert await session.get_state() == b"open"
            await session.renew_lock()
            with pytest.raises(SessionCannotBeLockedError):
                async with client.get_queue_receiver(queue, session_id="s") as second:
                    await second.receive_messages(max_wait_time=1)
            (message,) = await take(receiver, 1)
            await receiver.complete_message(message)

    run(test)
