# SPDX-License-Identifier: Apache-2.0
"""The speed the project wants to reach, as figures of one run."""

from __future__ import annotations

from dataclasses import dataclass

PEEKLOCK = "PeekLock in Python"
LOOP = "xxhash loop"
CEILING = "ceiling (C)"
DROPS_DUPLICATES = "oxbus, duplicates dropped"
WITH_SESSIONS = "oxbus, by session"
BY_TOPIC = "oxbus, one subscription"
HUNDRED = "oxbus, 100 subscriptions"
FEW_SCHEDULED = "oxbus, 10,000 messages"
_WITH_IDS = "send_receive_complete/100B"


@dataclass(frozen=True)
class Target:
    """A wanted figure: a ratio to `peer`, or an absolute rate when there is none."""

    bench_id: str
    text: str
    wanted: float
    peer: str | None = None
    at_least: bool = True
    figure: str = "throughput_msg_per_s"


TARGETS = (
    Target("partition_ids/16-36B/arrow_1m", "hash of an Arrow array / xxhash loop over str", 4.0, LOOP),
    Target("partition_ids/16-36B/arrow_1m", "hash of an Arrow array / Spark per core", 4.0, "Spark, one core"),
    Target("partition_ids/16-36B/arrow_1m", "hash of an Arrow array / ceiling", 0.85, CEILING),
    Target("partition_ids/16-36B/list_1m", "hash of a list / xxhash loop over str", 1.8, LOOP),
    Target("send/100B/batch_100_made_before", "send lists of 100, msg/s", 1.5e6),
    Target("send/100B/batch_100", "send lists of 100, message objects made in the loop, msg/s", 1.5e6),
    Target("send_receive_complete/100B/single", "single cycle 100 B / PeekLock", 3.0, PEEKLOCK),
    Target("send_receive_complete/1KiB/single", "single cycle 1 KiB / PeekLock", 2.0, PEEKLOCK),
    Target("send_receive_complete/100B/single", "single cycle 100 B / ceiling", 0.3, CEILING),
    Target("send_receive_complete/1KiB/single", "single cycle 1 KiB / ceiling", 0.5, CEILING),
    Target("send_receive_complete/1KiB/batch_100", "cycle by 100, 1 KiB / ceiling", 0.5, CEILING),
    Target(f"{_WITH_IDS}/single_with_ids", "single cycle / with duplicate detection", 2.0, DROPS_DUPLICATES, False),
    Target(f"{_WITH_IDS}/batch_100_with_ids", "cycle by 100 / with duplicate detection", 2.0, DROPS_DUPLICATES, False),
    Target(f"{_WITH_IDS}/single_with_session_ids", "single cycle / by session", 2.0, WITH_SESSIONS, False),
    Target(f"{_WITH_IDS}/batch_100_with_session_ids", "cycle by 100 / by session", 2.0, WITH_SESSIONS, False),
    Target(f"{_WITH_IDS}/single_with_subject", "single cycle / by topic", 2.0, BY_TOPIC, False),
    Target(f"{_WITH_IDS}/batch_100_with_subject", "cycle by 100 / by topic", 2.0, BY_TOPIC, False),
    Target(f"{_WITH_IDS}/single_to_subscriptions", "single cycle, 1 / 100 subscriptions", 3.0, HUNDRED, False),
    Target(f"{_WITH_IDS}/batch_100_to_subscriptions", "cycle by 100, 1 / 100 subscriptions", 3.0, HUNDRED, False),
    Target("send/100B/single_10k_rules", "send past 10,000 correlation rules, msg/s", 2e5),
    Target("schedule_receive/100B/batch_100", "a message of 1 M scheduled / of 10,000", 0.8, FEW_SCHEDULED),
    Target("accept_next/1B/100k_sessions", "accept the next of 100,000 sessions, and close, per s", 2e4),
    Target("receive_complete/100B/batch_100", "receive + complete by 100, msg/s", 1.0e6),
    Target("send_arrow/100B/arrow_4096", "Arrow in, msg/s", 5.0e6),
    Target("send_arrow_keyed/100B/arrow_4096", "Arrow in with keys, msg/s", 5.0e6),
    Target("receive_arrow/100B/arrow_4096", "Arrow out, msg/s", 5.0e6),
    Target("bulk_send/1KiB/loopback_16384", "Arrow in over the bulk plane, rows/s", 3.0e5),
    Target("bulk_receive/1KiB/loopback_16384", "Arrow out over the bulk plane, rows/s", 3.0e5),
    Target("spark_bulk_load/1KiB/2tasks", "Spark, bulk load of a directory, rows/s", 6.0e5),
    Target("spark_bulk_drain/1KiB/2tasks", "Spark, bulk drain of a directory, rows/s", 6.0e5),
    Target("spark_write/1KiB/2tasks", "Spark, batch write through the broker, rows/s", 3.0e5),
    Target("spark_read/1KiB/2tasks", "Spark, batch read through the broker, rows/s", 3.0e5),
    Target("spark_stream/1KiB/2tasks", "Spark, stream from queue to queue, exactly once, rows/s", 1.0e5),
    Target("receive_settle_arrow/100B/arrow_4096", "Arrow out and completed, msg/s", 5.0e6),
    Target("wake_up/100B/thread", "wake-up p50 / SimpleQueue", 1.3, "queue.SimpleQueue", False, "latency_us_p50"),
    Target("wake_up/100B/thread", "wake-up p99 / SimpleQueue", 1.3, "queue.SimpleQueue", False, "latency_us_p99"),
    Target("memory/100B/1m", "bytes beyond the body, lists", 64.0, "oxbus, lists of 100", False),
    Target("memory/100B/1m", "bytes beyond the body, Arrow", 64.0, "oxbus, Arrow", False),
)

BEST_PEER = "best durable peer"
_CYCLE = "send_receive_complete/1KiB/durable"
DURABLE_TARGETS = (
    Target("send/1KiB/durable_single", "fsync, single send / disk appends", 1.3, figure="ratio_to_append"),
    Target(f"{_CYCLE}_single", "fsync, single cycle / disk appends", 0.6, figure="ratio_to_append"),
    Target(f"{_CYCLE}_single", "fsync, flushes per message", 2.0, at_least=False, figure="flushes_per_message"),
    Target(f"{_CYCLE}_batch_100", "fsync, cycle by 100 / best peer", 2.0, BEST_PEER),
    Target(f"{_CYCLE}_2+2_batch_100", "fsync, 2 + 2 threads, cycle by 100 / best peer", 5.0, BEST_PEER),
)
"""What is judged at the level `fsync`; a figure of the disk is taken beside each round."""

DURABLE_ALONE_TARGETS = (
    Target(
        "send/100B/durable_single_plain",
        "fsync, single send to a queue without partitions / disk appends",
        1.3,
        figure="ratio_to_append",
    ),
    Target("send/100B/durable_64_threads_single", "fsync, 64 senders / one sender", 8.0, figure="ratio_to_one"),
    Target(
        "send/300B/durable_4_threads_batch_100",
        "fsync, 4 threads by 100, 300 B / 1 M msg/s or half the disk's bandwidth",
        1.0,
        figure="ratio_to_wanted",
    ),
    Target(
        "reopen/100B/killed", "opening after a kill, 100 B, journal bytes/s per core", 400e6, figure="bytes_per_core_s"
    ),
    Target(
        "reopen/1KiB/killed", "opening after a kill, 1 KiB, journal bytes/s per core", 400e6, figure="bytes_per_core_s"
    ),
    Target("reopen/100B/killed_5m", "opening with 5 M live messages, s", 10.0, at_least=False, figure="seconds"),
    Target("churn/1KiB/20_times", "disk after churn of 20 x / bound", 1.0, at_least=False, figure="ratio_to_bound"),
)
"""What oxbus is measured at without peers."""
