# SPDX-License-Identifier: Apache-2.0
"""A server that is to take over at once does so, however fast the owner writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fault_cluster import Cluster
from fault_driver import Load
from fault_messages import make_queues
from fault_proxy import Fault
from stored_server import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from stored_server import StoredPlace


def test_a_takeover_at_once_ends_while_the_owner_writes(place: StoredPlace, tmp_path: Path) -> None:
    """The requests of the taker are slow, and the owner creates one object after the other."""
    make_queues(place)
    with Cluster(place, "one run") as cluster:
        third = cluster.third
        if third.proxy is None:
            pytest.skip("the store has no address")
        # A standby is faster than the third server, and takes over from an owner that was stopped.
        cluster.standby.kill()
        load = Load(cluster.switch.connection_string, tmp_path, "one run")
        try:
            load.wait_for_more()
            third.proxy.set(Fault.SLOW)
            third.start("--take-over")
            wait_until(lambda: third.served_at is not None, "the takeover")
        finally:
            load.stop()
