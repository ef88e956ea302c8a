# SPDX-License-Identifier: Apache-2.0
"""The unsynced end of a journal may be lost: exactly that is cut and reported."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from durable_bus import bodies
from oxbus import ServiceBusMessage
from stored_files import frames, places_of, shard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_bus import Bus

BAD = 3
LAST = "the last message"


@pytest.fixture
def crashed(make_bus: Callable[..., Bus], key_of: Callable[..., str]) -> Bus:
    """The files of a process that crashed after three messages, the last one alone in the last frame."""
    bus = make_bus(durability="os")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send("first", "second", LAST, partition_key=key_of(BAD))
    bus.send("elsewhere", partition_key=key_of(0))
    bus.stop("crash")
    return bus


def last_frame(path: Path) -> tuple[Path, int, int]:
    """The segment that holds the last message, and the begin and end of its frame."""
    ((segment, position),) = places_of(shard(path, BAD), LAST.encode())
    begin, end = next((begin, end) for begin, end in frames(segment) if begin <= position < end)
    return segment, begin, end


def overwrite(segment: Path, begin: int, data: bytes) -> None:
    """Write bytes at a position and zeros from there to the end of the file, as if nothing more had been written."""
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.seek(begin)
        file.write(data + bytes(size - begin - len(data)))


@pytest.mark.parametrize("kept", [4, 8, 31, 32, 40, -8, -1])
def test_torn_last_frame_is_cut(crashed: Bus, key_of: Callable[..., str], kept: int) -> None:
    """A partly written frame is cut; everything before it is intact (docs/format.md, torn or damaged)."""
    segment, begin, end = last_frame(crashed.path)
    torn = segment.read_bytes()[begin:end].rstrip(b"\0")[:kept]
    overwrite(segment, begin, torn)
    namespace = crashed.open()
    assert namespace.recovery is not None
    assert list(namespace.recovery.corrupt_partitions) == []
    assert namespace.recovery.truncated_bytes > 0
    assert {entry.status for entry in namespace.partition_health()} == {"healthy"}
    assert sorted(bodies(crashed.peek())) == ["elsewhere", "first", "second"]
    assert crashed.runtime().total_message_count == 3
    crashed.send("after", partition_key=key_of(BAD))
    crashed.reopen("crash")
    assert [body for body in bodies(crashed.take()) if body != "elsewhere"] == ["first", "second", "after"]


def test_cut_is_reported_once(crashed: Bus) -> None:
    """After the cut the journal is intact: the next open has nothing to cut (docs/format.md, torn or damaged)."""
    segment, begin, _ = last_frame(crashed.path)
    overwrite(segment, begin, segment.read_bytes()[begin : begin + 36])
    recovery = crashed.open().recovery
    assert recovery is not None
    assert recovery.truncated_bytes > 0
    for way in ("crash", "close"):
        recovery = crashed.reopen(way).recovery
        assert recovery is not None
        assert (recovery.truncated_bytes, list(recovery.corrupt_partitions)) == (0, [])
        assert sorted(bodies(crashed.peek())) == ["elsewhere", "first", "second"]


def test_number_of_a_lost_message_is_not_given_again(make_bus: Callable[..., Bus], key_of: Callable[..., str]) -> None:
    """A client may have seen the number of a lost message, so no other message gets it (B-103, B-105)."""
    bus = make_bus(durability="os")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send("first", LAST, partition_key=key_of(BAD))
    first, lost = (message.sequence_number for message in bus.peek())
    assert lost == first + 1
    bus.stop("crash")
    segment, begin, _ = last_frame(bus.path)
    overwrite(segment, begin, b"")
    bus.open()
    assert bodies(bus.peek()) == ["first"]
    bus.send("after", partition_key=key_of(BAD))
    assert bus.peek()[-1].sequence_number > lost


@pytest.mark.parametrize("seed", range(4))
def test_rubbish_behind_the_last_frame_is_cut(crashed: Bus, key_of: Callable[..., str], seed: int) -> None:
    """Invalid bytes behind the last frame do not affect acknowledged messages (docs/format.md)."""
    segment, _, end = last_frame(crashed.path)
    rubbish = random.Random(seed).randbytes(500)
    assert rubbish[0] != 0
    overwrite(segment, end, rubbish)
    namespace = crashed.open()
    assert namespace.recovery is not None
    assert list(namespace.recovery.corrupt_partitions) == []
    assert namespace.recovery.truncated_bytes > 0
    assert sorted(bodies(crashed.peek())) == sorted(["elsewhere", "first", "second", LAST])
    crashed.send("after", partition_key=key_of(BAD))
    crashed.reopen("crash")
    assert "after" in bodies(crashed.peek())


def test_batch_in_a_torn_frame_is_lost_as_a_whole(make_bus: Callable[..., Bus], key_of: Callable[..., str]) -> None:
    """No message of a batch whose frame was torn shows, not even the first ones (B-079)."""
    bus = make_bus(durability="os")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send("before", partition_key=key_of(BAD))
    with bus.sender() as sender:
        batch = [ServiceBusMessage(f"{number} of the batch", partition_key=key_of(BAD)) for number in range(20)]
        batch.append(ServiceBusMessage(LAST, partition_key=key_of(BAD)))
        sender.send_messages(batch)
    bus.stop("crash")
    segment, begin, end = last_frame(bus.path)
    middle = segment.read_bytes().find(b"10 of the batch")
    assert begin < middle < end
    overwrite(segment, begin, segment.read_bytes()[begin:middle])
    bus.open()
    assert bodies(bus.peek()) == ["before"]
