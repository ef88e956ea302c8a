# SPDX-License-Identifier: Apache-2.0
"""Two senders and two receivers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = threads.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads(measure: Callable[[Case], None], case: Case) -> None:
    """Everything comes out once and nothing is left."""
    measure(case)
