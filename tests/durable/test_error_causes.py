# SPDX-License-Identifier: Apache-2.0
"""The cause of an error is its origin: a system error with its number, or the damage that was found."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import pytest
from faulty_bus import BAD, KEYS, heal_partition
from oxbus import Namespace
from oxbus.bulk import BulkClient
from oxbus.exceptions import PartitionUnavailableError, ServiceBusConnectionError
from oxbus.testing import inject_fault
from signatures import connection_string
from stored_files import flip_bit, places_of, shard

if TYPE_CHECKING:
    from pathlib import Path

    from durable_bus import Bus


def number_of(error: BaseException) -> int | None:
    """The system's error number in the cause of an error; the cause must be a system error."""
    cause = error.__cause__
    assert isinstance(cause, OSError)
    assert str(cause.strerror) in str(error)
    return cause.errno


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync"])
def test_failed_write_is_the_cause(wide_bus: Bus, fault: str) -> None:
    """The failed send has the disk's error as its cause, and so have the sends rejected after it."""
    inject_fault(wide_bus.namespace, BAD, fault)
    for _ in range(2):
        with pytest.raises(PartitionUnavailableError) as refusal:
            wide_bus.send("refused", partition_key=KEYS[BAD])
        assert number_of(refusal.value) == errno.EIO
    heal_partition(wide_bus)
    wide_bus.send("accepted", partition_key=KEYS[BAD])


def test_failed_write_of_the_catalog_is_the_cause(wide_bus: Bus) -> None:
    """The `OSError` that the call raises has no number; its cause, the disk's error, has one."""
    inject_fault(wide_bus.namespace, None, "eio-write")
    with pytest.raises(OSError, match="catalog") as refusal:
        wide_bus.admin.create_queue("another")
    assert refusal.value.errno is None
    assert number_of(refusal.value) == errno.EIO


def test_failed_creation_of_a_path_is_the_cause(tmp_path: Path) -> None:
    """The name of the directory is too long."""
    path = tmp_path / ("n" * 300)
    with pytest.raises(OSError, match=path.name) as refusal:
        Namespace(str(path))
    assert number_of(refusal.value) == errno.ENAMETOOLONG


def test_damage_is_the_cause(wide_bus: Bus) -> None:
    """The error of a partition with a damaged file has the damage as its cause."""
    first = b"the first message of the bad partition"
    wide_bus.send(first.decode(), "the second", partition_key=KEYS[BAD])
    wide_bus.stop("crash")
    for file, position in places_of(shard(wide_bus.path, BAD), first):
        flip_bit(file, position)
    wide_bus.open()
    with pytest.raises(PartitionUnavailableError) as refusal:
        wide_bus.send("refused", partition_key=KEYS[BAD])
    cause = refusal.value.__cause__
    assert cause is not None
    assert not isinstance(cause, OSError)
    assert str(cause) in str(refusal.value)
    assert f"shard-{BAD:02}" in str(cause)


def test_refused_connection_is_the_cause() -> None:
    """No server listens at the address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with BulkClient(connection_string(port)) as client, pytest.raises(ServiceBusConnectionError) as refusal:
        client.stages()
    assert number_of(refusal.value) == errno.ECONNREFUSED
