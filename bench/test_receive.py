# SPDX-License-Identifier: Apache-2.0
"""Receiving and completing, and the whole way through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import queueing

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = [case for case in queueing.cases() if "receive" in case.id]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_receive(measure: Callable[[Case], None], case: Case) -> None:
    """Everything comes out once and nothing is left."""
    measure(case)
