# SPDX-License-Identifier: Apache-2.0
"""Reservations after a namespace was closed, or its process died."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, Bus
from oxbus import ServiceBusMessage
from oxbus.exceptions import CheckpointBehindError, MessageLockLostError, ReservationFencedError, ServiceBusError
from oxbus.testing import heal, inject_fault
from reserving import LOCK_SECONDS, Consumer, numbers_of, partition_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.testing import ManualClock

MESSAGES = 40


@pytest.fixture
def filled(queue: Bus) -> Bus:
    """The bus with messages in its queue `q`."""
    queue.send(*map(str, range(MESSAGES)))
    return queue


def again(bus: Bus, epoch: int) -> Consumer:
    """The same program, which continues after the reopen: it does not acquire."""
    consumer = Consumer.__new__(Consumer)
    consumer.handle, consumer.name, consumer.epoch, consumer.done = bus.namespace._reservations("q"), "c", epoch, 0
    return consumer


@pytest.mark.parametrize("way", WAYS)
def test_live_reservations_are_live_again(filled: Bus, way: str, clock: ManualClock) -> None:
    """Other receivers do not get their messages in between, no delivery is counted, and their time starts again."""
    consumer = Consumer(filled.namespace, "q")
    first, second = consumer.reserve(1, 10), consumer.reserve(2, 10)
    filled.reopen(way)
    clock.advance(LOCK_SECONDS - 1)
    assert {message.delivery_count for message in filled.peek()} == {0}
    assert filled.runtime().locked_message_count == 20
    taken = {message.sequence_number for message in filled.take()}
    assert taken.isdisjoint({*numbers_of(first), *numbers_of(second)})
    consumer = again(filled, consumer.epoch)
    assert consumer.plan(1) == first
    assert consumer.reserve(2) == second
    assert consumer.complete(2) == (20, 0)
    filled.reopen(way)
    assert len(filled.peek()) == MESSAGES - 20
    assert Consumer(filled.namespace, "q").done == 2


@pytest.mark.parametrize("way", WAYS)
def test_completed_reservations_are_known(filled: Bus, way: str) -> None:
    """The epoch and the first number of the consumer are known too."""
    consumer = Consumer(filled.namespace, "q", start="latest")
    filled.send("late", "later")
    plan = consumer.reserve(1)
    assert consumer.complete(1) == (2, 0)
    filled.reopen(way)
    old = again(filled, consumer.epoch)
    with pytest.raises(CheckpointBehindError):
        old.plan(1)
    consumer = Consumer(filled.namespace, "q")
    assert (consumer.epoch, consumer.done) == (2, 1)
    with pytest.raises(ReservationFencedError):
        old.reserve(2)
    assert consumer.reserve(2)["messages"] == 0
    filled.send("latest")
    assert consumer.reserve(2)["messages"] == 1
    assert numbers_of(plan) != numbers_of(consumer.plan(2))


@pytest.mark.parametrize("way", WAYS)
def test_expired_reservations_stay_expired(filled: Bus, way: str, clock: ManualClock) -> None:
    """An open does not count the deliveries of an absent consumer again; the first count is kept."""
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1, 10)
    clock.advance(LOCK_SECONDS + 1)
    assert consumer.listed() == [("c", 1, 10, "lapsed")]
    # No call waits until an expiry is written; a send to its partition waits for all earlier entries.
    filled.send(*map(str, range(8)))
    for _ in range(2):
        filled.reopen(way)
        consumer = again(filled, consumer.epoch)
        assert consumer.listed() == [("c", 1, 10, "lapsed")]
        clock.advance(LOCK_SECONDS + 1)
        counts = {message.sequence_number: message.delivery_count for message in filled.peek()}
        assert {counts[number] for number in numbers_of(plan)} == {1}
    assert numbers_of(consumer.plan(1)) == numbers_of(plan)


@pytest.mark.parametrize("way", WAYS)
def test_messages_that_left_a_reservation_do_not_return_to_it(filled: Bus, way: str, clock: ManualClock) -> None:
    """Neither messages settled singly nor those received elsewhere after an expiry, wherever they are now."""
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1, 20)
    abandoned, completed = numbers_of(plan)[:3], numbers_of(plan)[3:5]
    consumer.settle(plan, abandoned, "abandon")
    consumer.settle(plan, completed, "complete")
    filled.reopen(way)
    consumer = again(filled, consumer.epoch)
    assert numbers_of(consumer.plan(1)) == numbers_of(plan)[5:]
    assert {message.delivery_count for message in filled.take()} == {0, 1}
    clock.advance(LOCK_SECONDS + 1)
    taken = {message.sequence_number for message in filled.take()}
    assert taken >= set(numbers_of(plan)[5:])
    left = consumer.plan(1)
    assert (left["messages"], left["missing"]) == (0, 15)
    filled.reopen(way)
    left = again(filled, consumer.epoch).plan(1)
    assert (left["messages"], left["missing"]) == (0, 15)
    assert len(filled.take()) == MESSAGES - len(completed)


@pytest.mark.parametrize("way", WAYS)
def test_restarted_programs_are_counted_and_their_messages_are_not(filled: Bus, way: str) -> None:
    """The count of attempts survives; no delivery is counted."""
    numbers: list[int] = []
    for attempt in range(1, 4):
        consumer = Consumer(filled.namespace, "q")
        plan = consumer.reserve(1, 5)
        numbers = numbers or numbers_of(plan)
        assert (plan["attempt"], numbers_of(plan)) == (attempt, numbers)
        assert {message.delivery_count for message in filled.peek()} == {0}
        filled.reopen(way)


@pytest.mark.parametrize("way", WAYS)
def test_cancelled_reservations_stay_cancelled(filled: Bus, way: str) -> None:
    """Any receiver may get their messages; no delivery is counted."""
    consumer = Consumer(filled.namespace, "q")
    consumer.reserve(1, 10)
    assert consumer.handle.cancel_reservation("c") == 10
    filled.reopen(way)
    consumer = again(filled, consumer.epoch)
    assert consumer.listed() == []
    assert len(filled.take()) == MESSAGES
    assert {message.delivery_count for message in filled.peek()} == {0}


def test_reserved_messages_do_not_expire_while_the_namespace_is_closed(queue: Bus, clock: ManualClock) -> None:
    """Their time to live may be over when they are reserved again."""
    with queue.sender() as sender:
        sender.send_messages([ServiceBusMessage("x", time_to_live=timedelta(seconds=10))])
    consumer = Consumer(queue.namespace, "q")
    plan = consumer.reserve(1)
    queue.stop("close")
    clock.advance(3600)
    queue.open()
    assert again(queue, consumer.epoch).plan(1) == plan


def test_reservations_of_a_dead_letter_queue_are_kept_apart(filled: Bus) -> None:
    """The same name in both is two consumers."""
    filled.receiver().dead_letter_messages(filled.take()[:15], reason="bad")
    filled.reopen("crash")
    main, dead = Consumer(filled.namespace, "q"), Consumer(filled.namespace, "q/$deadletterqueue")
    dead = Consumer(filled.namespace, "q/$deadletterqueue")
    plans = main.reserve(1, 5), dead.reserve(1, 7)
    filled.reopen("crash")
    assert again(filled, main.epoch).plan(1) == plans[0]
    handle = filled.namespace._reservations("q/$deadletterqueue")
    assert handle.plan("c", dead.epoch, 1, lock_duration=LOCK_SECONDS) == plans[1]
    assert handle.complete("c", dead.epoch, 1) == {"completed": 7, "late": 0}


@pytest.mark.parametrize("failing", range(1, 4))
def test_failed_completion_can_be_repeated(bus: Bus, key_of: Callable[..., str], failing: int) -> None:
    """One partition fails during it: nothing is lost, and the second try completes the rest and waits for all."""
    bus.admin.create_queue("q", enable_partitioning=True)
    for partition in range(4):
        bus.send(*map(str, range(5)), partition_key=key_of(partition))
    consumer = Consumer(bus.namespace, "q", key_of(0))
    plan = consumer.reserve(1, 20)
    assert plan["messages"] == 20
    inject_fault(bus.namespace, failing, "eio-write")
    with pytest.raises(ServiceBusError):
        consumer.complete(1)
    heal(bus.namespace, failing)
    completed, late = consumer.complete(1)
    assert late == 0
    assert completed in (0, 20)
    bus.reopen("crash")
    assert bus.peek() == []
    assert Consumer(bus.namespace, "q", key_of(0)).done == 1


def test_reservation_that_could_not_be_written_is_written_later(bus: Bus, key_of: Callable[..., str]) -> None:
    """The plan of the number is fixed before it is returned: a second try has the same messages, also after a crash."""
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send(*map(str, range(8)), partition_key=key_of(1))
    consumer = Consumer(bus.namespace, "q", key_of(0))
    inject_fault(bus.namespace, 0, "eio-write")
    with pytest.raises(ServiceBusError):
        consumer.reserve(1, 5)
    heal(bus.namespace, 0)
    plan = consumer.reserve(1, 5)
    assert {partition_of(number) for number in numbers_of(plan)} == {1}
    bus.reopen("crash")
    handle = bus.namespace._reservations("q")
    assert handle.plan(key_of(0), consumer.epoch, 1, lock_duration=LOCK_SECONDS) == plan


def test_killed_process_has_lost_no_plan(
    tmp_path: Path, start_python: Callable[..., subprocess.Popen[str]], run_python: Callable[..., str]
) -> None:
    """A process prints each plan that it gets and is killed; the next open finds the last one."""
    setup = """
        with Namespace(sys.argv[1], partitions=4) as namespace:
            admin = ServiceBusAdministrationClient(namespace)
            admin.create_queue("q", enable_partitioning=True)
            with ServiceBusClient(namespace).get_queue_sender("q") as sender:
                for number in range(400):
                    sender.send_messages(ServiceBusMessage(str(number)))
    """
    work = """
        import signal
        with Namespace(sys.argv[1]) as namespace:
            handle = namespace._reservations("q")
            epoch = handle.acquire("c")["epoch"]
            options = {"max_messages": 10, "max_bytes": 1 << 20, "lock_duration": 600.0}
            for n in range(int(sys.argv[2]), int(sys.argv[2]) + 3):
                handle.complete("c", epoch, n - 1)
                plan = handle.reserve("c", epoch, n, **options)
                runs = [run for part in plan["partitions"] for run in part["ranges"]]
                print(n, [number for low, high in runs for number in range(low, high + 1)], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    path = tmp_path / "bus"
    run_python(setup, path)
    seen: dict[int, str] = {}
    for cycle in range(4):
        process = start_python(work, path, 2 * cycle + 1)
        output, _ = process.communicate(timeout=120)
        for line in output.splitlines():
            n, _, numbers = line.partition(" ")
            # The last number of a cycle is the first of the next one.
            assert seen.setdefault(int(n), numbers) == numbers
    assert len(seen) == 9
    planned = [number for text in seen.values() for number in text.strip("[]").split(", ")]
    assert len(set(planned)) == len(planned) == 90


def test_changes_during_a_snapshot_keep_the_reservation(filled: Bus, clock: ManualClock) -> None:
    """Changes after a checkpoint are read from the journal and override the snapshot."""
    consumer = Consumer(filled.namespace, "q")
    consumer.reserve(1, 10)
    filled.namespace.checkpoint()
    consumer.complete(1)
    plan = consumer.reserve(2, 10)
    filled.reopen("crash")
    consumer = again(filled, consumer.epoch)
    assert consumer.listed() == [("c", 2, 10, "live")]
    assert consumer.plan(2) == plan
    clock.advance(LOCK_SECONDS + 1)
    with pytest.raises(MessageLockLostError):
        consumer.renew()
