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


def inject_fault(namespace: Namespace, partition_id: int, fault: str, *, after: int = 0) -> None:
    """Make one partition of a namespace fail until `heal`.

    Args:
        namespace: The namespace.
        partition_id: The partition.
        fault: ``"unavailable"``: the store is out of service. ``"busy"``: the broker asks for a pause.
            ``"enospc"``: the partition is full. Faults of files and of time (``"eio-write"``, ``"eio-fsync"``,
            ``"bit-flip"``, ``"stall"``, ``"latency:0.05"``) need a durable store.
        after: Operations that still succeed before the fault begins.

    Raises:
        InvalidOperationError: The fault needs a durable store.
        ValueError: There is no such fault or partition.

    Source: docs/behaviour.md section 3.
    """
    namespace._inject_fault(partition_id, fault, after)


def heal(namespace: Namespace, partition_id: int) -> None:
    """End the fault of a partition; it takes part in everything again.

    Raises:
        ValueError: There is no such partition.
    """
    namespace._heal(partition_id)
