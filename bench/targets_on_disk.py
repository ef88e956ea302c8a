# SPDX-License-Identifier: Apache-2.0
"""The speed the project wants to reach on disk, beside four peers and beside all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import starmap

from targets import BEST, CYCLE, OURS_IN_MEMORY, OURS_SYNCED, OURS_WRITTEN, Target, alone, alone_at_most, over

_DURABLE = f"{CYCLE}/1KiB/durable"
_SYNCED = (
    alone("send/1KiB/durable_single", "fsync, single send / disk appends", 1.3, "ratio_to_append", 1.6),
    alone(f"{_DURABLE}_single", "fsync, single cycle / disk appends", 0.6, "ratio_to_append", 0.7),
    alone_at_most(f"{_DURABLE}_single", "fsync, flushes per message", 2.0, "flushes_per_message"),
    over(BEST, f"{_DURABLE}_batch_100", "fsync, cycle by 100 / best peer of the run", 2.0, 4.0),
    over(BEST, f"{_DURABLE}_2+2_batch_100", "fsync, 2 + 2 threads, cycle by 100 / best peer", 5.0, 10.0),
)
"""Judged beside four peers, and beside all of them, whose cases have names of their own."""
OS_SHARE = "send/100B/durable_batch_100"

CREATED = "entities/durable_4000"
FOUR_THREADS = "send/300B/durable_4_threads_batch_100"
_PLAIN = "fsync, single send to a queue without partitions / disk appends"
_4_THREADS = "fsync, 4 threads by 100, 300 B / 1 M msg/s or half the disk's bandwidth"
_REOPEN = "opening after a kill, {}, journal bytes/s per core"
_ALONE = (
    *starmap(
        alone,
        (
            ("send/100B/durable_single_plain", _PLAIN, 1.3, "ratio_to_append", 1.6),
            ("send/100B/durable_64_threads_single", "fsync, 64 senders / one sender", 8.0, "ratio_to_one", 20.0),
            (FOUR_THREADS, _4_THREADS, 1.0, "ratio_to_wanted"),
            ("reopen/100B/killed", _REOPEN.format("100 B"), 400e6, "bytes_per_core_s"),
            ("reopen/1KiB/killed", _REOPEN.format("1 KiB"), 400e6, "bytes_per_core_s"),
            (CREATED, "fsync, creating a queue / disk appends", 0.6, "ratio_to_append", 0.8),
        ),
    ),
    *starmap(
        alone_at_most,
        (
            ("reopen/100B/killed_5m", "opening with 5 M live messages, s", 10.0, "seconds"),
            ("churn/1KiB/20_times", "disk after churn of 20 x / bound", 1.0, "ratio_to_bound"),
            (CREATED, "fsync, creating the last thousand queues of 4,000 / the first", 1.5, "slowdown"),
        ),
    ),
)
"""Measured without peers."""
DURABLE_TARGETS = (
    *(replace(target, contender=OURS_SYNCED) for target in _SYNCED),
    Target(case=OS_SHARE, text="os by 100 / in memory by 100", wanted=0.5, contender=OURS_WRITTEN, peer=OURS_IN_MEMORY),
    *_ALONE,
)
PEER_TARGETS = (
    over("LMDB, by hand, os", f"{CYCLE}/1KiB/memory_batch_100", "in memory, cycle by 100, 1 KiB / LMDB", 5.0),
    *(replace(target, case=target.case.replace("durable", "fsync")) for target in _SYNCED),
)
