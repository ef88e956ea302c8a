# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages, few and very many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case


@pytest.mark.parametrize("case", schedule.cases(messages=100_000), ids=str)
def test_schedule(measure: Callable[[Case], None], case: Case) -> None:
    """Every message comes out once, when it is due."""
    measure(case)
