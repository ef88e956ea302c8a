# SPDX-License-Identifier: Apache-2.0
"""Sending, one message at a time and by the hundred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import queueing

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case

CASES = [case for case in queueing.cases() if case.id.startswith("send/")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_send(measure: Callable[[Case], None], case: Case) -> None:
    """Everything that was sent is in the queue."""
    measure(case)
