# SPDX-License-Identifier: Apache-2.0
"""`oxbus stage list | discard`, and the stages in `oxbus stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def staged(data: Path, ox: Callable[..., Any]) -> None:
    """A queue, and two stages for it."""
    ox("queue", "create", "orders", "--partitioned")
    with oxbus.Namespace(data) as namespace:
        for number, name in enumerate(("one", "two"), start=1):
            namespace._stages().stage("orders", name, pa.table({"body": [b"x"] * number}))


@pytest.mark.usefixtures("staged")
def test_stages_are_listed(ox: Callable[..., Any]) -> None:
    """Stages are shown as a table and as JSON, alone and in the statistics."""
    lines = [line.split() for line in ox("stage", "list").out.splitlines()]
    assert lines[0][:5] == ["STAGE", "ENTITY", "STATUS", "ROWS", "BYTES"]
    assert [line[:4] for line in lines[1:]] == [["one", "orders", "ready", "1"], ["two", "orders", "ready", "2"]]
    stages = ox("stage", "list", "--json").json
    assert [(stage["stage_id"], stage["row_count"]) for stage in stages] == [("one", 1), ("two", 2)]
    assert ox("stats", "--json").json["stages"] == stages
    assert [line.split()[0] for line in ox("stats").out.split("\n\n")[2].splitlines()] == ["STAGE", "one", "two"]


@pytest.mark.usefixtures("staged")
def test_stage_is_discarded(ox: Callable[..., Any], run: Callable[..., Any]) -> None:
    """An unknown stage is an error."""
    assert ox("stage", "discard", "one").out == ""
    assert [stage["stage_id"] for stage in ox("stage", "list", "--json").json] == ["two"]
    refused = run("stage", "discard", "one")
    assert refused.code == 1
    assert "`one`" in refused.err
    assert ox("stage", "discard", "two", "--json").json == {"discarded": "two"}


def test_stats_omit_stages_when_there_are_none(ox: Callable[..., Any]) -> None:
    """The table is omitted."""
    ox("queue", "create", "orders")
    assert len(ox("stats").out.split("\n\n")) == 2
    assert ox("stats", "--json").json["stages"] == []
