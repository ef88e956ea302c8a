# SPDX-License-Identifier: Apache-2.0
"""The one registry of what `run.py` measures: suites, their parts, and the targets that judge them."""

from __future__ import annotations

from suites import amqp, client, core, durable, network, peers, spark, stored
from suites.suite import Suite

SUITES: dict[str, Suite] = {
    one.name: one
    for one in (
        *(core.SUITE, spark.SUITE, durable.SUITE, stored.SUITE),
        *(peers.SUITE, network.SUITE, amqp.SUITE, client.SUITE),
    )
}
"""In the order in which the report names their targets."""
DEFAULT = core.SUITE.name

__all__ = ["DEFAULT", "SUITES", "Suite"]
