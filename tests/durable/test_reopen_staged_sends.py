# SPDX-License-Identifier: Apache-2.0
"""Staged sends survive a reopen: stages wait, committed ones are published once, and unfinished ones are removed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import oxbus
import oxbus.management
import pytest
from durable_bus import WAYS, bodies
from faulty_bus import BAD, KEYS
from oxbus.exceptions import InvalidOperationError, ServiceBusError, StoreCorruptError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_bus import Bus
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")

TEXTS = [str(number) for number in range(200)]
HERE = next(name for name in map(str, range(100)) if oxbus.partition_id(name) != BAD)
"""A sink whose home is a working partition."""


def rows(texts: list[str] = TEXTS, *, keyed: bool = True) -> Any:
    """A table with a row for each text, spread over the partitions."""
    columns = {"body": [text.encode() for text in texts]}
    return pa.table(columns | ({"partition_key": texts} if keyed else {}))


def stage_files(bus: Bus) -> list[Path]:
    """The files of the stages."""
    return sorted((bus.path / "stages").glob("*"))


@pytest.mark.parametrize("way", WAYS)
def test_stage_waits_for_its_commit(queue: Bus, way: str) -> None:
    """A finished stage exists after the open, and staging again replaces it."""
    queue.namespace._stages().stage("q", "one", rows())
    queue.reopen(way)
    (stage,) = queue.admin.list_stages()
    assert (stage.stage_id, stage.entity, stage.status, stage.row_count) == ("one", "q", "ready", len(TEXTS))
    queue.namespace._stages().stage("q", "one", rows())
    assert len(list(queue.admin.list_stages())) == 1
    assert bodies(queue.peek()) == []
    assert queue.namespace._stages().commit_stages("sink", "query", 0, ["one"])
    assert sorted(bodies(queue.peek())) == sorted(TEXTS)


@pytest.mark.parametrize("way", WAYS)
def test_committed_batch_stays_committed(queue: Bus, way: str) -> None:
    """Its rows exist once, its stages are removed, and it is recorded as committed; also after two more opens."""
    stages = queue.namespace._stages()
    stages.stage("q", "one", rows())
    assert stages.commit_stages("sink", "query", 3, ["one"])
    for attempt in range(2):
        queue.reopen(way)
        stages = queue.namespace._stages()
        stages.stage("q", f"again {attempt}", rows())
        assert not stages.commit_stages("sink", "query", 3, [f"again {attempt}"])
        with pytest.raises(InvalidOperationError, match="another sink id"):
            stages.commit_stages("sink", "other", 3, [])
        assert sorted(bodies(queue.peek())) == sorted(TEXTS)
    queue.close()
    assert stage_files(queue) == []


def test_unfinished_stage_is_removed(queue: Bus) -> None:
    """The open removes the files of a task that died."""
    queue.namespace._stages().stage("q", "one", rows())
    (file,) = stage_files(queue)
    begun = file.read_bytes()[:100]
    queue.stop("crash")
    unfinished = queue.path / "stages" / "0123456789abcdef.tmp"
    unfinished.write_bytes(begun)
    queue.open()
    assert not unfinished.exists()
    assert [stage.stage_id for stage in queue.admin.list_stages()] == ["one"]


@pytest.mark.parametrize("way", WAYS)
def test_orphan_expires_by_the_clock_of_the_namespace(queue: Bus, clock: ManualClock, way: str) -> None:
    """An orphan expires one day after its begin, also if the namespace was opened since."""
    queue.namespace._stages().stage("q", "one", rows())
    clock.advance(86_000)
    queue.reopen(way)
    assert len(list(queue.admin.list_stages())) == 1
    clock.advance(400)
    assert list(queue.admin.list_stages()) == []
    assert stage_files(queue) == []


@pytest.mark.parametrize("damage", ["flipped", "torn", "emptied"])
@pytest.mark.parametrize("when", ["open", "closed"])
def test_damaged_stage_is_named_and_nothing_is_published(queue: Bus, damage: str, when: str) -> None:
    """The batch can be committed with other stages, and the damaged one can be discarded."""
    stages = queue.namespace._stages()
    stages.stage("q", "whole", rows(["a"]))
    (whole,) = stage_files(queue)
    stages.stage("q", "broken", rows())
    (file,) = [path for path in stage_files(queue) if path != whole]
    if when == "closed":
        queue.stop("crash")
        file = queue.path / "stages" / file.name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    left = {"flipped": content, "torn": content[: len(content) // 2], "emptied": b""}
    file.write_bytes(bytes(left[damage]))
    if when == "closed":
        queue.open()
    stages = queue.namespace._stages()
    named = "broken" if (damage, when) != ("emptied", "closed") else file.stem
    with pytest.raises(StoreCorruptError, match=f"`{named}`"):
        stages.commit_stages("sink", "query", 0, ["whole", named])
    assert bodies(queue.peek()) == []
    assert queue.admin.discard_stage(named)
    assert not file.exists()
    assert stages.commit_stages("sink", "query", 0, ["whole"])
    assert bodies(queue.peek()) == ["a"]


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync"])
@pytest.mark.parametrize("after", range(4))
def test_partition_that_fails_during_a_commit(wide_bus: Bus, fault: str, after: int) -> None:
    """The others have their rows, and the rest follows once it is healed: nothing is lost or duplicated."""
    stages = wide_bus.namespace._stages()
    stages.stage("q", "one", rows())
    inject_fault(wide_bus.namespace, BAD, fault, after=after)
    with contextlib.suppress(ServiceBusError):
        stages.commit_stages(HERE, "query", 0, ["one"])
    heal(wide_bus.namespace, BAD)
    assert not stages.commit_stages(HERE, "query", 0, [])
    assert sorted(bodies(wide_bus.peek())) == sorted(TEXTS)
    wide_bus.reopen("crash")
    assert sorted(bodies(wide_bus.peek())) == sorted(TEXTS)


@pytest.mark.parametrize("way", ["close", "crash"])
def test_partition_that_failed_during_a_commit_gets_its_rows_at_the_next_open(wide_bus: Bus, way: str) -> None:
    """A second commit is not needed."""
    stages = wide_bus.namespace._stages()
    stages.stage("q", "one", rows())
    inject_fault(wide_bus.namespace, BAD, "eio-write")
    with pytest.raises(ServiceBusError, match="is committed"):
        stages.commit_stages(HERE, "query", 0, ["one"])
    stages.abort_stages(HERE, "query", 0, ["one"])
    assert [stage.status for stage in wide_bus.admin.list_stages()] == ["committed"]
    with pytest.raises(InvalidOperationError):
        wide_bus.admin.discard_stage("one")
    with pytest.raises(ServiceBusError):
        stages.commit_stages(HERE, "query", 1, [])
    found = {message.partition_id for message in wide_bus.peek()}
    assert found == set(range(16)) - {BAD}
    wide_bus.reopen(way)
    assert sorted(bodies(wide_bus.peek())) == sorted(TEXTS)
    assert wide_bus.namespace._stages().commit_stages(HERE, "query", 1, [])


@pytest.mark.parametrize("way", ["close", "crash"])
@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync"])
def test_home_of_the_sink_that_fails_decides_for_all(wide_bus: Bus, fault: str, way: str) -> None:
    """The batch is published as a whole or not at all, and a second commit completes it."""
    sink = next(name for name in map(str, range(100)) if oxbus.partition_id(name) == BAD)
    stages = wide_bus.namespace._stages()
    stages.stage("q", "one", rows())
    inject_fault(wide_bus.namespace, BAD, fault)
    with pytest.raises(ServiceBusError):
        stages.commit_stages(sink, "query", 0, ["one"])
    assert bodies(wide_bus.peek()) == []
    # It is unknown whether the batch was decided, so its stages must stay.
    stages.abort_stages(sink, "query", 0, ["one"])
    wide_bus.reopen(way)
    published = sorted(bodies(wide_bus.peek()))
    assert published in ([], sorted(TEXTS))
    stages = wide_bus.namespace._stages()
    stages.stage("q", "two", rows())
    assert stages.commit_stages(sink, "query", 0, ["two"]) == (published == [])
    assert sorted(bodies(wide_bus.peek())) == sorted(TEXTS)


def test_owner_of_some_partitions_has_no_stages(wide_bus: Bus) -> None:
    """An owner of some partitions has no stages, and does not remove those of other owners."""
    wide_bus.namespace._stages().stage("q", "one", rows())
    wide_bus.close()
    wide_bus.open(partitions_owned={BAD})
    stages = wide_bus.namespace._stages()
    calls: list[Callable[[], Any]] = [
        lambda: stages.stage("q", "two", rows([KEYS[BAD]])),
        lambda: stages.commit_stages("sink", "query", 0, ["one"]),
        lambda: stages.discard_stage("one"),
    ]
    for call in calls:
        with pytest.raises(InvalidOperationError, match="partitions_owned"):
            call()
    wide_bus.close()
    wide_bus.open()
    assert [stage.stage_id for stage in wide_bus.admin.list_stages()] == ["one"]


def test_salvage_reports_rows_that_were_not_published(wide_bus: Bus, tmp_path: Path, clock: ManualClock) -> None:
    """The copy knows the committed batches, and reports that rows of an unfinished commit were not copied."""
    stages = wide_bus.namespace._stages()
    stages.stage("q", "one", rows())
    inject_fault(wide_bus.namespace, BAD, "eio-write")
    with pytest.raises(ServiceBusError):
        stages.commit_stages(HERE, "query", 4, ["one"])
    wide_bus.stop("crash")
    report = oxbus._oxbus._salvage(wide_bus.path, tmp_path / "copy")
    (losses,) = [part["losses"] for part in report if any("batch 4" in loss for loss in part["losses"])]
    assert any(HERE in loss for loss in losses)
    with oxbus.Namespace(tmp_path / "copy", clock=clock) as namespace:
        assert not namespace._stages().commit_stages(HERE, "query", 4, [])


def test_killed_process_leaves_complete_batches(
    start_python: Callable[..., Any], until_printed: Callable[..., None], tmp_path: Path
) -> None:
    """At any moment of the kill each batch is complete or absent, and a repeat of all commits adds the missing ones."""
    path = tmp_path / "bus"
    with oxbus.Namespace(path, partitions=4, durability="os") as namespace:
        oxbus.management.ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    process = start_python(
        """
        import pyarrow as pa
        stages = Namespace(sys.argv[1], durability="os")._stages()
        for batch in range(100_000):
            texts = [f"{batch}/{row}".encode() for row in range(100)]
            stages.stage("q", f"{batch}/child", pa.table({"body": texts}))
            assert stages.commit_stages("sink", "query", batch, [f"{batch}/child"])
            print(batch, flush=True)
        """,
        path,
    )
    until_printed(process, "5")
    process.kill()
    process.wait()
    with oxbus.Namespace(path, durability="os") as namespace, oxbus.ServiceBusClient(namespace) as client:
        stages = namespace._stages()
        batch, is_new = 0, False
        while not is_new:
            stages.stage("q", f"{batch}/after", rows([f"{batch}/{row}" for row in range(100)], keyed=False))
            is_new = stages.commit_stages("sink", "query", batch, [f"{batch}/after"])
            batch += 1
        assert batch > 6
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        found = sorted(str(message) for message in receiver)
    assert found == sorted(f"{number}/{row}" for number in range(batch) for row in range(100))
