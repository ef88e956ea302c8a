# SPDX-License-Identifier: Apache-2.0
"""Fairness between sessions, and wake-ups of waiting holders and acceptors."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError
from session_receiving import PAST_THE_LOCK, id_of, take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.testing import ManualClock


def test_chatty_session_does_not_starve_others(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A session that is refilled after each receive does not starve others (B-195, B-199)."""
    waiting = {f"quiet-{number}" for number in range(20)}
    send("chatty", *(str(number) for number in range(10)))
    for session_id in waiting:
        send(session_id, "x")
    for _ in range(200):
        with accept() as receiver:
            receiver.complete_message(take(receiver, 1)[0])
            waiting.discard(str(id_of(receiver)))
        send("chatty", "more")
    assert waiting == set()


def test_equal_sessions_get_equal_turns(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Sessions of one partition take turns: an accepted one goes to the end of the queue (B-195)."""
    partition_of_a = oxbus.partition_id("a")
    ids = ["a", *(f"k{n}" for n in range(200) if oxbus.partition_id(f"k{n}") == partition_of_a)][:5]
    for session_id in ids:
        send(session_id, *"1234")
    turns = []
    for _ in range(20):
        with accept() as receiver:
            receiver.complete_message(take(receiver, 1)[0])
            turns.append(id_of(receiver))
    assert turns == ids * 4


def test_message_wakes_its_holder_only(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], in_background: Callable[..., Any]
) -> None:
    """A message in a held session wakes its waiting holder only (B-132, B-200)."""
    holders = {session_id: accept(session_id) for session_id in "abcd"}
    waiting = {
        session_id: in_background(holder.receive_messages, max_wait_time=60) for session_id, holder in holders.items()
    }
    for session_id in "cadb":
        send(session_id, f"for {session_id}")
        assert texts(waiting.pop(session_id).result()) == [f"for {session_id}"]
        assert all(call.running for call in waiting.values())


def test_threads_that_share_a_session_are_all_woken(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    in_background: Callable[..., Any],
) -> None:
    """A batch of two wakes both threads that wait for one message each (B-132, B-207)."""
    holder = accept("a")
    waiting = [in_background(holder.receive_messages, max_wait_time=60) for _ in range(2)]
    time.sleep(0.05)
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages([ServiceBusMessage(text, session_id="a") for text in "12"])
    assert sorted(str(call.result()[0]) for call in waiting) == ["1", "2"]


def test_new_sessions_wake_as_many_acceptors(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], in_background: Callable[..., Any]
) -> None:
    """Each new session wakes one acceptor, and each acceptor gets a different one (B-196, B-200)."""
    receivers = [client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION) for _ in range(6)]
    waiting = [in_background(receiver.receive_messages) for receiver in receivers]
    time.sleep(0.1)
    got: list[str] = []
    for number in range(6):
        send(f"s{number}", f"{number}")
        end = time.monotonic() + 60
        while sum(not call.running for call in waiting) <= number:
            assert time.monotonic() < end, "no receiver was woken"
            time.sleep(0.002)
        time.sleep(0.01)
        assert sum(not call.running for call in waiting) == number + 1
    for call in waiting:
        got += texts(call.result())
    assert sorted(got) == [str(number) for number in range(6)]


def test_released_session_wakes_an_acceptor(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
    in_background: Callable[..., Any],
) -> None:
    """A released or lost session goes to a waiting acceptor (B-205, B-206)."""
    send("a", "1")
    for way in ("close", "expire"):
        holder = accept("a")
        take(holder)
        next_one = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
        waiting = in_background(next_one.receive_messages)
        time.sleep(0.05)
        assert waiting.running
        if way == "close":
            holder.close()
        else:
            clock.advance(PAST_THE_LOCK)
        assert texts(waiting.result()) == ["1"]
        next_one.close()


def test_scheduled_message_wakes_an_acceptor(
    client: ServiceBusClient, queue_name: str, clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A session whose first message becomes due goes to a waiting acceptor (B-112, B-196)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("x", session_id="a"), clock.now() + timedelta(seconds=30))
    receiver = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
    waiting = in_background(receiver.receive_messages)
    time.sleep(0.05)
    assert waiting.running
    clock.advance(30)
    assert texts(waiting.result()) == ["x"]


def test_many_workers_keep_the_order_of_each_session(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """Six workers and two senders: each message arrives once, each session in order (B-200, B-207, R-07, R-10)."""
    sessions, length = 30, 20

    def produce(part: int) -> None:
        with client.get_queue_sender(queue_name) as sender:
            for number in range(length):
                for session in range(part, sessions, 2):
                    sender.send_messages(ServiceBusMessage(str(number), session_id=f"s{session}"))

    def work() -> list[tuple[str | None, int, int]]:
        seen = []
        with contextlib.suppress(OperationTimeoutError):
            while True:
                with client.get_queue_receiver(
                    queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
                ) as receiver:
                    for message in take(receiver, 5):
                        seen.append((message.session_id, time.monotonic_ns(), int(str(message))))
                        receiver.complete_message(message)
        return seen

    calls = [in_background(produce, part) for part in range(2)]
    workers = [in_background(work) for _ in range(6)]
    for call in calls:
        call.result()
    seen = [one for worker in workers for one in worker.result()]
    order: dict[str | None, list[int]] = {}
    for session_id, _, number in sorted(seen, key=lambda one: one[1]):
        order.setdefault(session_id, []).append(number)
    assert order == {f"s{session}": list(range(length)) for session in range(sessions)}
