# SPDX-License-Identifier: Apache-2.0
"""A micro-batch query without Spark: calls a stream's source and sink in Spark's order, with offsets as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from driven import copied, rows_of
from oxbus.spark.source.data_source import OxbusDataSource

if TYPE_CHECKING:
    from collections.abc import Mapping


class Query:
    """One run of a query; its offset log and commit log are lists that outlive the run."""

    def __init__(self, options: Mapping[str, str], offsets: list[str], commits: list[int]) -> None:
        source = copied(OxbusDataSource(dict(options)))
        self.schema = source.schema()
        self.reader = source.streamReader(self.schema)
        self.offsets = offsets
        self.commits = commits

    @property
    def start(self) -> Any:
        """The offset at which the next batch begins."""
        done = len(self.commits)
        return json.loads(self.offsets[done - 1]) if done else self._initial()

    def plan(self, limit: Any = None) -> bool:
        """Get the next offset and log it, unless a batch is repeated; return whether there is a batch."""
        if len(self.offsets) > len(self.commits):
            return True
        start = self.start
        end = json.dumps(self.reader.latestOffset(start, limit))
        if end == json.dumps(start):
            return False
        self.offsets.append(end)
        return True

    def tasks(self) -> list[Any]:
        """The tasks of the planned batch."""
        tasks: list[Any] = self.reader.partitions(self.start, json.loads(self.offsets[-1]))
        return tasks

    def read(self) -> list[dict[str, Any]]:
        """Read the planned batch."""
        return rows_of(self.reader, self.tasks(), self.schema)

    def commit(self) -> None:
        """Log that the batch is done."""
        self.commits.append(len(self.commits))

    def run(self, limit: Any = None) -> list[list[dict[str, Any]]]:
        """Run batches until there are no new messages."""
        batches = []
        while self.plan(limit):
            batches.append(self.read())
            self.commit()
        return batches

    def stop(self) -> None:
        """End this run."""
        self.reader.stop()

    def _initial(self) -> Any:
        return json.loads(json.dumps(self.reader.initialOffset()))
