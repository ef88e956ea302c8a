# SPDX-License-Identifier: Apache-2.0
"""A store that hangs or is overloaded: calls end at their timeout, and no message is stored twice."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage, aio
from oxbus.exceptions import (
    OperationTimeoutError,
    PartitionUnavailableError,
    ServiceBusError,
    ServiceBusServerBusyError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusSender
    from oxbus.testing import ManualClock

BAD = 3
SOON = 0.2
"""A short timeout, in seconds."""

IN_FLIGHT_MAX = 256
"""`OPERATIONS_IN_FLIGHT_MAX` of rust/oxbus-model/src/caps.rs."""

LIVENESS_SECONDS = 60

BATCHES: dict[str, Callable[[str], Any]] = {
    "one message": ServiceBusMessage,
    "a list": lambda text: [ServiceBusMessage(text), ServiceBusMessage(f"{text}, too")],
}


@pytest.fixture
def queue(admin: ServiceBusAdministrationClient) -> str:
    """A partitioned queue."""
    admin.create_queue("q", enable_partitioning=True)
    return "q"


@pytest.fixture
def sender(client: ServiceBusClient, queue: str) -> Iterator[ServiceBusSender]:
    """A sender to the queue."""
    with client.get_queue_sender(queue) as sender:
        yield sender


@pytest.fixture
def bad_key(key_in: Callable[..., str]) -> str:
    """A key of the partition that hangs."""
    return key_in(BAD)


@pytest.fixture
def stored(
    client: ServiceBusClient, queue: str, peek_all: Callable[..., list[ServiceBusReceivedMessage]]
) -> Callable[[], Counter[str]]:
    """The number of times each text is stored."""
    return lambda: Counter(str(message) for message in peek_all(client, queue))


def end_stall(namespace: Namespace) -> None:
    """End the stall, and wait until the partition is in full service again."""
    heal(namespace, BAD)
    end = time.monotonic() + LIVENESS_SECONDS
    while namespace.partition_health()[BAD].status != "healthy":
        assert time.monotonic() < end, namespace.partition_health()[BAD].reason
        time.sleep(0.01)


@pytest.mark.parametrize("content", BATCHES)
def test_keyed_send_times_out(
    namespace: Namespace, sender: ServiceBusSender, bad_key: str, stored: Callable[[], Counter[str]], content: str
) -> None:
    """The send ends at its timeout and may be repeated; the timed-out one is stored at most once (B-090, B-092)."""

    def keyed(text: str) -> Any:
        message = BATCHES[content](text)
        for each in message if isinstance(message, list) else [message]:
            each.partition_key = bad_key
        return message

    sender.send_messages(keyed("before"))
    inject_fault(namespace, BAD, "stall")
    with pytest.raises(OperationTimeoutError, match="make the call again") as refusal:
        sender.send_messages(keyed("left"), timeout=SOON)
    assert refusal.value.is_transient
    end_stall(namespace)
    assert stored()["left"] <= 1
    sender.send_messages(keyed("after"))
    assert (stored()["before"], stored()["after"]) == (1, 1)
    assert stored()["left"] <= 1


def test_keyless_sends_go_elsewhere(
    namespace: Namespace, sender: ServiceBusSender, bad_key: str, stored: Callable[[], Counter[str]]
) -> None:
    """Each is stored once in another partition; the first attempt is dropped, and later sends do not wait (B-091)."""
    sender.send_messages(ServiceBusMessage("before", partition_key=bad_key))
    inject_fault(namespace, BAD, "stall")
    for number in range(32):
        sender.send_messages(ServiceBusMessage(f"keyless {number}"), timeout=60)
    expected = Counter({"before": 1} | {f"keyless {number}": 1 for number in range(32)})
    assert namespace.partition_health()[BAD].status == "faulted"
    # The partition is known as stalled by now.
    with pytest.raises(PartitionUnavailableError):
        sender.send_messages(ServiceBusMessage("refused", partition_key=bad_key))
    assert stored() == expected - Counter(["before"])
    end_stall(namespace)
    assert stored() == expected
    sender.send_messages(ServiceBusMessage("after", partition_key=bad_key))
    assert stored() == expected + Counter(["after"])


def test_topics_and_schedules_go_elsewhere(
    namespace: Namespace,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    queue: str,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Copies for subscriptions and scheduled messages are stored once as well (B-091, B-237, B-343)."""
    admin.create_topic("news", enable_partitioning=True)
    admin.create_subscription("news", "all")
    soon = clock.now() + timedelta(minutes=1)
    inject_fault(namespace, BAD, "stall")
    with client.get_topic_sender("news") as publisher, client.get_queue_sender(queue) as sender:
        for number in range(16):
            publisher.send_messages(ServiceBusMessage(f"{number}"))
            sender.schedule_messages(ServiceBusMessage(f"{number}"), soon)
    end_stall(namespace)
    clock.advance(120)
    for found in (peek_all(client, queue), client.get_subscription_receiver("news", "all").peek_messages(100)):
        assert Counter(map(str, found)) == Counter(f"{number}" for number in range(16))


def test_short_timeout_of_a_keyless_send(
    namespace: Namespace, sender: ServiceBusSender, stored: Callable[[], Counter[str]]
) -> None:
    """It may end before another partition is tried; the message is never stored twice (B-092)."""
    inject_fault(namespace, BAD, "stall")
    sent = Counter[str]()
    for number in range(16):
        try:
            sender.send_messages(ServiceBusMessage(f"{number}"), timeout=SOON)
        except OperationTimeoutError:
            continue
        sent[f"{number}"] += 1
    assert len(sent) == 15
    end_stall(namespace)
    found = stored()
    assert found & sent == sent
    assert set(found.values()) == {1}


def test_stall_that_ends_in_time(
    namespace: Namespace,
    client: ServiceBusClient,
    sender: ServiceBusSender,
    bad_key: str,
    stored: Callable[[], Counter[str]],
    in_background: Callable[..., Any],
) -> None:
    """Waiting sends, settlements and transactions complete once, and the interpreter stays free (B-101)."""
    for text in ("complete", "move"):
        sender.send_messages(ServiceBusMessage(text, partition_key=bad_key))
    receiver = client.get_queue_receiver("q")
    held = {str(message): message for message in receiver.receive_messages(2, max_wait_time=0)}
    inject_fault(namespace, BAD, "stall")

    def move() -> None:
        with client.transaction() as transaction:
            sender.send_messages(ServiceBusMessage("moved", partition_key=bad_key), transaction=transaction)
            receiver.complete_message(held["move"], transaction=transaction)

    calls = [
        in_background(sender.send_messages, ServiceBusMessage("sent", partition_key=bad_key)),
        in_background(receiver.complete_message, held["complete"]),
        in_background(move),
    ]
    threading.Event().wait(SOON)
    assert [call.running for call in calls] == [True] * 3
    end_stall(namespace)
    for call in calls:
        call.result()
    assert stored() == Counter(["sent", "moved"])


def test_calls_with_a_timeout_end(
    namespace: Namespace, client: ServiceBusClient, sender: ServiceBusSender, bad_key: str, clock: ManualClock
) -> None:
    """Schedule, cancel and session state calls time out; their effect is complete or none (B-095)."""
    ServiceBusAdministrationClient(namespace).create_queue("s", enable_partitioning=True, requires_session=True)
    soon = clock.now() + timedelta(minutes=1)

    def scheduled() -> ServiceBusMessage:
        return ServiceBusMessage("scheduled", partition_key=bad_key)

    (number,) = sender.schedule_messages(scheduled(), soon)
    session = client.get_queue_receiver("s", session_id=bad_key, max_wait_time=0).__enter__().session
    assert session is not None
    calls: list[Callable[[], Any]] = [
        lambda: sender.schedule_messages(scheduled(), soon, timeout=SOON),
        lambda: sender.cancel_scheduled_messages(number, timeout=SOON),
        lambda: session.set_state(b"left", timeout=SOON),
    ]
    for call in calls:
        inject_fault(namespace, BAD, "stall")
        with pytest.raises(OperationTimeoutError):
            call()
        end_stall(namespace)
    assert session.get_state() in (None, b"left")
    session.set_state(b"after")
    assert session.get_state() == b"after"


def test_receive_skips_the_stalled_partition(
    namespace: Namespace,
    client: ServiceBusClient,
    sender: ServiceBusSender,
    key_in: Callable[..., str],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Other partitions deliver once; stalled messages follow after the stall, with no delivery counted (B-093)."""
    for partition_id in range(16):
        sender.send_messages(ServiceBusMessage(f"{partition_id}", partition_key=key_in(partition_id)))
    inject_fault(namespace, BAD, "stall")
    receiver = client.get_queue_receiver("q")
    assert {message.partition_id for message in drain(receiver)} == set(range(16)) - {BAD}
    end_stall(namespace)
    (message,) = drain(receiver)
    assert (str(message), message.delivery_count) == (f"{BAD}", 0)


def test_asyncio(
    namespace: Namespace, queue: str, key_in: Callable[..., str], stored: Callable[[], Counter[str]]
) -> None:
    """A send that hangs ends at its timeout and does not block the event loop (B-090)."""
    inject_fault(namespace, BAD, "stall")

    async def main() -> None:
        async with aio.ServiceBusClient(namespace) as client, client.get_queue_sender(queue) as sender:
            hanging = asyncio.create_task(
                sender.send_messages(ServiceBusMessage("left", partition_key=key_in(BAD)), timeout=1)
            )
            await asyncio.sleep(0)
            await sender.send_messages(ServiceBusMessage("sent", partition_key=key_in(4)))
            assert not hanging.done()
            with pytest.raises(OperationTimeoutError):
                await hanging

    asyncio.run(asyncio.wait_for(main(), LIVENESS_SECONDS))
    end_stall(namespace)
    assert stored()["sent"] == 1
    assert stored()["left"] <= 1


def test_interrupted_send(
    namespace: Namespace, sender: ServiceBusSender, bad_key: str, stored: Callable[[], Counter[str]]
) -> None:
    """Ctrl-C ends a send that hangs; it is stored at most once (B-092)."""
    if threading.current_thread() is not threading.main_thread():
        pytest.fail("only the main thread gets signals")
    inject_fault(namespace, BAD, "stall")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt = threading.Timer(SOON, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            sender.send_messages(ServiceBusMessage("left", partition_key=bad_key), timeout=None)
        interrupt.join()
    finally:
        signal.signal(signal.SIGINT, before)
    end_stall(namespace)
    assert stored()["left"] <= 1


def test_operations_in_flight_are_bounded(
    namespace: Namespace,
    sender: ServiceBusSender,
    bad_key: str,
    stored: Callable[[], Counter[str]],
    in_background: Callable[..., Any],
) -> None:
    """Beyond a bound keyed sends fail as busy and keyless ones go elsewhere; all others succeed (B-100)."""
    inject_fault(namespace, BAD, "stall")
    sends = [
        in_background(sender.send_messages, ServiceBusMessage(f"{number}", partition_key=bad_key))
        for number in range(IN_FLIGHT_MAX + 16)
    ]
    end = time.monotonic() + LIVENESS_SECONDS
    while sum(not send.running for send in sends) < 16:
        assert time.monotonic() < end
        time.sleep(0.01)
    busy = 0
    for send in sends:
        if not send.running:
            with pytest.raises(ServiceBusServerBusyError) as refusal:
                send.result()
            assert refusal.value.is_transient
            busy += 1
    assert busy == 16
    for number in range(16):
        sender.send_messages(ServiceBusMessage(f"keyless {number}"))
    end_stall(namespace)
    outcomes = Counter[str]()
    for send in sends:
        try:
            send.result()
        except ServiceBusError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["stored"] += 1
    found = stored()
    assert set(found.values()) == {1}
    assert sum(text.startswith("keyless") for text in found) == 16
    assert outcomes == {"stored": IN_FLIGHT_MAX, "ServiceBusServerBusyError": 16}
    assert len(found) == IN_FLIGHT_MAX + 16
    sender.send_messages(ServiceBusMessage("after", partition_key=bad_key))


def test_busy_partition_refuses_keyed_sends(
    namespace: Namespace,
    client: ServiceBusClient,
    sender: ServiceBusSender,
    bad_key: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Keyed sends fail as busy, keyless ones go elsewhere, receives and settlements work (B-073, B-100)."""
    sender.send_messages(ServiceBusMessage("before", partition_key=bad_key))
    inject_fault(namespace, BAD, "busy")
    with pytest.raises(ServiceBusServerBusyError) as refusal:
        sender.send_messages(ServiceBusMessage("refused", partition_key=bad_key))
    assert refusal.value.is_transient
    assert not isinstance(refusal.value, PartitionUnavailableError)
    for number in range(32):
        sender.send_messages(ServiceBusMessage(f"keyless {number}"))
    receiver = client.get_queue_receiver("q")
    messages = drain(receiver)
    assert [str(message) for message in messages if message.partition_id == BAD] == ["before"]
    assert len(messages) == 33
    receiver.complete_messages(messages)
    end_stall(namespace)
    sender.send_messages(ServiceBusMessage("after", partition_key=bad_key))
