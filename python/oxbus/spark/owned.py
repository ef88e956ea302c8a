# SPDX-License-Identifier: Apache-2.0
"""A namespace in a directory, opened by a task for as long as it needs one of its partitions."""

from __future__ import annotations

import contextlib
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import oxbus
from oxbus.exceptions import InvalidOperationError, NamespaceInUseError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Iterator

_CATALOG = "catalog"
"""The file that every namespace has (docs/format.md)."""

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5


@contextlib.contextmanager
def owned_partition(
    path: str, partition: int, wait_time: float, durability: Literal["fsync", "os"] | None = None
) -> Iterator[oxbus.Namespace]:
    """Open a namespace with one partition, once nobody else has that.

    Raises:
        NamespaceInUseError: Another process has had the partition for `wait_time` seconds.
    """
    deadline = time.monotonic() + wait_time
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            namespace = oxbus.Namespace(path, partitions_owned={partition}, durability=durability)
            break
        except NamespaceInUseError:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    try:
        yield namespace
    finally:
        # A snapshot of all that is there, for each task that adds a little, would cost more than the rows do.
        namespace._close_as_it_is()


def partitions_of(path: str, queue: str, wait_time: float) -> int:
    """Return how many partitions a queue has.

    Raises:
        FileNotFoundError: The directory is no namespace; tasks make none.
        MessagingEntityNotFoundError: The namespace has no such queue.
        NamespaceInUseError: Another process has had all its partitions for `wait_time` seconds.
        InvalidOperationError: The queue has no partitions.
    """
    if not Path(path, _CATALOG).exists():
        raise FileNotFoundError(f"the directory is no namespace; create it with oxbus.Namespace first: `{path}`")
    deadline = time.monotonic() + wait_time
    while True:
        in_use: NamespaceInUseError | None = None
        # Any partition will do.
        for partition in itertools.count():
            try:
                with owned_partition(path, partition, 0) as namespace:
                    return _partitions_in(namespace, queue)
            except NamespaceInUseError as error:
                in_use = in_use or error
            except ValueError:
                if partition == 0:
                    raise
                break  # there are no more
        if in_use is not None and time.monotonic() > deadline:
            raise in_use
        time.sleep(_FIRST_PAUSE_SECONDS)


def _partitions_in(namespace: oxbus.Namespace, queue: str) -> int:
    if ServiceBusAdministrationClient(namespace).get_queue(queue).enable_partitioning:
        return namespace.partitions
    raise InvalidOperationError(
        "the queue has no partitions, so only one task could have it; create it with enable_partitioning=True: "
        f"`{queue}`"
    )
