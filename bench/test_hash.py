# SPDX-License-Identifier: Apache-2.0
"""Partition assignment of a million keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import hashing

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = hashing.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_partition_ids(measure: Callable[[Case], None], case: Case) -> None:
    """Ours and the loop give the same partitions."""
    measure(case)
