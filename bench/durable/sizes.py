# SPDX-License-Identifier: Apache-2.0
"""How many messages a contender gets: what takes it about a given time, found by trying.

A disk may be ten times quicker a minute later, so that what was to take half a second takes a tenth of it: then it is
done again until it has taken long enough.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bodies import bodies_of
from cases.bus import BATCH

from durable.workload import one_thread, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from peers.line_up import Contender

    Found = TypeVar("Found")

STEP = 2 * BATCH
"""Two senders share whole hundreds."""
TRIAL_SHARE = 0.1
"""A trial shorter than this share of the wanted time is too noisy, so a longer one follows."""
GROWTH = 8
LEAST_SECONDS = 0.2


@dataclass(frozen=True)
class Sizes:
    """How many messages a contender gets, one by one and by the hundred."""

    single: int
    by_hundred: int

    def of(self, size: int) -> int:
        """Return the number of messages for calls of `size` messages."""
        return self.single if size == 1 else self.by_hundred


def sizes_for(contender: Contender, directory: Path, seconds: float, most: int) -> Sizes:
    """Try it with a few messages, then with more, and scale to `seconds`."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        queue = contender.open(Path(folder))
        try:
            warm_up(queue)

            def took(size: int, messages: int) -> float:
                return one_thread(queue, bodies_of(1024, messages), size, keep=False)[1]

            return Sizes(*(fitting(partial(took, size), seconds, most) for size in (1, BATCH)))
        finally:
            queue.close()


def fitting(took: Callable[[int], float], seconds: float, most: int) -> int:
    """The number of messages for which `took` returns about `seconds`: whole steps, at least one and at most `most`."""
    count = STEP
    while (spent := took(count)) < TRIAL_SHARE * seconds and count < most:
        count = min(most, GROWTH * count)
    return max(STEP, min(most, int(count * seconds / spent)) // STEP * STEP)


def long_enough(
    work: Callable[[], Found], seconds: Callable[[Found], float], least_seconds: float = LEAST_SECONDS
) -> list[Found]:
    """Do some work once, and again until all of it has taken so long; return what each time found."""
    found = [work()]
    while sum(map(seconds, found)) < least_seconds:
        found.append(work())
    return found
