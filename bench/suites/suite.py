# SPDX-License-Identifier: Apache-2.0
"""A suite: parts that measure something of the same kind, and the targets that judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from plan import Plan
    from targets import Target
    from turns import Group

    Part = Callable[[Plan], Iterator[Group]]


@dataclass(frozen=True)
class Suite:
    """The name for `--suite`."""

    name: str
    text: str
    """The subject of its measurements."""
    rounds: int
    """Its usual number of rounds."""
    parts: Mapping[str, Part]
    """The names for `--case`: each yields the groups with a case that the plan selects, one after the other."""
    targets: Sequence[Target]
