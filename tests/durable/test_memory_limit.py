# SPDX-License-Identifier: Apache-2.0
"""A namespace larger than its memory: bodies stay on disk and are delivered complete."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, Bus, body_of
from oxbus import ServiceBusMessage
from oxbus.exceptions import PartitionUnavailableError, ServiceBusQuotaExceededError
from oxbus.management import SqlRuleFilter
from stored_files import flip_bit, places_of, shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusSender
    from oxbus.testing import ManualClock

LIMIT = 256 << 10
MESSAGES = 300


def text(number: int) -> str:
    """A unique text of one KiB."""
    return f"<{number:06}>" * 128


@pytest.fixture
def full(make_bus: Callable[..., Bus]) -> Bus:
    """A bus whose memory limit is used up by a queue `other`."""
    bus = make_bus(memory_limit_bytes=LIMIT, durability="os")
    bus.open()
    bus.admin.create_queue("other", enable_partitioning=True)
    send(bus, range(MESSAGES), "other")
    return bus


@pytest.fixture
def crowded(full: Bus, partitioned: bool) -> Bus:
    """The same bus with an empty queue `q`, partitioned or not."""
    full.admin.create_queue("q", enable_partitioning=partitioned)
    return full


def send(bus: Bus, numbers: range, queue_name: str = "q") -> None:
    """Send numbered texts in lists of 50."""
    with bus.sender(queue_name) as sender:
        for start in range(numbers.start, numbers.stop, 50):
            batch = range(start, min(start + 50, numbers.stop))
            sender.send_messages([ServiceBusMessage(text(number)) for number in batch])


def send_lists(sender: ServiceBusSender, messages: list[ServiceBusMessage], count: int) -> None:
    """Send a list repeatedly until `count` messages were sent."""
    for _ in range(count // len(messages)):
        sender.send_messages(messages)


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies, sorted."""
    return sorted(str(message) for message in messages)


@pytest.mark.parametrize("way", WAYS)
def test_backlog_beyond_the_limit_survives_completely(crowded: Bus, way: str) -> None:
    """Ten times the limit is sent, peeked, kept over the end of the process, and received (R-27)."""
    expected = [text(number) for number in range(MESSAGES)]
    for start in range(0, 10 * MESSAGES, MESSAGES):
        send(crowded, range(start, start + MESSAGES), "other")
    send(crowded, range(MESSAGES))
    assert texts(crowded.peek()) == expected
    before = crowded.observed_state()
    crowded.reopen(way)
    assert crowded.observed_state() == before
    messages = crowded.take()
    assert texts(messages) == expected
    crowded.receiver().complete_messages(messages)
    assert crowded.peek() == []
    assert len(crowded.take("other")) == 11 * MESSAGES


@pytest.mark.parametrize("way", WAYS)
def test_every_stage_of_a_message_on_disk(crowded: Bus, clock: ManualClock, way: str) -> None:
    """Abandoned, deferred, dead-lettered and scheduled messages keep their bodies and changed properties."""
    receiver = crowded.receiver()
    crowded.send(text(1), partition_key="k")
    receiver.abandon_message(crowded.take_one(), properties_to_modify={"tries": 1})
    crowded.send(text(2), partition_key="k")
    receiver.dead_letter_message(crowded.take_one(), "why")
    deferred = crowded.take_one()
    receiver.defer_message(deferred, properties_to_modify={"put": "aside"})
    with crowded.sender() as sender:
        sender.schedule_messages(ServiceBusMessage(text(3)), clock.now() + timedelta(minutes=10))
    crowded.namespace.checkpoint()
    crowded.send(text(4))
    crowded.reopen(way)
    assert texts(crowded.peek(sub_queue="deadletter")) == [text(1)]
    (fourth,) = crowded.take()
    assert str(fourth) == text(4)
    crowded.receiver().complete_message(fourth)
    (fetched,) = crowded.receiver().receive_deferred_messages(deferred.sequence_number)
    assert (str(fetched), fetched.application_properties) == (text(2), {"put": "aside"})
    clock.advance(600)
    assert texts(crowded.take()) == [text(3)]
    (dead,) = crowded.take(sub_queue="deadletter")
    assert (str(dead), dead.dead_letter_reason) == (text(1), "why")
    assert (dead.application_properties or {})["tries"] == 1


def test_checkpoints_keep_messages_on_disk(crowded: Bus) -> None:
    """Messages that stay while others come and go keep their bodies, and old files are removed (R-28)."""
    send(crowded, range(MESSAGES))
    kept = {str(message) for message in crowded.take()}
    assert len(kept) == MESSAGES
    for _ in range(20):
        send(crowded, range(1000, 1000 + MESSAGES))
        fresh = [message for message in crowded.take() if str(message) not in kept]
        assert len(fresh) == MESSAGES
        crowded.receiver().complete_messages(fresh)
        crowded.namespace.checkpoint()
    live = 2 * MESSAGES * 1100
    sizes = [
        [file.stat().st_size for file in directory.glob("*.journal")] for directory in crowded.path.glob("shard-*")
    ]
    snapshots = sum(file.stat().st_size for file in crowded.path.rglob("*.snapshot"))
    assert sum(map(sum, sizes)) <= 2 * live + sum(3 * max(of_shard, default=0) for of_shard in sizes)
    assert snapshots <= 2 * live
    assert texts(crowded.peek()) == sorted(kept)
    crowded.reopen("crash")
    assert texts(crowded.take()) == sorted(kept)


def test_damage_is_an_error_and_never_a_wrong_body(full: Bus, key_of: Callable[..., str]) -> None:
    """A body that changed on disk is not delivered; its partition stops with a reason, the others work."""
    full.admin.create_queue("q", enable_partitioning=True)
    for partition_id in range(4):
        full.send(text(partition_id), partition_key=key_of(partition_id))
    file, position = places_of(shard(full.path, 2), text(2).encode())[0]
    flip_bit(file, position + 500)
    assert texts(full.take()) == [text(number) for number in (0, 1, 3)]
    health = full.namespace.partition_health()
    assert [(it.partition_id, it.status) for it in health if it.status != "healthy"] == [(2, "offline")]
    with pytest.raises(PartitionUnavailableError, match="read back"):
        full.send("x", partition_key=key_of(2))
    flip_bit(file, position + 500)
    full.reopen("close")
    assert text(2) in texts(full.take())


@pytest.mark.parametrize("call", ["purge_messages", "resubmit_dead_letters"])
def test_bulk_call_that_fails_after_a_part_reports_it(full: Bus, key_of: Callable[..., str], call: str) -> None:
    """A damaged message of the third partition ends the call; its error shows that the first two are done (R-25)."""
    full.admin.create_queue("q", enable_partitioning=True)
    for partition_id in range(4):
        full.send(text(partition_id), partition_key=key_of(partition_id))
    sub_queue = None
    if call == "resubmit_dead_letters":
        sub_queue = "deadletter"
        full.receiver().dead_letter_messages(full.take())
        full.reopen("close")
    places = places_of(shard(full.path, 2), text(2).encode())
    for file, position in places:
        flip_bit(file, position + 500)
    with pytest.raises(PartitionUnavailableError, match="read back") as refusal:
        getattr(full.admin, call)("q", where=SqlRuleFilter("1 = 1"))
    assert refusal.value.effect == "partial"
    for file, position in places:
        flip_bit(file, position + 500)
    full.reopen("close")
    assert texts(full.peek(sub_queue=sub_queue)) == [text(number) for number in (2, 3)]


def test_slots_alone_fill_the_memory(make_bus: Callable[..., Bus]) -> None:
    """Once message metadata alone exceeds the limit, sends are rejected and receiving frees memory."""
    bus = make_bus(memory_limit_bytes=LIMIT, durability="os")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    small = [ServiceBusMessage(b"small") for _ in range(100)]
    with bus.sender() as sender:
        send_lists(sender, small, LIMIT // 100)
        with pytest.raises(ServiceBusQuotaExceededError, match="memory_limit_bytes"):
            send_lists(sender, small, LIMIT)
    waiting = bus.runtime().active_message_count
    assert LIMIT / 100 <= waiting <= LIMIT / 32
    while messages := bus.take():
        bus.receiver().complete_messages(messages)
    bus.send("again")
    assert [body_of(message) for message in bus.take()] == [b"again"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("way", "body_bytes"), [("completed", 2048), ("dead-lettered first", 8192)])
def test_resident_memory_stays_within_the_limit(
    run_python: Callable[..., str], bus: Bus, way: str, body_bytes: int
) -> None:
    """A queue ten times the limit fills and drains with resident memory within 1.5 x the limit (R-27).

    There are fewer dead letters: one takes some 150 bytes besides its body, in an ordered map.
    """
    bus.close()
    printed = run_python(
        """
        from oxbus import ServiceBusSubQueue

        LIMIT = 40 << 20
        BODY = bytes(int(sys.argv[3]))
        LIST = (1 << 20) // len(BODY)

        def resident():
            fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
            return int(fields["VmRSS"].split()[0]) * 1024

        def drain(sub_queue, settle):
            left, peak = sent, 0
            with client.get_queue_receiver("q", sub_queue=sub_queue) as receiver:
                while left:
                    messages = receiver.receive_messages(max_message_count=LIST, max_wait_time=5)
                    assert messages and all(b"".join(message.body) == BODY for message in messages)
                    settle(receiver, messages)
                    left -= len(messages)
                    peak = max(peak, resident())
            return peak - base

        def opened():
            namespace = Namespace(sys.argv[1], memory_limit_bytes=LIMIT, durability="os")
            return namespace, ServiceBusClient(namespace)

        namespace, client = opened()
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        base = filled = resident()
        sent = 10 * LIMIT // len(BODY) // LIST * LIST
        with client.get_queue_sender("q") as sender:
            for _ in range(sent // LIST):
                sender.send_messages([ServiceBusMessage(BODY) for _ in range(LIST)])
                filled = max(filled, resident())
        grown = [filled - base]
        sub_queue = None
        if sys.argv[2] == "dead-lettered first":
            # By a process that sent nothing. Opening reads whole segments, which the allocator frees after a while.
            namespace.close()
            namespace, client = opened()
            base = resident()
            grown.append(drain(None, lambda receiver, messages: receiver.dead_letter_messages(messages)))
            sub_queue = ServiceBusSubQueue.DEAD_LETTER
        grown.append(drain(sub_queue, lambda receiver, messages: receiver.complete_messages(messages)))
        namespace.close()
        print("grown", *[each / LIMIT for each in grown])
        """,
        bus.path,
        way,
        body_bytes,
        seconds_max=500,
    )
    words = next(line.split() for line in printed.splitlines() if line.startswith("grown"))
    assert max(map(float, words[1:])) <= 1.5, printed
