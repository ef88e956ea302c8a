# SPDX-License-Identifier: Apache-2.0
"""The speed the project wants to reach, as figures of one run; what follows once a target is met is its moonshot.

Whatever hands out messages is judged with their bodies read (`bodies.py`); no target is of a case that leaves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap

OURS = "oxbus"
ARROW = "oxbus, Arrow"
TWO_THREADS = "oxbus, two threads"
PEEKLOCK = "PeekLock in Python"
LOOP = "xxhash loop"
CEILING = "ceiling (C)"
CEILING_BATCH = "ceiling (C), by 100"
SIMPLE_QUEUE = "queue.SimpleQueue"
SPARK = "Spark, one core"
DROPS_DUPLICATES = "oxbus, duplicates dropped"
WITH_SESSIONS = "oxbus, by session"
BY_TOPIC = "oxbus, one subscription"
HUNDRED = "oxbus, 100 subscriptions"
FEW_SCHEDULED = "oxbus, 10,000 messages"
SPARK_EXPRESSION = "Spark's expression"
BEST_PEER = "best durable peer"
BARE_WRITES = "the disk, bare writes"
BEANSTALKD = "beanstalkd"
REDIS = "Redis Streams"
ECHO = "echo (C), 2 round trips"
ECHO_ASKED = "echo (C), 3 round trips"
_CYCLE = "send_receive_complete"
_WITH_IDS = f"{_CYCLE}/100B"
_RATE = "throughput_msg_per_s"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A wanted figure: a ratio to `peer`, or an absolute figure when there is none."""

    bench_id: str
    text: str
    wanted: float
    peer: str | None = None
    moonshot: float | None = None
    """What is wanted once `wanted` is met."""
    at_least: bool = True
    figure: str = _RATE
    contender: str | None = None
    """Whose figure it is; None: `oxbus`."""

    def met(self, found: float) -> bool:
        """Whether `found` is what was wanted."""
        return found >= self.wanted if self.at_least else found <= self.wanted

    def moonshot_met(self, found: float) -> bool | None:
        """Whether `found` is even the moonshot; None when there is none."""
        if self.moonshot is None:
            return None
        return found >= self.moonshot if self.at_least else found <= self.moonshot

    def verdict(self, found: float) -> str:
        """One line for the end of a run."""
        sign = ">=" if self.at_least else "<="
        line = (
            f"{'met   ' if self.met(found) else 'MISSED'} {self.text}: {found:,.3g} (wanted {sign} {self.wanted:,.3g}"
        )
        if self.met(found) and self.moonshot is not None:
            line += f"; moonshot {sign} {self.moonshot:,.3g} {'met' if self.moonshot_met(found) else 'next'}"
        return line + ")"


def _rate(bench_id: str, text: str, wanted: float, moonshot: float | None = None) -> Target:
    return Target(bench_id=bench_id, text=text, wanted=wanted, moonshot=moonshot)


def _over(peer: str, bench_id: str, text: str, wanted: float, moonshot: float | None = None) -> Target:
    return Target(bench_id=bench_id, text=text, wanted=wanted, moonshot=moonshot, peer=peer)


def _at_most(peer: str, bench_id: str, text: str, wanted: float) -> Target:
    """How many times dearer something may be than the plain way; `peer` is the dearer one."""
    return Target(bench_id=bench_id, text=text, wanted=wanted, peer=peer, at_least=False)


def _alone(
    bench_id: str, text: str, wanted: float, figure: str, moonshot: float | None = None, *, at_least: bool = True
) -> Target:
    return Target(bench_id=bench_id, text=text, wanted=wanted, figure=figure, moonshot=moonshot, at_least=at_least)


def _alone_at_most(bench_id: str, text: str, wanted: float, figure: str) -> Target:
    return _alone(bench_id, text, wanted, figure, at_least=False)


_TWO_BY_TWO = f"{_CYCLE}/1KiB/2+2_batch_100"
_HASH, _HASH_LIST = "partition_ids/16-36B/arrow_1m", "partition_ids/16-36B/list_1m"
TARGETS = (
    _over(CEILING, _HASH, "partition_ids of an Arrow array / ceiling", 0.85),
    _over(LOOP, _HASH, "partition_ids of an Arrow array / Python loop over xxhash", 4.0),
    _over(SPARK, _HASH, "partition_ids of an Arrow array / Spark on one core", 4.0),
    Target(
        bench_id=_HASH,
        text="moonshot: partition_ids of an Arrow array, two threads / one",
        wanted=1.7,
        peer=OURS,
        contender=TWO_THREADS,
    ),
    _over(LOOP, _HASH_LIST, "partition_ids of a list / Python loop over xxhash", 1.8),
    _over(CEILING, _HASH_LIST, "moonshot: partition_ids of a list / ceiling", 0.8),
    _over(PEEKLOCK, f"{_CYCLE}/100B/single", "single cycle, 100 B / hand-written PeekLock", 3.0),
    _over(CEILING, f"{_CYCLE}/100B/single", "single cycle, 100 B / ceiling", 0.35, 0.5),
    _over(PEEKLOCK, f"{_CYCLE}/1KiB/single", "single cycle, 1 KiB / hand-written PeekLock", 2.2),
    _over(CEILING, f"{_CYCLE}/1KiB/single", "single cycle, 1 KiB / ceiling", 0.6),
    _over(PEEKLOCK, f"{_CYCLE}/1KiB/batch_100", "cycle by 100, 1 KiB / hand-written PeekLock", 1.1),
    _over(CEILING, f"{_CYCLE}/1KiB/batch_100", "cycle by 100, 1 KiB / ceiling", 0.8),
    _over(PEEKLOCK, f"{_CYCLE}/1KiB/batch_1000", "cycle by 1,000, 1 KiB / hand-written PeekLock", 1.0),
    _over(CEILING, f"{_CYCLE}/1KiB/batch_1000", "cycle by 1,000, 1 KiB / ceiling", 0.8, 0.95),
    _over(CEILING, f"{_CYCLE}/10KiB/batch_100", "cycle by 100, 10 KiB / ceiling", 0.8),
    _over(CEILING, f"{_CYCLE}/1KiB/2+2_single", "2 + 2 threads, single cycle, 1 KiB / ceiling", 0.4, 1.0),
    _over(PEEKLOCK, _TWO_BY_TWO, "2 + 2 threads, cycle by 100, 1 KiB / hand-written PeekLock", 1.5),
    _over(CEILING, _TWO_BY_TWO, "2 + 2 threads, cycle by 100, 1 KiB / ceiling", 0.6),
    _over(CEILING_BATCH, "send_arrow/100B/arrow_4096", "Arrow in, 100 B / ceiling's sends by 100", 1.5, 3.0),
    _over(
        CEILING_BATCH, "receive_settle_arrow/100B/arrow_4096", "Arrow out, 100 B / ceiling's receives by 100", 1.5, 3.0
    ),
    _rate("send/100B/batch_100_made_before", "sends by 100, msg/s", 1.5e6),
    _rate("send/100B/batch_100", "sends by 100, objects made in the loop, msg/s", 1.5e6),
    _rate("receive_complete/100B/batch_100", "receive + read + complete by 100, msg/s", 1.0e6),
    _rate("send_arrow/100B/arrow_4096", "Arrow in, msg/s", 5.0e6),
    _rate("send_arrow_keyed/100B/arrow_4096", "Arrow in with keys, msg/s", 5.0e6),
    _rate("receive_arrow/100B/arrow_4096", "Arrow out, msg/s", 5.0e6),
    _rate("receive_settle_arrow/100B/arrow_4096", "Arrow out and completed, msg/s", 5.0e6),
    _at_most(DROPS_DUPLICATES, f"{_WITH_IDS}/single_with_ids", "single cycle / with duplicate detection", 2.0),
    _at_most(DROPS_DUPLICATES, f"{_WITH_IDS}/batch_100_with_ids", "cycle by 100 / with duplicate detection", 2.0),
    _at_most(WITH_SESSIONS, f"{_WITH_IDS}/single_with_session_ids", "single cycle / by session", 2.0),
    _at_most(WITH_SESSIONS, f"{_WITH_IDS}/batch_100_with_session_ids", "cycle by 100 / by session", 2.0),
    _at_most(BY_TOPIC, f"{_WITH_IDS}/single_with_subject", "single cycle / by topic", 2.0),
    _at_most(BY_TOPIC, f"{_WITH_IDS}/batch_100_with_subject", "cycle by 100 / by topic", 2.0),
    _at_most(HUNDRED, f"{_WITH_IDS}/single_to_subscriptions", "single cycle, 1 / 100 subscriptions", 3.0),
    _at_most(HUNDRED, f"{_WITH_IDS}/batch_100_to_subscriptions", "cycle by 100, 1 / 100 subscriptions", 3.0),
    _rate("send/100B/single_10k_rules", "send past 10,000 correlation rules, msg/s", 2e5),
    _over(FEW_SCHEDULED, "schedule_receive/100B/batch_100", "a message of 1 M scheduled / of 10,000", 0.8),
    _rate("accept_next/1B/100k_sessions", "accept the next of 100,000 sessions, and close, per s", 2e4),
    _rate("bulk_send/1KiB/loopback_16384", "Arrow in over the bulk plane, rows/s", 3.0e5),
    _rate("bulk_receive/1KiB/loopback_16384", "Arrow out over the bulk plane, rows/s", 3.0e5),
    _rate("spark_bulk_load/1KiB/2tasks", "Spark, bulk load of a directory, rows/s", 6.0e5),
    _rate("spark_bulk_drain/1KiB/2tasks", "Spark, bulk drain of a directory, rows/s", 6.0e5),
    _rate("spark_write/1KiB/2tasks", "Spark, batch write through the broker, rows/s", 3.0e5),
    _rate("spark_read/1KiB/2tasks", "Spark, batch read through the broker, rows/s", 3.0e5),
    _rate("spark_copy/1KiB/2tasks", "Spark, batch from queue to queue through the broker, rows/s", 1.5e5),
    _rate("spark_stream/1KiB/2tasks", "Spark, stream from queue to queue, exactly once, rows/s", 1.0e5),
    _over(
        SPARK_EXPRESSION, "spark_partition_id/18B/10m", "Spark, partition_id of 10 M keys / its own expression", 0.95
    ),
)
"""Judged by the rates of one bench id, in pairs of rounds."""


WAKE_UP = "wake_up/100B/thread"
LATENCY_TARGETS = tuple(
    Target(
        bench_id=WAKE_UP,
        text=f"{share}, send to a receiver blocked in a thread / hand-written PeekLock",
        wanted=1.2,
        peer=PEEKLOCK,
        at_least=False,
        figure=f"latency_us_{share}",
    )
    for share in ("p50", "p99")
)
PACE = "paced/100B/one_per_second"
PACE_TARGET = Target(
    bench_id=PACE,
    text="p50 at one message per second, partitioned queue / plain queue",
    wanted=1.2,
    at_least=False,
    figure="latency_us_p50",
)

SPARK_BATCH = "spark_batch/1KiB/1row"
SPARK_BATCH_TARGET = Target(
    bench_id=SPARK_BATCH,
    text="Spark, ms that a batch of one row takes longer than with nothing behind",
    wanted=50,
    at_least=False,
    figure="batch_ms",
)

MEMORY = "memory/100B/1m"
_BYTES = "resident bytes per 100-byte message, 1 M messages"
MEMORY_TARGETS = tuple(
    Target(
        bench_id=MEMORY,
        text=f"{_BYTES}, sent {way}",
        wanted=164,
        moonshot=148,
        at_least=False,
        contender=contender,
        figure="bytes_per_message",
    )
    for way, contender in (("in lists", "oxbus, lists of 100"), ("as Arrow", ARROW))
)
DISK_MEMORY_TARGET = Target(
    bench_id="memory/100B/1m_on_disk",
    text="resident bytes per message, durable, beyond the memory limit",
    wanted=48,
    at_least=False,
    figure="bytes_per_message",
)

BACKLOG_WANTED = 0.85
TWO_THREADS_TARGET = Target(
    bench_id="sweep_threads/1KiB/arrow_4096_2", text="Arrow cycle, 1 KiB, two threads / one", wanted=1.8
)
MORE_THREADS_WANTED = 0.9

_DURABLE = f"{_CYCLE}/1KiB/durable"
DURABLE_TARGETS = (
    _alone("send/1KiB/durable_single", "fsync, single send / disk appends", 1.3, "ratio_to_append", 1.6),
    _alone(f"{_DURABLE}_single", "fsync, single cycle / disk appends", 0.6, "ratio_to_append", 0.7),
    _alone_at_most(f"{_DURABLE}_single", "fsync, flushes per message", 2.0, "flushes_per_message"),
    _over(BEST_PEER, f"{_DURABLE}_batch_100", "fsync, cycle by 100 / best peer beside it", 2.0, 4.0),
    _over(BEST_PEER, f"{_DURABLE}_2+2_batch_100", "fsync, 2 + 2 threads, cycle by 100 / best peer", 5.0, 10.0),
)
"""What is judged at the level `fsync`; a figure of the disk is taken beside each round."""

OS_SHARE_TARGET = _rate("send/100B/durable_batch_100", "os by 100 / in memory by 100", 0.5)

FOUR_THREADS = "send/300B/durable_4_threads_batch_100"
_PLAIN = "fsync, single send to a queue without partitions / disk appends"
_4_THREADS = "fsync, 4 threads by 100, 300 B / 1 M msg/s or half the disk's bandwidth"
_REOPEN = "opening after a kill, {}, journal bytes/s per core"
DURABLE_ALONE_TARGETS = (
    *starmap(
        _alone,
        (
            ("send/100B/durable_single_plain", _PLAIN, 1.3, "ratio_to_append", 1.6),
            ("send/100B/durable_64_threads_single", "fsync, 64 senders / one sender", 8.0, "ratio_to_one", 20.0),
            (FOUR_THREADS, _4_THREADS, 1.0, "ratio_to_wanted"),
            ("reopen/100B/killed", _REOPEN.format("100 B"), 400e6, "bytes_per_core_s"),
            ("reopen/1KiB/killed", _REOPEN.format("1 KiB"), 400e6, "bytes_per_core_s"),
        ),
    ),
    *starmap(
        _alone_at_most,
        (
            ("reopen/100B/killed_5m", "opening with 5 M live messages, s", 10.0, "seconds"),
            ("churn/1KiB/20_times", "disk after churn of 20 x / bound", 1.0, "ratio_to_bound"),
        ),
    ),
)
"""What oxbus is measured at without peers."""

PEER_TARGETS = (
    _over("LMDB, by hand, os", f"{_CYCLE}/1KiB/memory_batch_100", "in memory, cycle by 100, 1 KiB / LMDB", 5.0),
)
"""Judged in a run with the peers."""

BEST_BROKER = "best other broker"
_AMQP = "amqp_cycle/1KiB"


def _beside_brokers(level: str, name: str) -> tuple[Target, ...]:
    """Throughput, and how long the slowest hundredth takes, beside the best of the others at the same durability."""
    return (
        _over(BEST_BROKER, f"{_AMQP}/{level}_told", f"AMQP, {name}, 1 KiB / best other broker", 1.0, 2.0),
        *(
            Target(
                bench_id=f"amqp_{case}/1KiB/{level}",
                text=f"AMQP, {name}, p99 {when} / best other broker",
                wanted=1.0,
                peer=BEST_BROKER,
                at_least=False,
                figure="latency_us_p99",
            )
            for case, when in (("paced", "at an even pace"), ("ping", "of one at a time"))
        ),
    )


_PING = "AMQP, p50 from a send until it is received, in memory, µs"
_IDLE = "AMQP, 1,000 idle connections with a receiver each, MiB"
_SHARE = "AMQP, the server's share of the processor time with {}"
AMQP_TARGETS = (
    _rate(f"{_AMQP}/memory_confirmed", "AMQP, compiled client, 1 KiB, settlements confirmed, msg/s", 5.0e4),
    *_beside_brokers("memory", "in memory"),
    *_beside_brokers("fsync", "fsync"),
    *starmap(
        _alone_at_most,
        (
            ("amqp_ping/1KiB/memory", _PING, 300, "latency_us_p50"),
            ("amqp_idle/0B/1000_connections", _IDLE, 100, "resident_mib"),
            (f"{_AMQP}/memory_proton", _SHARE.format("python-qpid-proton"), 0.25, "server_share"),
            (f"{_AMQP}/memory_azure", _SHARE.format("azure-servicebus"), 0.25, "server_share"),
            ("amqp_start/0B/serve", "`oxbus serve` is ready after, ms", 300, "ready_ms"),
        ),
    ),
)
"""What the server is judged by, beside other brokers that speak AMQP 1.0."""

NETWORK_SINGLE, NETWORK_BATCH = "network_cycle/1KiB/single", "network_cycle/1KiB/batch_100"
_PROCESSOR = "AMQP, processor of client and server for a single cycle, 1 KiB, µs"
NETWORK_TARGETS = (
    _over(BEANSTALKD, NETWORK_SINGLE, "AMQP, single cycle, 1 KiB / beanstalkd", 1.5),
    _over(REDIS, NETWORK_BATCH, "AMQP, cycle by 100, 1 KiB / Redis", 2.0),
    _alone_at_most(NETWORK_SINGLE, _PROCESSOR, 40, "processor_us_per_message"),
)
"""What the server is judged by, beside work queues that speak protocols of their own."""
