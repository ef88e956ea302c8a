# SPDX-License-Identifier: Apache-2.0
"""Transactions after a reopen, a failed disk and a kill are atomic (B-306, B-315, B-316, B-330).

`OXBUS_KILL_CYCLES` is the number of kills, `OXBUS_KILL_SECONDS` the time after which the test stops killing.
"""

from __future__ import annotations

import os
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from durable_bus import WAYS, Bus, bodies
from faulty_bus import BAD, KEYS, heal_partition
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import MessageLockLostError, PartitionUnavailableError
from oxbus.testing import inject_fault

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from oxbus import ServiceBusReceivedMessage, ServiceBusSession
    from oxbus.testing import ManualClock

KEY = "key-a"
ALL = "news/Subscriptions/all"
SOME = "news/Subscriptions/some"
KILL_CYCLES = int(os.environ.get("OXBUS_KILL_CYCLES", "12"))
KILL_SECONDS = float(os.environ.get("OXBUS_KILL_SECONDS", "inf"))
TOKENS = 12
"""Messages that the killed processes move."""


def message(body: str, **options: Any) -> ServiceBusMessage:
    """A message with a key."""
    return ServiceBusMessage(body, partition_key=KEY, **options)


def send_old(bus: Bus, count: int = 5, queue_name: str = "q") -> list[ServiceBusReceivedMessage]:
    """Send messages with the bodies "0", "1", … and lock them."""
    bus.send(*map(str, range(count)), queue_name=queue_name, partition_key=KEY)
    return bus.take(queue_name)


@pytest.mark.parametrize("way", WAYS)
def test_committed_transaction_survives(queue: Bus, clock: ManualClock, way: str) -> None:
    """Sends, schedules and settlements of one transaction are all there after a reopen (B-315)."""
    done, back, aside, dead, kept = send_old(queue)
    receiver = queue.receiver()
    due = clock.now() + timedelta(minutes=5)
    with queue.client.transaction() as txn, queue.sender() as sender:
        sender.send_messages([message("new 0"), message("new 1")], transaction=txn)
        numbers = sender.schedule_messages(message("later"), due, transaction=txn)
        receiver.complete_message(done, transaction=txn)
        receiver.abandon_message(back, properties_to_modify={"again": 1}, transaction=txn)
        receiver.defer_message(aside, properties_to_modify={"aside": 2}, transaction=txn)
        receiver.dead_letter_message(dead, reason="why", transaction=txn)
    receiver.abandon_message(kept)
    before = queue.observed_state()
    queue.reopen(way)
    assert queue.observed_state() == before
    received = queue.take()
    assert bodies(received) == ["1", "4", "new 0", "new 1"]
    assert (received[0].application_properties, received[0].delivery_count) == ({"again": 1}, 1)
    (deferred,) = queue.receiver().receive_deferred_messages(aside.sequence_number)
    assert deferred.application_properties == {"aside": 2}
    dead_letter = queue.take_one(sub_queue="deadletter")
    assert (str(dead_letter), dead_letter.dead_letter_reason) == ("3", "why")
    with queue.sender() as sender:
        sender.cancel_scheduled_messages(numbers)


@pytest.mark.parametrize("way", WAYS)
def test_uncommitted_transaction_has_no_effect(queue: Bus, way: str) -> None:
    """An open transaction and one that was rolled back have no effect (B-316)."""
    old = send_old(queue)
    receiver = queue.receiver()
    with queue.sender() as sender:
        rolled_back, left = queue.client.transaction(), queue.client.transaction()
        for txn, messages in ((rolled_back, old), (left, old[:3])):
            sender.send_messages(message("lost"), transaction=txn)
            receiver.complete_messages(messages, transaction=txn)
        rolled_back.rollback()
    queue.reopen(way)
    assert bodies(queue.take()) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_commit_has_no_effect(queue: Bus, clock: ManualClock, way: str) -> None:
    """An expired lock fails the commit with all sends of its transaction (B-155, B-316)."""
    old = send_old(queue)
    with queue.sender() as sender:
        txn = queue.client.transaction()
        sender.send_messages(message("lost"), transaction=txn)
        queue.receiver().complete_messages(old, transaction=txn)
        clock.advance(60)
        with pytest.raises(MessageLockLostError):
            txn.commit()
    queue.reopen(way)
    assert bodies(queue.take()) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("way", WAYS)
def test_ids_of_commits_are_remembered(bus: Bus, partitioned: bool, way: str) -> None:
    """After a reopen a copy of a committed message is dropped, and an id that was rolled back is free (B-230)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, requires_duplicate_detection=True)
    with bus.sender() as sender:
        with bus.client.transaction() as txn:
            sender.send_messages(message("first", message_id="m"), transaction=txn)
        txn = bus.client.transaction()
        sender.send_messages(message("lost", message_id="n"), transaction=txn)
        txn.rollback()
    bus.reopen(way)
    with bus.sender() as sender, bus.client.transaction() as txn:
        sender.send_messages(message("copy", message_id="m"), transaction=txn)
        sender.send_messages(message("new", message_id="n"), transaction=txn)
    bus.send("copy", partition_key=KEY, message_id="m")
    assert bodies(bus.take()) == ["first", "new"]


@pytest.mark.parametrize("way", WAYS)
def test_sessions(bus: Bus, partitioned: bool, way: str) -> None:
    """State, settlement and send of a session take effect together (B-213)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, requires_session=True)

    def session_of(receiver: Any) -> ServiceBusSession:
        session: ServiceBusSession = receiver.session
        return session

    bus.send("one", session_id="s")
    with bus.sender() as sender, bus.client.get_queue_receiver("q", session_id="s", max_wait_time=0) as receiver:
        (one,) = receiver.receive_messages()
        with bus.client.transaction() as txn:
            session_of(receiver).set_state(b"new", transaction=txn)
            receiver.complete_message(one, transaction=txn)
            sender.send_messages(ServiceBusMessage("two", session_id="s"), transaction=txn)
    bus.reopen(way)
    with bus.client.get_queue_receiver("q", session_id="s", max_wait_time=0) as receiver:
        assert session_of(receiver).get_state() == b"new"
        assert bodies(receiver.receive_messages(10)) == ["two"]


@pytest.mark.parametrize("way", WAYS)
def test_topics(bus: Bus, partitioned: bool, way: str) -> None:
    """Copies, numbers and ids of a topic are those that the commit assigned (B-113, B-228, B-343)."""
    bus.admin.create_topic("news", enable_partitioning=partitioned, requires_duplicate_detection=True)
    with bus.client.get_topic_sender("news") as sender, bus.client.transaction() as txn:
        sender.send_messages(message("to nobody", message_id="m"), transaction=txn)
    bus.reopen(way)
    for name in ("all", "some"):
        bus.admin.create_subscription("news", name)
    for text in ("one", "two"):
        with bus.client.get_topic_sender("news") as sender, bus.client.transaction(cross_entity=True) as txn:
            sender.send_messages(message(text), transaction=txn)
            sender.send_messages(message("copy", message_id="m"), transaction=txn)
        bus.reopen(way)
    bus.send("three", queue_name="news", partition_key=KEY)
    for name in (ALL, SOME):
        copies = bus.peek(name)
        assert bodies(copies) == ["one", "two", "three"]
        numbers = [each.enqueued_sequence_number for each in copies]
        assert numbers == sorted(set(numbers), key=numbers.index)


@pytest.mark.parametrize("way", WAYS)
def test_the_other_entity_outlives_the_first(bus: Bus, way: str) -> None:
    """One commit sends to two queues; deleting one queue does not affect the other (B-324)."""
    for name in ("a", "b"):
        bus.admin.create_queue(name, enable_partitioning=True)
    (request,) = send_old(bus, 1, "a")
    with bus.sender("a") as first, bus.sender("b") as second, bus.client.transaction(cross_entity=True) as txn:
        bus.receiver("a").complete_message(request, transaction=txn)
        first.send_messages(message("in a"), transaction=txn)
        second.send_messages([message("in b"), message("in b too")], transaction=txn)
    bus.admin.delete_queue("a")
    bus.reopen(way)
    assert bodies(bus.peek("b")) == ["in b", "in b too"]
    bus.reopen(way)
    bus.send("after", queue_name="b", partition_key=KEY)
    assert bodies(bus.take("b")) == ["in b", "in b too", "after"]


@pytest.mark.parametrize("way", WAYS)
def test_bodies_on_disk(make_bus: Callable[..., Bus], way: str) -> None:
    """Large bodies of a transaction are read back from the journal (R-25)."""
    bus = make_bus(memory_limit_bytes=2 << 20)
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    texts = [f"{number:02}" * 60_000 for number in range(12)]
    for _ in range(3):
        with bus.sender() as sender, bus.client.transaction() as txn:
            for text in texts:
                sender.send_messages([message("small"), message(text)], transaction=txn)
    held = bus.take()
    expected = [body for _ in range(3) for text in texts for body in ("small", text)]
    assert bodies(held) == expected
    with bus.sender() as sender, bus.client.transaction() as txn:
        bus.receiver().complete_messages(held[:10], transaction=txn)
        bus.receiver().dead_letter_messages(held[10:20], transaction=txn)
        bus.receiver().abandon_messages(held[20:30], properties_to_modify={"again": 1}, transaction=txn)
        sender.send_messages(message(texts[0]), transaction=txn)
    bus.receiver().abandon_messages(held[30:])
    assert bodies(bus.peek(sub_queue="deadletter")) == expected[10:20]
    bus.reopen(way)
    assert bodies(bus.peek(sub_queue="deadletter")) == expected[10:20]
    assert bodies(bus.take()) == [*expected[20:], texts[0]]


@pytest.mark.parametrize("ending", ["heal", "heal and close", "heal and crash", "crash"])
@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync"])
def test_a_disk_that_fails_at_the_commit(wide_bus: Bus, fault: str, ending: str) -> None:
    """The transaction is atomic; after healing it did not happen (B-316, B-330)."""
    key = KEYS[BAD]
    wide_bus.send("0", "1", "2", partition_key=key)
    old = wide_bus.take()
    txn = wide_bus.client.transaction()
    with wide_bus.sender() as sender:
        for number in range(3):
            sender.send_messages(ServiceBusMessage(f"new {number}", partition_key=key), transaction=txn)
    wide_bus.receiver().complete_messages(old[:2], transaction=txn)
    inject_fault(wide_bus.namespace, BAD, fault)
    with pytest.raises(PartitionUnavailableError):
        txn.commit()
    if ending.startswith("heal"):
        heal_partition(wide_bus)
        assert bodies(wide_bus.peek()) == ["0", "1", "2"]
    if ending == "heal":
        wide_bus.receiver().complete_messages(old)
        assert wide_bus.peek() == []
        return
    wide_bus.reopen(ending.rsplit(maxsplit=1)[-1])
    found = bodies(wide_bus.take())
    if ending.startswith("heal"):
        assert found == ["0", "1", "2"]
    else:
        assert found in (["0", "1", "2"], ["2", "new 0", "new 1", "new 2"])


def test_one_message_is_settled_by_one_of_two_commits(wide_bus: Bus, in_background: Callable[..., Any]) -> None:
    """If two concurrent commits settle the same message, exactly one succeeds (B-316, R-09).

    Both checked the lock before either had written, so both succeeded and their sends were duplicates.
    """
    key = KEYS[BAD]
    for attempt in range(3):
        wide_bus.send("request", partition_key=key)
        request = wide_bus.take_one()
        transactions = [wide_bus.client.transaction() for _ in range(3)]
        for side, txn in enumerate(transactions):
            with wide_bus.sender() as sender:
                sender.send_messages(ServiceBusMessage(f"reply of {side}", partition_key=key), transaction=txn)
            wide_bus.receiver().complete_message(request, transaction=txn)
        inject_fault(wide_bus.namespace, BAD, "latency:0.1")
        calls = [in_background(txn.commit) for txn in transactions]
        lost = 0
        for call in calls:
            try:
                call.result()
            except MessageLockLostError:
                lost += 1
        heal_partition(wide_bus)
        assert lost == 2
        replies = wide_bus.take()
        assert len(replies) == 1, attempt
        wide_bus.receiver().complete_messages(replies)


def test_a_send_may_request_a_higher_level(make_bus: Callable[..., Bus], partitioned: bool) -> None:
    """`durability` of a send in a transaction applies to all of it, and is validated as usual (R-10)."""
    bus = make_bus(durability="os")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=partitioned)
    with bus.sender() as sender, bus.client.transaction() as txn:
        sender.send_messages(message("one"), durability="fsync", transaction=txn)
        with pytest.raises(ValueError, match="durability"):
            sender.send_messages(message("two"), durability="paper", transaction=txn)
    bus.reopen("crash")
    assert bodies(bus.take()) == ["one"]


@pytest.mark.parametrize("way", WAYS)
def test_checkpoints_between_commits(queue: Bus, way: str) -> None:
    """Commits, checkpoints and reopens in turn lose and duplicate nothing (B-330)."""
    queue.send(*map(str, range(6)), partition_key=KEY)
    for cycle in range(8):
        for held in queue.take()[: 3 + cycle % 3]:
            with queue.sender() as sender, queue.client.transaction() as txn:
                sender.send_messages(message(str(held)), transaction=txn)
                queue.receiver().complete_message(held, transaction=txn)
        if cycle % 2:
            queue.namespace.checkpoint()
        if cycle % 3 == 2:
            queue.reopen(way)
        else:
            queue.receiver().close()
            queue.reopen("close")
    assert sorted(bodies(queue.peek() + queue.peek(sub_queue="deadletter"))) == list("012345")


WORKER = """
import itertools, random
path, seed, level = sys.argv[1:]
namespace = Namespace(path, partitions=4, durability=level)
client = ServiceBusClient(namespace)

def work(thread):
    chance = random.Random(f"{seed} {thread}")
    names = ["left", "right"] if thread % 2 else ["right", "left"]
    with client.get_queue_receiver(names[0]) as receiver:
        sender, onward = client.get_queue_sender(names[0]), client.get_queue_sender(names[1])
        audit = client.get_queue_sender("audit")
        for step in itertools.count():
            for each in receiver.receive_messages(chance.randrange(1, 4), max_wait_time=0.05):
                txn = client.transaction(cross_entity=True)
                receiver.complete_message(each, transaction=txn)
                to = sender if chance.random() < 0.3 else onward
                hops = int(each.application_properties["hops"])
                next_one = ServiceBusMessage(str(each), partition_key=each.partition_key,
                                             application_properties={"hops": hops + 1})
                to.send_messages(next_one, transaction=txn)
                note = ServiceBusMessage(f"{each} {hops + 1}", partition_key=each.partition_key)
                audit.send_messages(note, transaction=txn)
                if chance.random() < 0.1:
                    txn.rollback()
                    receiver.abandon_message(each)
                else:
                    txn.commit()

def checkpoints():
    chance = random.Random(f"{seed} checkpoints")
    while True:
        time.sleep(chance.uniform(0.01, 0.1))
        namespace.checkpoint()

for thread in range(4):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
threading.Thread(target=checkpoints, daemon=True).start()
print("working", flush=True)
threading.Event().wait()
"""


def browse(client: ServiceBusClient, queue_name: str, sub_queue: str | None = None) -> list[ServiceBusReceivedMessage]:
    """All messages of a queue."""
    found: list[ServiceBusReceivedMessage] = []
    with client.get_queue_receiver(queue_name, sub_queue=sub_queue) as browser:
        while batch := browser.peek_messages(max_message_count=250):
            found += batch
    return found


def hops(each: ServiceBusReceivedMessage) -> int:
    """The number of moves of a message."""
    properties = each.application_properties
    assert properties is not None
    return int(properties["hops"])


@pytest.mark.timeout(300 + 60 * KILL_CYCLES)
@pytest.mark.parametrize("level", ["fsync", "os"])
def test_a_kill_splits_no_transaction(
    tmp_path: Path,
    start_python: Callable[..., subprocess.Popen[str]],
    until_printed: Callable[[subprocess.Popen[str], str], None],
    level: str,
) -> None:
    """After each kill every message is in one place, and has one note for each move (B-330, R-12)."""
    path = tmp_path / "bus"
    chance = random.Random(level)
    with Namespace(path, partitions=4, durability=level) as namespace, ServiceBusClient(namespace) as client:
        admin = oxbus.management.ServiceBusAdministrationClient(namespace)
        for name in ("left", "right", "audit"):
            admin.create_queue(name, enable_partitioning=True, max_delivery_count=1_000_000)
        with client.get_queue_sender("left") as sender:
            for token in range(TOKENS):
                first = ServiceBusMessage(
                    f"token-{token}", partition_key=f"key-{token % 5}", application_properties={"hops": 0}
                )
                sender.send_messages(first)
    moved = 0
    end = time.monotonic() + KILL_SECONDS
    for cycle in range(max(3, KILL_CYCLES // 2)):
        if cycle > 1 and time.monotonic() > end:
            break
        worker = start_python(WORKER, path, f"{level} {cycle}", level)
        until_printed(worker, "working")
        time.sleep(chance.uniform(0.02, 0.6))
        assert worker.poll() is None
        worker.kill()
        worker.communicate()
        with Namespace(path, durability=level) as namespace, ServiceBusClient(namespace) as client:
            tokens = browse(client, "left") + browse(client, "right")
            assert sorted(map(str, tokens)) == sorted(f"token-{token}" for token in range(TOKENS))
            noted = sorted(map(str, browse(client, "audit")))
            expected = sorted(f"{each} {hop + 1}" for each in tokens for hop in range(hops(each)))
            assert noted == expected
            for name in ("left", "right", "audit"):
                assert browse(client, name, "deadletter") == []
            moved = len(noted)
    assert moved > 0, "no run moved a message"
