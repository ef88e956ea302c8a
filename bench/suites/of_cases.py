# SPDX-License-Identifier: Apache-2.0
"""Groups of cases that run in this process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cases.case import seconds_of_one_round
from metrics import RATE
from turns import Found, Group, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cases.case import Case
    from plan import Plan


def by_id(part: str, cases: Callable[[Plan], list[Case]], plan: Plan, *, together: bool = False) -> Iterator[Group]:
    """A group for the contenders of each id; one for all of them if ids are compared with each other."""
    wanted = [case for case in cases(plan) if plan.wants(part, case.id)]
    ids = {} if together else dict.fromkeys(case.id for case in wanted)
    if together and wanted:
        yield group_of(part, wanted)
    for one in ids:
        yield group_of(part, [case for case in wanted if case.id == one])


def group_of(part: str, cases: Sequence[Case]) -> Group:
    """Cases that take turns."""
    return Group(part, [_turn(case) for case in cases])


def _turn(case: Case) -> Turn:
    return Turn(case.contender, partial(_rate, case), warm_up=partial(seconds_of_one_round, case))


def _rate(case: Case) -> Iterator[Found]:
    yield Found(case.id, case.contender, {RATE: case.operations / seconds_of_one_round(case)}, point=case.point)
