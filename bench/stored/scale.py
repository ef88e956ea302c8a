# SPDX-License-Identifier: Apache-2.0
"""How long each figure of the suite is measured, and what it is measured with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bodies import bodies_of

if TYPE_CHECKING:
    from plan import Plan

BODY_BYTES = 1024
LIST = 100
BODIES = bodies_of(BODY_BYTES, LIST)
LEAST_SECONDS = 0.3


def seconds_of(plan: Plan, usual: float) -> float:
    """How long a figure takes in this run."""
    return usual if plan.scale == 1 else min(usual, max(LEAST_SECONDS, usual * plan.scale))
