# SPDX-License-Identifier: Apache-2.0
"""Topics: the cycle through subscriptions, and sends past many rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case


@pytest.mark.parametrize("case", topics.cases(), ids=str)
def test_topics(measure: Callable[[Case], None], case: Case) -> None:
    """Every message comes out once."""
    measure(case)
