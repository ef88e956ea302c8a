# SPDX-License-Identifier: Apache-2.0
"""The disk fails during a bulk load: the task gets an error, and a retry stores each row once."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus._oxbus import _BulkLoad
from oxbus.exceptions import ServiceBusError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pa = pytest.importorskip("pyarrow")

KEYS = ["key-0", "key-1", "key-2"]
PARTITIONS = {oxbus.partition_id(key) for key in KEYS}
ROWS = 60
BODY_BYTES = 60_000
"""Large enough for several writes of one file."""

CALLS_MAX = 60
"""More disk calls than a load makes."""

NUMBERS = list(range(ROWS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A namespace with a partitioned queue, closed."""
    with Namespace(tmp_path / "bus", durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    return tmp_path / "bus"


def begin(path: Path) -> _BulkLoad:
    """Begin the load of a task."""
    return _BulkLoad(path, "q", "job/0", durability="fsync")


def begin_fault(loading: _BulkLoad, fault: str, *, after: int = 0) -> None:
    """Make the disk of a load fail, as for a namespace."""
    inject_fault(cast("Namespace", loading), None, fault, after=after)


def run(loading: _BulkLoad) -> list[tuple[int, int, bool]]:
    """Add all rows and attach them."""
    for first in range(0, ROWS, 10):
        numbers = range(first, first + 10)
        bodies = [f"{it:04}".encode() + bytes(BODY_BYTES) for it in numbers]
        loading.push(pa.table({"body": bodies, "partition_key": [KEYS[it % len(KEYS)] for it in numbers]}))
    return loading.finish(0)


def numbers(path: Path) -> list[int]:
    """The numbers of all messages in the queue, sorted."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        assert namespace.recovery
        assert namespace.recovery.waiting_loads == []
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        return sorted(int(str(message)[:4]) for message in receiver)


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync", "eio-rename", "enospc"])
def test_load_that_cannot_be_written(path: Path, fault: str) -> None:
    """If any disk call fails, the task gets an error, and the next attempt of that name stores each row once."""
    for after in range(CALLS_MAX):
        loading = begin(path)
        begin_fault(loading, fault, after=after)
        try:
            loaded = run(loading)
        except (ServiceBusError, OSError) as error:
            reported = str(error)
        else:
            break
        assert "check the disk" in reported
        assert str(path) in reported
        assert [*path.glob("shard-*/attached/*.tmp")] == [], "unattached files are gone"
    else:
        pytest.fail("the load never finished")
    assert after > 0, "the fault occurred"
    assert {partition for partition, _, _ in loaded} == PARTITIONS
    assert numbers(path) == NUMBERS
    assert [attached for _, _, attached in run(begin(path))] == [False] * len(PARTITIONS)
    assert numbers(path) == []


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync", "eio-rename", "enospc"])
def test_failed_load_has_no_effect(path: Path, fault: str) -> None:
    """An open between two attempts finds complete partitions of the task or nothing."""
    after = 0
    while True:
        loading = begin(path)
        begin_fault(loading, fault, after=after)
        try:
            run(loading)
            break
        except (ServiceBusError, OSError):
            after += 1
        found = numbers(path)
        whole = [it for it in NUMBERS if it % len(KEYS) in {number % len(KEYS) for number in found}]
        assert found == whole
        if found:
            break
    assert after > 0


def test_bit_that_flips_on_its_way_to_a_load(path: Path) -> None:
    """The process that takes the rows over detects it, names the file, and shows none of its rows."""
    loading = begin(path)
    begin_fault(loading, "bit-flip")
    run(loading)
    with Namespace(path) as namespace:
        assert namespace.recovery
        (reported,) = namespace.recovery.waiting_loads
        counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties("q")
    assert "damaged" in reported
    assert counts.total_message_count in {ROWS - ROWS // len(KEYS), ROWS - 2 * ROWS // len(KEYS)}


def test_full_disk_while_rows_are_taken_over(path: Path, run_python: Callable[..., str]) -> None:
    """The namespace opens without the rows and reports it; with enough space, another open has each once."""
    assert all(attached for _, _, attached in run(begin(path)))
    taking = """
        import logging, resource, signal
        # Log lines would mix with the output.
        logging.disable()
        limit = int(sys.argv[2])
        # As on a full disk, a write that extends a file fails.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        namespace = Namespace(sys.argv[1])
        print(len(namespace.recovery.waiting_loads))
        os._exit(0)
    """
    assert int(run_python(taking, path, BODY_BYTES)) > 0
    assert numbers(path) == NUMBERS
