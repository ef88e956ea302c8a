# SPDX-License-Identifier: Apache-2.0
"""The percentiles of latencies that a result keeps, in microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import P50, P99

if TYPE_CHECKING:
    from collections.abc import Sequence

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample that `share` of a hundred do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))]


def figures_of(samples: Sequence[float]) -> dict[str, float]:
    """The median and what one in a hundred exceeds."""
    return {P50: percentile(samples, 50), P99: percentile(samples, 99)}


def distribution(samples: Sequence[float]) -> dict[str, float]:
    """The percentiles that describe a distribution; those that a few samples decide are left out."""
    found = {str(share): percentile(samples, share) for share in PERCENTILES if len(samples) * (100 - share) >= 500}
    return {name: float(f"{value:.4g}") for name, value in found.items()}
