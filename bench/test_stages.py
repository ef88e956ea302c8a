# SPDX-License-Identifier: Apache-2.0
"""Staged sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = stages.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_stages(measure: Callable[[Case], None], case: Case) -> None:
    """Every row is published once."""
    measure(case)
