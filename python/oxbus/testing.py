# SPDX-License-Identifier: Apache-2.0
"""Test tools: a clock that moves by hand, and fault injection.

The package provides the pytest fixtures `oxbus_clock`, `oxbus_namespace` and `oxbus_client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._oxbus import ManualClock

if TYPE_CHECKING:
    from oxbus._oxbus import Namespace

__all__ = ["ManualClock", "heal", "inject_fault"]


def inject_fault(namespace: Namespace, partition_id: int | None, fault: str, *, after: int = 0) -> None:
    """Make one partition of a namespace, or the files that belong to no partition, fail until `heal`.

    Args:
        namespace: The namespace.
        partition_id: The partition. None: the catalog and the files of stages and bulk loads, which can have the disk
            faults and ``"enospc"``.
        fault: ``"unavailable"``: the store is out of service. ``"busy"``: the broker is overloaded. ``"enospc"``: the
            partition is full. ``"stall"``: the store hangs, so calls wait until their timeout; with a path its writes
            and syncs hang. Disk faults, which need a namespace with a path: ``"eio-write"``, ``"eio-fsync"`` and
            ``"eio-rename"``: writes, syncs or renames fail. ``"bit-flip"``: the next write silently stores a wrong bit.
            ``"latency:0.05"``: writes and syncs take 50 ms longer.
        after: Number of operations, or disk writes and syncs, that succeed before the fault begins.

    Raises:
        InvalidOperationError: The fault needs a namespace with a path.
        PartitionUnavailableError: The partition is offline.
        ValueError: The fault or the partition does not exist, or `after` is negative.

    Source: docs/behaviour.md section 3.
    """
    if after < 0:
        raise ValueError(f"after cannot be negative: {after}")
    namespace._inject_fault(partition_id, fault, after)


def heal(namespace: Namespace, partition_id: int | None) -> None:
    """End the fault of a partition, or of the files that belong to none.

    A partition whose disk failed is rewritten: acknowledged messages are in it, unacknowledged ones are not.

    Args:
        namespace: The namespace.
        partition_id: The partition. None: the files that belong to no partition.

    Raises:
        PartitionUnavailableError: The partition is offline, or its disk still fails.
        ValueError: The partition does not exist.

    Source: docs/behaviour.md section 3.
    """
    namespace._heal(partition_id)
