# SPDX-License-Identifier: Apache-2.0
"""The disk fails under the files of staged sends: an error reports it, nothing is half sent and nothing is lost."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import bodies
from oxbus import Namespace
from oxbus.bulk import BulkClient
from oxbus.exceptions import InvalidOperationError, ServiceBusError, ServiceBusQuotaExceededError
from oxbus.server import serve
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_bus import Bus

pa = pytest.importorskip("pyarrow")

ROWS = 40
BODY_BYTES = 100_000
"""Large enough for several writes of one stage."""

FAULTS = ("eio-write", "eio-fsync", "eio-rename", "enospc")
CALLS_MAX = 40
"""More disk calls than writing one stage makes."""


@pytest.fixture
def wide(make_bus: Callable[..., Bus]) -> Bus:
    """A namespace that syncs what it acknowledges, with a partitioned queue `q`."""
    bus = make_bus(durability="fsync")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    return bus


def rows(first: int = 0) -> Any:
    """Numbered messages, spread over all partitions."""
    numbers = range(first, first + ROWS)
    return pa.table({"body": [f"{it:04}".encode() + bytes(BODY_BYTES) for it in numbers]})


def numbers(bus: Bus) -> list[int]:
    """The numbers of all messages of the queue, sorted."""
    return sorted(int(body[:4]) for body in bodies(bus.peek()))


def stage_files(bus: Bus) -> list[Path]:
    """The files of the stages."""
    return sorted((bus.path / "stages").glob("*"))


def in_process(namespace: Namespace, stage_id: str, table: Any) -> int:
    """Stage in the process of the namespace."""
    return namespace._stages().stage("q", stage_id, table)


def through_bulk_client(namespace: Namespace, stage_id: str, table: Any) -> int:
    """Stage as a Spark executor does."""
    with serve(namespace) as server, BulkClient(server.connection_string) as client:
        return client.stage("q", stage_id, table)


@pytest.mark.parametrize("stage", [in_process, through_bulk_client])
@pytest.mark.parametrize("fault", FAULTS)
def test_stage_that_cannot_be_written(wide: Bus, fault: str, stage: Callable[[Namespace, str, Any], int]) -> None:
    """If any disk call fails, the task gets an error, no file stays, and the id can be used again."""
    stages = wide.namespace._stages()
    stages.stage("q", "other", rows(0))
    failures = 0
    for after in range(CALLS_MAX):
        inject_fault(wide.namespace, None, fault, after=after)
        error: Exception | None = None
        try:
            stage(wide.namespace, "broken", rows(ROWS))
        except (ServiceBusError, OSError) as raised:
            error = raised
        heal(wide.namespace, None)
        if error is None:
            break
        failures += 1
        assert "check the disk and stage the rows again" in str(error)
        assert isinstance(error, ServiceBusQuotaExceededError) == (fault == "enospc")
        assert [it.stage_id for it in wide.admin.list_stages()] == ["other"]
        assert len(stage_files(wide)) == 1
        assert numbers(wide) == []
    assert 0 < failures < CALLS_MAX, "the fault occurred, and finally no call was left to fail"
    assert stages.commit_stages("sink", "query", 0, ["other", "broken"])
    wide.reopen("crash")
    assert numbers(wide) == list(range(2 * ROWS))


@pytest.mark.parametrize("fault", FAULTS)
def test_commit_beside_a_disk_that_fails(wide: Bus, fault: str) -> None:
    """A commit only reads and removes files of stages, so the batch is published once, also after a crash."""
    stages = wide.namespace._stages()
    stages.stage("q", "one", rows())
    inject_fault(wide.namespace, None, fault)
    assert stages.commit_stages("sink", "query", 0, ["one"])
    assert numbers(wide) == list(range(ROWS))
    wide.reopen("crash")
    assert numbers(wide) == list(range(ROWS))
    assert not wide.namespace._stages().commit_stages("sink", "query", 0, [])
    assert list(wide.admin.list_stages()) == []


def test_bit_that_flips_on_its_way_to_a_stage(wide: Bus) -> None:
    """The commit detects it: it names the stage, and nothing of the batch shows; without that stage it succeeds."""
    stages = wide.namespace._stages()
    stages.stage("q", "whole", rows(0))
    inject_fault(wide.namespace, None, "bit-flip")
    stages.stage("q", "flipped", rows(ROWS))
    with pytest.raises(ServiceBusError, match="`flipped`"):
        stages.commit_stages("sink", "query", 0, ["whole", "flipped"])
    assert numbers(wide) == []
    assert stages.commit_stages("sink", "query", 0, ["whole"])
    assert numbers(wide) == list(range(ROWS))


def test_disk_that_hangs_under_a_stage(wide: Bus) -> None:
    """Other work of the namespace continues; the stage is complete once the disk answers."""
    inject_fault(wide.namespace, None, "stall")
    staged: list[int] = []
    staging = threading.Thread(target=lambda: staged.append(in_process(wide.namespace, "one", rows())))
    staging.start()
    wide.send("other")
    assert bodies(wide.peek()) == ["other"]
    assert staged == []
    heal(wide.namespace, None)
    staging.join(60)
    assert staged == [ROWS]


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync", "enospc"])
def test_catalog_that_cannot_be_written(wide: Bus, fault: str) -> None:
    """A queue is created or not: the caller learns which, and the answer holds after a crash."""
    inject_fault(wide.namespace, None, fault)
    with pytest.raises((ServiceBusError, OSError), match="check its disk and try again"):
        wide.admin.create_queue("other")
    names_before = [queue.name for queue in wide.admin.list_queues()]
    heal(wide.namespace, None)
    wide.reopen("crash")
    assert [queue.name for queue in wide.admin.list_queues()] == names_before
    with contextlib.suppress(ServiceBusError):
        wide.admin.create_queue("other")
    assert {queue.name for queue in wide.admin.list_queues()} == {"q", "other"}


def test_only_faults_of_a_disk(wide: Bus) -> None:
    """Files of stages belong to no partition and cannot be out of service; a namespace in memory has no files."""
    for fault in ("unavailable", "busy"):
        with pytest.raises(ValueError, match="this fault needs a partition"):
            inject_fault(wide.namespace, None, fault)
    with pytest.raises(ValueError, match="unknown fault"):
        inject_fault(wide.namespace, None, "eio")
    with Namespace() as memory:
        with pytest.raises(InvalidOperationError, match="open it with a path"):
            inject_fault(memory, None, "eio-write")
        heal(memory, None)
