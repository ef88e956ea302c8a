# SPDX-License-Identifier: Apache-2.0
"""Staged sends of a bulk client: every call, and the same errors as in the broker's own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus.exceptions import MessagingEntityNotFoundError, ServiceBusError

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.bulk import BulkClient


def test_stages_are_published_once(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """The commit publishes the rows of two tasks, and a repeated commit has no effect."""
    assert bulk.stage(queue_name, "task-1", rows(10_000)) == 10_000
    assert bulk.stage(queue_name, "task-2", rows(5)) == 5
    assert bulk.describe(queue_name)["active_messages"] == 0
    assert {(stage["id"], stage["rows"], stage["status"]) for stage in bulk.stages()} == {
        ("task-1", 10_000, "ready"),
        ("task-2", 5, "ready"),
    }
    assert bulk.commit_stages("sink", "query", 1, ["task-1", "task-2"]) is True
    assert bulk.describe(queue_name)["active_messages"] == 10_005
    assert bulk.commit_stages("sink", "query", 1, ["task-1", "task-2"]) is False
    assert bulk.describe(queue_name)["active_messages"] == 10_005


def test_stages_can_be_discarded(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Aborted and discarded stages are gone."""
    bulk.stage(queue_name, "task-1", rows(5))
    bulk.stage(queue_name, "task-2", rows(5))
    bulk.abort_stages("sink", "query", 1, ["task-1"])
    assert bulk.discard_stage("task-2") is True
    assert bulk.discard_stage("task-2") is False
    assert bulk.stages() == []
    with pytest.raises(ServiceBusError):
        bulk.commit_stages("sink", "query", 1, ["task-1"])


def test_wrong_rows_leave_no_stage(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A stage whose rows were rejected does not exist."""
    with pytest.raises(ValueError, match="row 1"):
        bulk.stage(queue_name, "task-1", rows(2, message_id=["a", "b" * 129]))
    with pytest.raises(MessagingEntityNotFoundError):
        bulk.stage("missing", "task-1", rows(1))
    assert bulk.stages() == []
    assert bulk.stage(queue_name, "task-1", rows(2, partition_id=pa.array([0, None], pa.int32()))) == 2
