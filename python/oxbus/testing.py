# SPDX-License-Identifier: Apache-2.0
"""Tools for tests: a clock that moves by hand, and faults on request.

The pytest fixtures `oxbus_clock`, `oxbus_namespace` and `oxbus_client` come with the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._oxbus import ManualClock

if TYPE_CHECKING:
    from oxbus._oxbus import Namespace

__all__ = ["ManualClock", "heal", "inject_fault"]


def inject_fault(namespace: Namespace, partition_id: int | None, fault: str, *, after: int = 0) -> None:
    """Make one partition of a namespace, or the files that are of no partition, fail until `heal`.

    Args:
        namespace: The namespace.
        partition_id: The partition; None: the catalog, and the files of stages and of bulk loads, which can have the
            faults of the disk and ``"enospc"``.
        fault: ``"unavailable"``: the store is out of service. ``"busy"``: the broker asks for a pause.
            ``"enospc"``: the partition is full. ``"stall"``: the store hangs, so calls wait until they leave at their
            timeout; with a path its writes and syncs do. Faults of the disk, which need a namespace with a path:
            ``"eio-write"``, ``"eio-fsync"`` and ``"eio-rename"``: writes, syncs or renames fail. ``"bit-flip"``: the
            next write stores a bit wrong and says nothing. ``"latency:0.05"``: writes and syncs take 50 ms longer.
        after: Operations, or writes and syncs of the disk, that still succeed before the fault begins.

    Raises:
        InvalidOperationError: The fault needs a namespace with a path.
        PartitionUnavailableError: The partition is offline.
        ValueError: There is no such fault or partition.

    Source: docs/behaviour.md section 3.
    """
    if after < 0:
        raise ValueError(f"after cannot be negative: {after}")
    namespace._inject_fault(partition_id, fault, after)


def heal(namespace: Namespace, partition_id: int | None) -> None:
    """End the fault of a partition, or of the files that are of none; it takes part in everything again.

    A partition whose disk failed is written anew: what was acknowledged is there, what was not is gone.

    Raises:
        PartitionUnavailableError: The partition is offline, or its disk still fails.
        ValueError: There is no such partition.
    """
    namespace._heal(partition_id)
