# SPDX-License-Identifier: Apache-2.0
"""The speed the project wants to reach in stores, each beside what the bare store takes in the same run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from metrics import RATE
from targets import OURS, alone, alone_at_most

if TYPE_CHECKING:
    from targets import Target

STORES = ("PostgreSQL", "Azurite", "versitygw")


def _in(where: str, store: str, target: Target) -> Target:
    return replace(target, contender=f"{where}, {store}", text=f"{store}: {target.text}")


_EACH = (
    alone("send/1KiB/stored_batch_100", "sends by 100 / a list per bare PUT", 0.6, "ratio_to_bare_put"),
    alone("send/1KiB/stored_4_threads_batch_100", "4 threads by 100 / 4 lists per bare PUT", 0.6, "ratio_to_bare_put"),
    alone("send/1KiB/stored_4_threads_batch_100", "4 threads by 100, msg/s", 20e3, RATE),
    alone_at_most("bounded/1KiB/stored_4_threads", "objects per second / as bounded", 1.05, "ratio_to_bound"),
    alone("bounded/1KiB/stored_4_threads", "4 threads by 100, bounded / 400 times the bound", 0.9, "ratio_to_wanted"),
    alone_at_most("open/1KiB/stored_closed", "opening with 1 M messages, closed before, s", 5.0, "seconds"),
    alone_at_most("open/1KiB/stored_killed", "opening with 1 M messages, killed before, s", 5.0, "seconds"),
)
_SERVED = (
    alone_at_most("failover/1KiB/stored_killed", "another server, after a kill, s", 3.0, "seconds"),
    alone_at_most("failover/1KiB/stored_terminated", "another server, after SIGTERM, s", 3.0, "seconds"),
    alone_at_most("failover/1KiB/stored_paused", "another server, while the owner is paused, s", 10.0, "seconds"),
)
STORED_TARGETS = tuple(
    _in(where, store, target)
    for store in STORES
    for where, all_of in ((OURS, _EACH), (f"{OURS} serve", _SERVED))
    for target in all_of
)
