# SPDX-License-Identifier: Apache-2.0
"""Requests and dollars of a steady load, and whether a bound on creations is kept."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from metrics import RATE
from turns import Found

from stored.contenders import name_of
from stored.counts import KINDS, counted
from stored.load import Load
from stored.prices import MONTH_SECONDS, PRICES
from stored.queues import in_this_program
from stored.scale import LIST, seconds_of
from stored.sends import in_lists

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan
    from turns import Figures

    from stored.places import Place

RATES = (1_000, 10_000)
SIZES = {LIST: "batch_100", 1: "single"}
LOADS = {f"requests/1KiB/stored_{rate}_per_s_{word}": (rate, size) for rate in RATES for size, word in SIZES.items()}
SECONDS = 15.0
SETTLE_SECONDS = 3.0
"""How long the load runs before anything is counted."""
MILLION = 1e6

BOUND = 20
BOUNDED = {1: "bounded/1KiB/stored_1_thread", 4: "bounded/1KiB/stored_4_threads"}
BOUNDED_SECONDS = 10.0


def name_with_delay(place: Place, delay: float) -> str:
    """Ours over a store whose answers are held back."""
    return name_of(place) + (f", answers after {delay * 1e3:.0f} ms" if delay else "")


def bill(place: Place, delay: float, case: str, plan: Plan) -> Iterator[Found]:
    """The requests of one load."""
    rate, size = LOADS[case]
    with (
        place.run() as found,
        counted(place, found, delay) as (through, counts),
        in_this_program(through) as queue,
        Load(queue, rate, size) as load,
    ):
        time.sleep(seconds_of(plan, SETTLE_SECONDS))
        before, sent, completed, began = counts(), load.sent, load.completed, time.perf_counter()
        time.sleep(seconds_of(plan, SECONDS))
        after, seconds = counts(), time.perf_counter() - began
        sent, completed = load.sent - sent, load.completed - completed
    asked = Counter({kind: after[kind] - before[kind] for kind in after})
    shown = {**asked, "deletes": asked["deletes"] + asked["batches"]}
    figures: Figures = {
        RATE: sent / seconds,
        "completed_msg_per_s": completed / seconds,
        **{f"{kind}_per_million": shown.get(kind, 0) / max(sent, 1) * MILLION for kind in KINDS},
        "objects_per_s": asked["creates"] / seconds,
    }
    if place.is_object_storage:
        for price in PRICES:
            dollars = price.dollars(asked)
            figures[f"usd_per_million_{price.key}"] = dollars / max(sent, 1) * MILLION
            figures[f"usd_per_month_{price.key}"] = dollars / seconds * MONTH_SECONDS
    yield Found(case, name_with_delay(place, delay), figures, place.level.value)


def bounded(place: Place, threads: int, plan: Plan) -> Iterator[Found]:
    """Sends in lists while creations are bounded: each may carry a list of each thread."""
    with (
        place.run() as found,
        counted(place, found) as (through, counts),
        in_this_program(through, max_puts_per_second=str(BOUND)) as queue,
    ):
        in_lists(queue, threads, seconds_of(plan, 1.0))  # uses up what the bound lets through at once
        before, began = counts(), time.perf_counter()
        rate = in_lists(queue, threads, seconds_of(plan, BOUNDED_SECONDS))
        after, seconds = counts(), time.perf_counter() - began
    per_second = (after["creates"] - before["creates"]) / seconds
    figures = {
        RATE: rate,
        "objects_per_s": per_second,
        "ratio_to_bound": per_second / BOUND,
        "ratio_to_wanted": rate / (BOUND * threads * LIST),
    }
    yield Found(BOUNDED[threads], name_of(place), figures, place.level.value)
