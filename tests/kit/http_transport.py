# SPDX-License-Identifier: Apache-2.0
"""The contract tests of administration that also run over HTTP: our client against our server.

The administration client then connects to a server whose namespace is in memory or in a directory. The client for
messages stays in process. `tests/package/test_http_transport.py` fails if an entry of these lists does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STORES = {"http": "memory", "http-durable": "durable"}
"""The message store of each transport."""

FILES = (
    "test_entity",
    "test_forwarding_topics",
    "test_idle_deletion",
    "test_purge",
    "test_resubmit",
    "test_rules",
    "test_sql_filter",
    "test_status",
    "test_topic_entity",
    "test_topics",
)
"""The files about administration. In other files, the administration client only prepares a test."""

LEFT_OUT: dict[str, tuple[str, ...]] = {
    "the administration protocol has no locked and deferred messages, and no counts by partition": (
        "test_entity::test_availability_is_limited_while_a_partition_is_down",
        "test_entity::test_counts_are_sums_over_partitions",
        "test_entity::test_counts_match_the_queue",
        "test_entity::test_counts_of_a_fresh_queue_are_zero",
        "test_idle_deletion::test_uses_of_a_queue",
        "test_status::test_schedules_and_locks_ignore_the_status",
        "test_topic_entity::test_availability_is_limited_while_a_partition_is_down",
        "test_topic_entity::test_runtime_properties_of_a_subscription",
        "test_topic_entity::test_subscriptions_inherit_partitioning",
    ),
    "the administration protocol has no size of all partitions together": (
        "test_entity::test_total_size_is_that_of_all_partitions",
    ),
    "the administration protocol does not purge and resubmit": ("test_purge", "test_resubmit"),
}
"""Reasons for excluding tests over HTTP, with the files or tests."""


def left_out() -> Iterator[str]:
    """Iterate over the excluded entries."""
    for places in LEFT_OUT.values():
        yield from places


def transports_of(place: str, test: str) -> tuple[str, ...]:
    """Return the transports over HTTP of a test.

    Args:
        place: The path of its file in tests/contract, without suffix.
        test: The name of its function.
    """
    names = {place, f"{place}::{test}"}
    return tuple(STORES) if place in FILES and names.isdisjoint(left_out()) else ()
