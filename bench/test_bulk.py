# SPDX-License-Identifier: Apache-2.0
"""Bulk clients over loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import bulk

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = bulk.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bulk(measure: Callable[[Case], None], case: Case) -> None:
    """Every row arrives once."""
    measure(case)
