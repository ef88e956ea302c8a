# SPDX-License-Identifier: Apache-2.0
"""docs/compat.md describes exactly how names and signatures relate to those of the azure-servicebus SDK.

Its tables have four columns: ``SDK name``, ``status`` (same, differs, absent), ``why`` and ``test``.
*same* and *differs* describe the interface. A name with the same interface that behaves differently is *differs* too,
and its reason starts with "Behaviour:". *absent*: the name is missing, or calling it raises `InvalidOperationError`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import oxbus
import pytest
from oxbus.exceptions import InvalidOperationError
from sdk_interface import ABSENT, DIFFERS, SAME, refused_calls, statuses

PAGE = Path(__file__).parents[2] / "docs/compat.md"


class Row(NamedTuple):
    """One line of a table."""

    name: str
    status: str
    why: str
    test: str

    @property
    def only_behaviour(self) -> bool:
        """Whether the interface is the same and the behaviour is not."""
        return self.status == DIFFERS and self.why.startswith("Behaviour:")


def rows() -> list[Row]:
    """The lines of all tables with the four columns."""
    found = []
    inside = False
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells == ["SDK name", "status", "why", "test"]:
            inside = True
        elif inside and not set(line) <= set("|- :"):
            assert len(cells) == 4, line
            found.append(Row(cells[0].strip("`"), *cells[1:]))
    return found


def test_each_name_of_the_sdk_has_one_row() -> None:
    """Every name of the SDK has a row, and every row is a name of the SDK."""
    listed = Counter(row.name for row in rows())
    assert [name for name, count in listed.items() if count > 1] == []
    assert sorted(statuses().keys() - listed.keys()) == []
    assert sorted(listed.keys() - statuses().keys()) == []


def test_each_row_is_true() -> None:
    """A difference that is not listed fails, and so does a listed one that no longer exists."""
    actual = statuses()
    wrong = []
    for row in rows():
        expected = SAME if row.only_behaviour else row.status
        if expected != actual.get(row.name):
            wrong.append(f"{row.name}: listed as {row.status}, is {actual.get(row.name)}")
    assert wrong == []


def test_each_difference_has_a_reason() -> None:
    """A row that is not "same" gives a reason."""
    assert {row.status for row in rows()} <= {SAME, DIFFERS, ABSENT}
    assert [row.name for row in rows() if row.status != SAME and len(row.why.split()) < 3] == []


def test_each_row_names_its_test() -> None:
    """A row links a test file that exists; a behaviour is proved by a contract test."""
    for row in rows():
        linked = re.findall(r"\]\((\.\./tests/[\w/]+\.py)\)", row.test)
        assert linked, row
        for path in linked:
            assert (PAGE.parent / path).is_file(), path


@pytest.mark.parametrize(("owner", "name"), refused_calls())
def test_unsupported_call_is_an_error(owner: type, name: str) -> None:
    """A call that this version does not support raises `InvalidOperationError` with a remedy; it is never ignored."""
    with oxbus.Namespace() as namespace:
        client: Any = owner(namespace)
        call = getattr(client, name)
        given = [
            parameter.name
            for parameter in inspect.signature(call).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        with pytest.raises(InvalidOperationError, match=r"not in this version.*[Uu]se .*queue") as raised:
            call(*given)
        assert raised.value.condition == "amqp:not-implemented"
