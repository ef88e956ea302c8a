# SPDX-License-Identifier: Apache-2.0
"""The client with a Service Bus emulator that others wrote: npm's `amqp-emulator`, which speaks the service's dialect.

It has no sessions, no transactions, no rules and no administration.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import sdk_programs
from oxbus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    aio,
)
from oxbus.exceptions import MessageLockLostError, ServiceBusConnectionError, ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(300)]

SOURCES = Path(__file__).parent / "node"
BUILD = sdk_programs.ROOT / "build" / "foreign"
LOCK_SECONDS = 3
WAIT_SECONDS = 30


class Emulator:
    """The process of the emulator."""

    def __init__(self, node: str) -> None:
        """Start it and wait until it listens."""
        self._process = subprocess.Popen(
            [node, "emulator.js", str(LOCK_SECONDS * 1000)],
            cwd=BUILD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.connection_string = (
            f"Endpoint=sb://127.0.0.1:{self._line()};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=a key of the tests;UseDevelopmentEmulator=true"
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, command: str) -> None:
        """Have it execute a command of `emulator.js`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=WAIT_SECONDS)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """The emulator, installed as its lock file says."""
    npm, node = sdk_programs.need("npm"), sdk_programs.need("node")
    shutil.copytree(SOURCES, BUILD, dirs_exist_ok=True)
    sdk_programs.run(npm, "ci", "--no-audit", "--no-fund", cwd=BUILD)
    emulator = Emulator(node)
    yield emulator
    emulator.close()


@pytest.fixture
def client(emulator: Emulator) -> Iterator[ServiceBusClient]:
    """A client of the emulator."""
    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        yield client


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue of this test. The emulator creates it at its first use."""
    return f"queue-{request.node.name}".replace("_", "-")


@pytest.fixture
def send(client: ServiceBusClient, queue: str) -> Callable[..., None]:
    """Send texts, each as a message."""

    def send(*texts: str) -> None:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages([ServiceBusMessage(text) for text in texts])

    return send


def test_a_message_keeps_what_it_has(client: ServiceBusClient, queue: str) -> None:
    """Body, properties of each type and system properties; then what the server adds."""
    given = ServiceBusMessage(
        b"body",
        application_properties={"text": "x", "number": 7, "share": 0.5, "flag": True, "none": None},
        content_type="text/plain",
        correlation_id="c",
        message_id="m",
        partition_key="p",
        reply_to="r",
        subject="s",
        time_to_live=timedelta(hours=1),
        to="t",
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(given)
    with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
        (found,) = receiver.receive_messages()
        assert b"".join(found.body) == b"body"
        properties = {
            key.decode() if isinstance(key, bytes) else key: value.decode() if isinstance(value, bytes) else value
            for key, value in cast("dict[Any, Any]", found.application_properties or {}).items()
        }
        assert properties == {"text": "x", "number": 7, "share": 0.5, "flag": True, "none": None}
        assert (found.content_type, found.correlation_id, found.message_id) == ("text/plain", "c", "m")
        assert (found.reply_to, found.subject, found.to) == ("r", "s", "t")
        assert found.time_to_live == timedelta(hours=1)
        assert (found.delivery_count, found.state) == (0, ServiceBusMessageState.ACTIVE)
        assert found.sequence_number is not None
        assert found.lock_token is not None
        assert found.enqueued_time_utc is not None
        assert datetime.now(UTC) < (found.locked_until_utc or datetime.min.replace(tzinfo=UTC))
        receiver.complete_message(found)
    with client.get_queue_receiver(queue, max_wait_time=0.2) as receiver:
        assert not receiver.receive_messages()


def test_lists_batches_and_order(client: ServiceBusClient, queue: str) -> None:
    """A thousand messages in one list and in a batch, received by hundreds and completed as lists."""
    texts = [str(number) for number in range(1_000)]
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(text) for text in texts])
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("last"))
        sender.send_messages(batch)
    found: list[str] = []
    with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
        while len(found) <= len(texts):
            messages = receiver.receive_messages(max_message_count=100)
            found += map(str, messages)
            receiver.complete_messages(messages)
    assert found == [*texts, "last"]


def test_settlements(client: ServiceBusClient, queue: str, send: Callable[..., None]) -> None:
    """Abandoned comes back, deferred waits for its number, a dead letter has its reason."""
    send("abandoned", "deferred", "dead")
    with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
        (first,) = receiver.receive_messages()
        receiver.abandon_message(first)
        (again,) = receiver.receive_messages()
        assert (str(again), again.delivery_count) == ("abandoned", 1)
        receiver.complete_message(again)
        (deferred,) = receiver.receive_messages()
        receiver.defer_message(deferred)
        (dead,) = receiver.receive_messages()
        receiver.dead_letter_message(dead, reason="why", error_description="because")
        assert deferred.sequence_number is not None
        (fetched,) = receiver.receive_deferred_messages(deferred.sequence_number)
        assert str(fetched) == "deferred"
        receiver.complete_message(fetched)
    sub_queue = ServiceBusSubQueue.DEAD_LETTER
    with client.get_queue_receiver(queue, sub_queue=sub_queue, max_wait_time=WAIT_SECONDS) as receiver:
        (letter,) = receiver.receive_messages()
        assert str(letter) == "dead"
        assert (letter.dead_letter_reason, letter.dead_letter_error_description) == ("why", "because")
        receiver.complete_message(letter)


def test_peek_and_schedule(client: ServiceBusClient, queue: str, send: Callable[..., None]) -> None:
    """Looking takes nothing; a scheduled message waits for its time, and a cancelled one never comes."""
    send("first", "second")
    with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
        assert [str(message) for message in receiver.peek_messages(max_message_count=2)] == ["first", "second"]
        receiver.complete_messages(receiver.receive_messages(max_message_count=2))
        with client.get_queue_sender(queue) as sender:
            soon = datetime.now(UTC) + timedelta(seconds=2)
            kept, cancelled = sender.schedule_messages([ServiceBusMessage("kept"), ServiceBusMessage("not")], soon)
            sender.cancel_scheduled_messages(cancelled)
        assert kept != cancelled
        started = time.monotonic()
        (message,) = receiver.receive_messages()
        assert str(message) == "kept"
        assert time.monotonic() - started > 1
        receiver.complete_message(message)


def test_locks(client: ServiceBusClient, queue: str, send: Callable[..., None]) -> None:
    """A renewed lock holds; one that ended is lost, and the message comes again."""
    send("locked")
    with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
        (message,) = receiver.receive_messages()
        before = message.locked_until_utc
        time.sleep(LOCK_SECONDS / 2)
        assert before is not None
        assert receiver.renew_message_lock(message) > before
        time.sleep(LOCK_SECONDS * 2)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        (again,) = receiver.receive_messages()
        assert (str(again), again.delivery_count) == ("locked", 1)
        receiver.complete_message(again)


def test_receive_and_delete_with_prefetch(client: ServiceBusClient, queue: str, send: Callable[..., None]) -> None:
    """Without locks, and with messages that the link fetches ahead."""
    send(*map(str, range(50)))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode, prefetch_count=20, max_wait_time=1) as receiver:
        assert sorted(int(str(message)) for message in receiver) == list(range(50))


def test_a_topic(client: ServiceBusClient) -> None:
    """A copy for the subscription, and its dead-letter queue."""
    with client.get_topic_sender("sales") as sender:
        sender.send_messages(ServiceBusMessage("sold"))
    with client.get_subscription_receiver("sales", "all", max_wait_time=WAIT_SECONDS) as receiver:
        (message,) = receiver.receive_messages()
        assert str(message) == "sold"
        receiver.dead_letter_message(message)
    sub_queue = ServiceBusSubQueue.DEAD_LETTER
    with client.get_subscription_receiver("sales", "all", sub_queue=sub_queue, max_wait_time=WAIT_SECONDS) as receiver:
        (letter,) = receiver.receive_messages()
        receiver.complete_message(letter)


def test_a_connection_that_the_server_closes(
    client: ServiceBusClient, queue: str, send: Callable[..., None], emulator: Emulator
) -> None:
    """`amqp:connection:forced`: sender and receiver go on with a new connection."""
    send("before")
    with (
        client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver,
        client.get_queue_sender(queue) as sender,
    ):
        receiver.complete_message(receiver.receive_messages()[0])
        sender.send_messages(ServiceBusMessage("with this sender"))
        emulator.tell("disconnect")
        try:
            sender.send_messages(ServiceBusMessage("after"))
        except ServiceBusConnectionError:  # the send and the end met on the way
            sender.send_messages(ServiceBusMessage("after"))
        found: set[str] = set()
        while len(found) < 2:
            for message in receiver.receive_messages(max_message_count=2):
                found.add(str(message))
                receiver.complete_message(message)
        assert found == {"with this sender", "after"}


def test_what_it_lacks_is_an_error(client: ServiceBusClient, queue: str) -> None:
    """A session that the server does not know how to accept does not hang, and does not look accepted."""
    receiver = client.get_queue_receiver(queue, session_id="s")
    session = receiver.session
    assert session is not None
    with pytest.raises(ServiceBusError), receiver:
        session.get_state(timeout=WAIT_SECONDS)


def test_asyncio(emulator: Emulator, queue: str) -> None:
    """A receiver that waits gets what is sent meanwhile; 16 of them share a queue."""

    async def work() -> list[int]:
        async with aio.ServiceBusClient.from_connection_string(emulator.connection_string) as client:
            found: list[int] = []

            async def drain() -> None:
                async with client.get_queue_receiver(queue, max_wait_time=2) as receiver:
                    async for message in receiver:
                        found.append(int(str(message)))
                        await receiver.complete_message(message)

            draining = [asyncio.ensure_future(drain()) for _ in range(16)]
            async with client.get_queue_sender(queue) as sender:
                await sender.send_messages([ServiceBusMessage(str(number)) for number in range(200)])
            await asyncio.gather(*draining)
            return found

    assert sorted(asyncio.run(work())) == list(range(200))
