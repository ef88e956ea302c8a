# SPDX-License-Identifier: Apache-2.0
"""Columns in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = arrow.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_arrow(measure: Callable[[Case], None], case: Case) -> None:
    """Every row arrives once."""
    measure(case)
