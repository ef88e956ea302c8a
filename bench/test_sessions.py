# SPDX-License-Identifier: Apache-2.0
"""Sessions: the cycle with and without them, and accepting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case


@pytest.mark.parametrize("case", sessions.cases(), ids=str)
def test_sessions(measure: Callable[[Case], None], case: Case) -> None:
    """Everything comes out once, session by session."""
    measure(case)
