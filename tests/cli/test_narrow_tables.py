# SPDX-License-Identifier: Apache-2.0
"""`stats` and `peek` are readable with lines of 80 columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_NAME = "orders-of-all-customers-of-the-northern-region"


@pytest.fixture
def narrow(data: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    assert data
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def busy(ox: Callable[..., Any], narrow: None) -> None:  # noqa: ARG001 (sets the width)
    """Entities with messages in many states."""
    ox("queue", "create", "orders", "--partitioned")
    for number in range(4):
        ox(
            "send",
            "orders",
            f"order {number} " + 40 * "x",
            "--partition-key",
            "k",
            "--message-id",
            f"{number}-" + 34 * "y",
        )
    ox("topic", "create", "news")
    ox("subscription", "create", "news", "all")
    ox("send", "news", "hello")


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("command", [["stats"], ["stats", "orders"], ["peek", "orders"]], ids=" ".join)
def test_a_row_is_one_line(ox: Callable[..., Any], command: list[str]) -> None:
    """Columns without values are omitted, and texts are cut: each row is one line under one line of headings.

    A terminal of 80 columns broke names into pieces of three letters.
    """
    lines = ox(*command).out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = lines[0].split("  ")
    assert headings[0] in {"KIND", "SEQUENCE NUMBER"}
    if command[0] == "stats":
        assert "".join(lines[1:]).count("orders") == 1
        assert re.search(r"orders +4", lines[1])
    else:
        assert [re.search("order [0-3] x*…$", line) is not None for line in lines[1:]] == [True] * 4


@pytest.mark.usefixtures("busy")
def test_all_states_fit(ox: Callable[..., Any]) -> None:
    """For a queue with messages in every state the counts are shown and the sizes are omitted."""
    ox("receive", "orders", "--defer")
    ox("receive", "orders", "--dead-letter")
    ox("send", "orders", "later", "--scheduled", "1h")
    table = ox("stats").out.split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= 80
    assert table[0].split() == ["NAME", "ACTIVE", "DEFERRED", "SCHEDULED", "DEAD", "BYTES"] or table[0].startswith(
        "KIND"
    )
    assert any(re.search(r"orders +3 +1 +1 +1 ", line) for line in table)


@pytest.mark.usefixtures("narrow")
def test_long_names_become_paragraphs(ox: Callable[..., Any]) -> None:
    """A name is never cut: a row that does not fit becomes a paragraph that begins with the name."""
    ox("topic", "create", LONG_NAME)
    ox("subscription", "create", LONG_NAME, "everything-that-is-large")
    lines = ox("stats").out.splitlines()
    assert f"topic {LONG_NAME}" in lines
    assert f"subscription {LONG_NAME}/Subscriptions/everything-that-is-large" in lines
    assert lines[lines.index(f"topic {LONG_NAME}") + 1].startswith("    ")


def test_wide_lines_hold_everything(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a wide terminal, and in a pipe, nothing is omitted or cut."""
    for columns in ("200", ""):
        monkeypatch.setenv("COLUMNS", columns)
        print_table(["a", "b"], [["x" * 90, None]], defaults={"b": "-"}, cut=["a"])
        assert capsys.readouterr().out.splitlines() == ["A" + 91 * " " + "B", "x" * 90 + "  -"]
    monkeypatch.setenv("COLUMNS", "50")
    print_table(["a", "b"], [["x" * 90, None]], defaults={"b": "-"}, cut=["a"])
    assert capsys.readouterr().out.splitlines() == ["A", "x" * 49 + "…"]
