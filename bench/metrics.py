# SPDX-License-Identifier: Apache-2.0
"""Every metric that a result may have: its unit, and whether more of it is better."""

from __future__ import annotations

from dataclasses import dataclass

from stored.prices import PRICES

RATE = "throughput_msg_per_s"
P50, P99, SLOWEST = "latency_us_p50", "latency_us_p99", "latency_us_max"


@dataclass(frozen=True)
class Metric:
    """One kind of figure."""

    unit: str
    more_is_better: bool = False


METRICS: dict[str, Metric] = {
    RATE: Metric("1/s", more_is_better=True),
    P50: Metric("µs"),
    P99: Metric("µs"),
    SLOWEST: Metric("µs"),
    "batch_ms": Metric("ms"),
    "ready_ms": Metric("ms"),
    "answered_ms": Metric("ms"),
    "seconds": Metric("s"),
    "threads": Metric("1"),
    "bytes_per_message": Metric("B"),
    "resident_mib": Metric("MiB"),
    "create_us": Metric("µs"),
    "first_cycle_us": Metric("µs"),
    "cycle_us": Metric("µs"),
    "first_send_us": Metric("µs"),
    "send_us": Metric("µs"),
    "send_without_session_us": Metric("µs"),
    "accept_drain_close_us": Metric("µs"),
    "bytes_created": Metric("B"),
    "bytes_used": Metric("B"),
    "bytes_with_message": Metric("B"),
    "bytes_beyond_message": Metric("B"),
    "ratio_to_append": Metric("", more_is_better=True),
    "ratio_to_one": Metric("", more_is_better=True),
    "ratio_to_wanted": Metric("", more_is_better=True),
    "ratio_to_bare_writes": Metric("", more_is_better=True),
    "ratio_to_bound": Metric(""),
    "slowdown": Metric(""),
    "flushes_per_message": Metric("1"),
    "bytes_per_core_s": Metric("B/s", more_is_better=True),
    "server_us_per_message": Metric("µs"),
    "client_us_per_message": Metric("µs"),
    "processor_us_per_message": Metric("µs"),
    "server_share": Metric(""),
    "ratio_to_bare_put": Metric("", more_is_better=True),
    "completed_msg_per_s": Metric("1/s", more_is_better=True),
    "objects_per_s": Metric("1/s"),
    **{f"{kind}_per_million": Metric("1") for kind in ("creates", "swaps", "reads", "lists", "deletes")},
    **{f"usd_per_{span}_{price.key}": Metric("$") for span in ("million", "month") for price in PRICES},
}
