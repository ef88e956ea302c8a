# SPDX-License-Identifier: Apache-2.0
"""The speed the project wants to reach, as figures of one run; what follows once a target is met is its moonshot.

Whatever hands out messages is judged with their bodies read (`bodies.py`); no target is of a case that leaves them.
"""

from __future__ import annotations

from dataclasses import dataclass

from metrics import P50, P99, RATE

OURS = "oxbus"
ARROW = "oxbus, Arrow"
TWO_THREADS = "oxbus, two threads"
PEEKLOCK = "PeekLock in Python"
LOOP = "xxhash loop"
CEILING = "ceiling (C)"
CEILING_BATCH = "ceiling (C), by 100"
SIMPLE_QUEUE = "queue.SimpleQueue"
THREADS = "oxbus, threads"
PEEKLOCK_TASKS = "PeekLock for asyncio"
ASYNCIO_QUEUE = "asyncio.Queue"
SPARK = "Spark, one core"
DROPS_DUPLICATES = "oxbus, duplicates dropped"
WITH_SESSIONS = "oxbus, by session"
BY_TOPIC = "oxbus, one subscription"
HUNDRED = "oxbus, 100 subscriptions"
FEW_SCHEDULED = "oxbus, 10,000 messages"
SPARK_EXPRESSION = "Spark's expression"
NOTHING = "nothing behind"
NOOP, PARQUET, RATE_SOURCE = "Spark's noop", "Parquet files", "Spark's rate to noop"
SPARK_OTHER_DELIVERY = {"atLeastOnce": "oxbus, at least once", "exactlyOnce": "oxbus, exactly once"}
"""The contender with the delivery that is not the default of its path."""
OURS_SYNCED, OURS_WRITTEN, OURS_IN_MEMORY = (f"{OURS}, {level}" for level in ("fsync", "os", "memory"))
BEST = "the best of the others"
"""The best at the same level, round by round."""
BARE_WRITES = "the disk, bare writes"
AZURE = "azure-servicebus"
GO, PROTON = "go-amqp", "qpid-proton"
BEANSTALKD = "beanstalkd"
REDIS = "Redis Streams"
ECHO = "echo (C), 2 round trips"
ECHO_ASKED = "echo (C), 3 round trips"
CYCLE = "send_receive_complete"
ASYNCIO = "asyncio/"
"""How the ids begin of cycles in an event loop."""
_WITH_IDS = f"{CYCLE}/100B"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A wanted figure: a ratio to `peer`, or an absolute figure when there is none."""

    case: str
    text: str
    wanted: float
    peer: str | None = None
    peer_case: str | None = None
    """The case of the peer; None: the same case."""
    difference: bool = False
    """Whether the peer's figure is subtracted; otherwise the figure is a ratio to it."""
    worst_of: tuple[str, ...] = ("",)
    """Replacements for `{}` in the names of both cases; the worst ratio counts."""
    moonshot: float | None = None
    """The next goal once `wanted` is met."""
    at_least: bool = True
    metric: str = RATE
    contender: str = OURS
    """Whose figure it is."""

    def met(self, figure: float) -> bool:
        """Whether `found` meets the target."""
        return figure >= self.wanted if self.at_least else figure <= self.wanted

    def moonshot_met(self, figure: float) -> bool | None:
        """Whether `found` meets the moonshot; None if the target has none."""
        if self.moonshot is None:
            return None
        return figure >= self.moonshot if self.at_least else figure <= self.moonshot

    def verdict(self, figure: float) -> str:
        """One line for the end of a run."""
        sign = ">=" if self.at_least else "<="
        line = (
            f"{'met   ' if self.met(figure) else 'MISSED'} {self.text}: {figure:,.3g} (wanted {sign} {self.wanted:,.3g}"
        )
        if self.met(figure) and self.moonshot is not None:
            line += f"; moonshot {sign} {self.moonshot:,.3g} {'met' if self.moonshot_met(figure) else 'next'}"
        return line + ")"


def rate(case: str, text: str, wanted: float, moonshot: float | None = None) -> Target:
    """How many per second."""
    return Target(case=case, text=text, wanted=wanted, moonshot=moonshot)


def over(peer: str, case: str, text: str, wanted: float, moonshot: float | None = None) -> Target:
    """How many times as fast as a peer."""
    return Target(case=case, text=text, wanted=wanted, moonshot=moonshot, peer=peer)


def at_most(peer: str, case: str, text: str, wanted: float) -> Target:
    """How many times dearer something may be than the plain way; `peer` is the dearer one."""
    return Target(case=case, text=text, wanted=wanted, peer=peer, at_least=False)


def alone(
    case: str, text: str, wanted: float, metric: str, moonshot: float | None = None, *, at_least: bool = True
) -> Target:
    """A figure that no peer has a part in."""
    return Target(case=case, text=text, wanted=wanted, metric=metric, moonshot=moonshot, at_least=at_least)


def alone_at_most(case: str, text: str, wanted: float, metric: str) -> Target:
    """The same where less is better."""
    return alone(case, text, wanted, metric, at_least=False)


_TWO_BY_TWO = f"{CYCLE}/1KiB/2+2_batch_100"
_HASH, _HASH_LIST = "partition_ids/16-36B/arrow_1m", "partition_ids/16-36B/list_1m"
SPARK_HASH = "spark_hash/16-36B/arrow_1m"
_RATES = (
    over(CEILING, _HASH, "partition_ids of an Arrow array / ceiling", 0.85),
    over(LOOP, _HASH, "partition_ids of an Arrow array / Python loop over xxhash", 4.0),
    over(SPARK, SPARK_HASH, "partition_ids of an Arrow array / Spark on one core", 4.0),
    Target(
        case=_HASH,
        text="moonshot: partition_ids of an Arrow array, two threads / one",
        wanted=1.7,
        peer=OURS,
        contender=TWO_THREADS,
    ),
    over(LOOP, _HASH_LIST, "partition_ids of a list / Python loop over xxhash", 1.8),
    over(CEILING, _HASH_LIST, "moonshot: partition_ids of a list / ceiling", 0.8),
    over(PEEKLOCK, f"{CYCLE}/100B/single", "single cycle, 100 B / hand-written PeekLock", 3.0),
    over(CEILING, f"{CYCLE}/100B/single", "single cycle, 100 B / ceiling", 0.35, 0.5),
    over(PEEKLOCK, f"{CYCLE}/1KiB/single", "single cycle, 1 KiB / hand-written PeekLock", 2.2),
    over(CEILING, f"{CYCLE}/1KiB/single", "single cycle, 1 KiB / ceiling", 0.6),
    over(PEEKLOCK, f"{CYCLE}/1KiB/batch_100", "cycle by 100, 1 KiB / hand-written PeekLock", 1.1),
    over(CEILING, f"{CYCLE}/1KiB/batch_100", "cycle by 100, 1 KiB / ceiling", 0.8),
    over(PEEKLOCK, f"{CYCLE}/1KiB/batch_1000", "cycle by 1,000, 1 KiB / hand-written PeekLock", 1.0),
    over(CEILING, f"{CYCLE}/1KiB/batch_1000", "cycle by 1,000, 1 KiB / ceiling", 0.8, 0.95),
    over(CEILING, f"{CYCLE}/10KiB/batch_100", "cycle by 100, 10 KiB / ceiling", 0.8),
    over(CEILING, f"{CYCLE}/1KiB/2+2_single", "2 + 2 threads, single cycle, 1 KiB / ceiling", 0.4, 1.0),
    over(PEEKLOCK, _TWO_BY_TWO, "2 + 2 threads, cycle by 100, 1 KiB / hand-written PeekLock", 1.5),
    over(CEILING, _TWO_BY_TWO, "2 + 2 threads, cycle by 100, 1 KiB / ceiling", 0.6),
    over(CEILING_BATCH, "send_arrow/100B/arrow_4096", "Arrow in, 100 B / ceiling's sends by 100", 1.2, 1.5),
    over(
        CEILING_BATCH, "receive_settle_arrow/100B/arrow_4096", "Arrow out, 100 B / ceiling's receives by 100", 0.8, 1.5
    ),
    Target(
        case="receive_settle_arrow_selected/100B/arrow_4096",
        peer_case="receive_settle_arrow/100B/arrow_4096",
        text="Arrow out, body and token, 100 B / ceiling's receives by 100",
        wanted=0.8,
        moonshot=1.5,
        peer=CEILING_BATCH,
    ),
    rate("send/100B/batch_100_made_before", "sends by 100, msg/s", 1.5e6),
    rate("send/100B/batch_100", "sends by 100, objects made in the loop, msg/s", 1.5e6),
    rate("receive_complete/100B/batch_100", "receive + read + complete by 100, msg/s", 1.0e6),
    rate("send_arrow/100B/arrow_4096", "Arrow in, msg/s", 5.0e6),
    rate("send_arrow_keyed/100B/arrow_4096", "Arrow in with keys, msg/s", 5.0e6),
    rate("receive_arrow/100B/arrow_4096", "Arrow out, msg/s", 5.0e6),
    rate("receive_settle_arrow/100B/arrow_4096", "Arrow out and completed, msg/s", 5.0e6),
    at_most(DROPS_DUPLICATES, f"{_WITH_IDS}/single_with_ids", "single cycle / with duplicate detection", 2.0),
    at_most(DROPS_DUPLICATES, f"{_WITH_IDS}/batch_100_with_ids", "cycle by 100 / with duplicate detection", 2.0),
    at_most(WITH_SESSIONS, f"{_WITH_IDS}/single_with_session_ids", "single cycle / by session", 2.0),
    at_most(WITH_SESSIONS, f"{_WITH_IDS}/batch_100_with_session_ids", "cycle by 100 / by session", 2.0),
    at_most(BY_TOPIC, f"{_WITH_IDS}/single_with_subject", "single cycle / by topic", 2.0),
    at_most(BY_TOPIC, f"{_WITH_IDS}/batch_100_with_subject", "cycle by 100 / by topic", 2.0),
    at_most(HUNDRED, f"{_WITH_IDS}/single_to_subscriptions", "single cycle, 1 / 100 subscriptions", 3.0),
    at_most(HUNDRED, f"{_WITH_IDS}/batch_100_to_subscriptions", "cycle by 100, 1 / 100 subscriptions", 3.0),
    rate("send/100B/single_10k_rules", "send past 10,000 correlation rules, msg/s", 2e5),
    over(FEW_SCHEDULED, "schedule_receive/100B/batch_100", "a message of 1 M scheduled / of 10,000", 0.8),
    rate("accept_next/1B/100k_sessions", "accept the next of 100,000 sessions, and close, per s", 2e4),
    over(THREADS, f"{ASYNCIO}100B/batch_100", "asyncio by 100, 100 B / threads by 100", 0.7),
    over(THREADS, f"{ASYNCIO}1KiB/batch_100", "asyncio by 100, 1 KiB / threads by 100", 0.7),
    rate("bulk_send/1KiB/loopback_16384", "Arrow in over the bulk plane, rows/s", 3.0e5),
    rate("bulk_receive/1KiB/loopback_16384", "Arrow out over the bulk plane, rows/s", 3.0e5),
)

WAKE_UP = "wake_up/100B/thread"
_LATENCIES = tuple(
    Target(
        case=WAKE_UP,
        text=f"{share}, send to a receiver blocked in a thread / hand-written PeekLock",
        wanted=1.2,
        peer=PEEKLOCK,
        at_least=False,
        metric=metric,
    )
    for share, metric in (("p50", P50), ("p99", P99))
)
PACE = "paced/100B/one_per_second"
PLAIN, PARTITIONED = "oxbus, plain queue", "oxbus, partitioned queue"
_PACE = Target(
    case=PACE,
    text="p50 at one message per second, partitioned queue / plain queue",
    wanted=1.2,
    peer=PLAIN,
    at_least=False,
    metric=P50,
    contender=PARTITIONED,
)

MEMORY = "memory/100B/1m"
_BYTES = "resident bytes per 100-byte message, 1 M messages"
_MEMORY = tuple(
    Target(
        case=MEMORY,
        text=f"{_BYTES}, sent {way}",
        wanted=164,
        moonshot=148,
        at_least=False,
        contender=contender,
        metric="bytes_per_message",
    )
    for way, contender in (("in lists", "oxbus, lists of 100"), ("as Arrow", ARROW))
)
MEMORY_ON_DISK = "memory/100B/1m_on_disk"
_DISK_MEMORY = Target(
    case=MEMORY_ON_DISK,
    text="resident bytes per message, durable, beyond the memory limit",
    wanted=48,
    at_least=False,
    metric="bytes_per_message",
)

BACKLOGS = (10_000, 100_000, 1_000_000, 5_000_000, 10_000_000)
BACKLOG_CASE = "{}/100B/backlog_"
BACKLOG_OPERATIONS = (
    *("send single", "receive + complete single", "send by 100", "receive + complete by 100"),
    *("Arrow in", "Arrow out + complete"),
)
_BACKLOGS = tuple(
    Target(
        case=f"{BACKLOG_CASE}{size}",
        peer_case=f"{BACKLOG_CASE}{BACKLOGS[0]}",
        worst_of=tuple(operation.replace(" ", "_") for operation in BACKLOG_OPERATIONS),
        text=f"backlog of {size:,} / of {BACKLOGS[0]:,}, the worst of {len(BACKLOG_OPERATIONS)} rates",
        wanted=0.9,
        peer=OURS,
    )
    for size in BACKLOGS[2:]
)

LIST_LENGTHS = (100, 1_000, 4_000)
LIST_CASE = "list_{}/by_"
LIST_PAYLOADS = ("100B", "1KiB")
_LISTS = tuple(
    Target(
        case=f"{LIST_CASE}{length}",
        peer_case=f"{LIST_CASE}{LIST_LENGTHS[0]}",
        worst_of=tuple(f"{operation}/{payload}" for payload in LIST_PAYLOADS),
        text=f"{text} by {length:,} / by {LIST_LENGTHS[0]}, the worse of 100 B and 1 KiB",
        wanted=0.95,
        peer=OURS,
    )
    for length in LIST_LENGTHS[1:]
    for operation, text in (("send", "sends"), ("receive", "receives"), ("complete", "completions"))
)


def _threads(contender: str, line: str, counts: tuple[int, int], text: str, wanted: float) -> Target:
    """How many times as much some threads do as fewer."""
    more, fewer = (f"sweep_threads/1KiB/{line}_{count}" for count in counts)
    return Target(case=more, peer_case=fewer, text=text, wanted=wanted, peer=contender, contender=contender)


_COLUMNS = "arrow_4096"
_THREADS = (
    _threads(ARROW, _COLUMNS, (2, 1), "Arrow cycle, 1 KiB, two threads / one", 1.8),
    *(
        _threads(contender, line, (at, 2), f"{at} threads / two, 1 KiB, {line}", 0.9)
        for contender, line in ((OURS, "single"), (OURS, "batch_100"), (ARROW, _COLUMNS))
        for at in (4, 8)
    ),
)
_MANY_QUEUES = Target(
    case="queues/100B/10000",
    peer_case="queues/100B/100",
    text="first send of a sender, 10,000 queues / 100 queues",
    wanted=2.0,
    peer=OURS,
    at_least=False,
    metric="first_send_us",
)
CORE_TARGETS = (*_RATES, *_LISTS, *_THREADS, *_LATENCIES, _PACE, *_MEMORY, _DISK_MEMORY, *_BACKLOGS, _MANY_QUEUES)

SPARK_BATCH = "spark_batch/1KiB/1row"
SPARK_TARGETS = (
    rate("spark_bulk_load/1KiB/2tasks", "Spark, bulk load of a directory, rows/s", 6.0e5),
    rate("spark_bulk_drain/1KiB/2tasks", "Spark, bulk drain of a directory, rows/s", 6.0e5),
    over(NOTHING, "spark_write/1KiB/2tasks", "Spark, batch write at least once / nothing behind", 0.7),
    Target(
        case="spark_write/1KiB/2tasks",
        text="Spark, batch write exactly once / nothing behind",
        wanted=0.5,
        peer=NOTHING,
        contender=SPARK_OTHER_DELIVERY["exactlyOnce"],
    ),
    over(NOTHING, "spark_read/1KiB/2tasks", "Spark, batch read / nothing behind", 0.6),
    rate("spark_copy/1KiB/2tasks", "Spark, batch from queue to queue through the broker, rows/s", 1.5e5),
    rate("spark_stream/1KiB/2tasks", "Spark, stream from queue to queue, exactly once, rows/s", 2.0e5),
    over(SPARK_EXPRESSION, "spark_partition_id/18B/10m", "Spark, partition_id of 10 M keys / its own expression", 0.95),
    Target(
        case=SPARK_BATCH,
        text="Spark, extra ms of a batch of one row over the baseline",
        wanted=50,
        peer=NOTHING,
        difference=True,
        at_least=False,
        metric="batch_ms",
    ),
)
