# SPDX-License-Identifier: Apache-2.0
"""Staged sends: tasks stage columns, and one commit publishes them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any

import oxbus
import pyarrow as pa
from oxbus.management import ServiceBusAdministrationClient
from plan import WHOLE, Plan

from cases.arrow import ROWS, keyed_batch
from cases.bus import QUEUE
from cases.case import Case, expect

TASKS = 4
BATCHES = 4
"""Record batches of each task."""
IDS = [f"task-{task}" for task in range(TASKS)]


@dataclass
class Job:
    """A namespace, its stages, what each task writes, and where it is."""

    namespace: oxbus.Namespace
    stages: Any
    table: pa.Table
    directory: tempfile.TemporaryDirectory[str] | None

    def stage(self) -> None:
        """Let every task write its stage."""
        for name in IDS:
            self.stages.stage(QUEUE, name, self.table)

    def commit(self) -> bool:
        """Publish them."""
        return bool(self.stages.commit_stages("sink", "query", 0, IDS))

    def stage_and_commit(self) -> bool:
        """Do both."""
        self.stage()
        return self.commit()

    def close(self) -> None:
        """Close the namespace and remove its directory."""
        self.namespace.close()
        if self.directory is not None:
            self.directory.cleanup()


def _open(size: int, durability: str | None, batches: int) -> Job:
    directory = None if durability is None else tempfile.TemporaryDirectory(prefix="oxbus-bench-")
    namespace = oxbus.Namespace() if directory is None else oxbus.Namespace(directory.name, durability=durability)
    ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
    stages = namespace._stages()  # noqa: SLF001 -- the plane that executors use ends in the same calls
    return Job(namespace, stages, pa.Table.from_batches([keyed_batch(size)] * batches), directory)


def _staged(size: int, durability: str | None, batches: int) -> Job:
    job = _open(size, durability, batches)
    job.stage()
    return job


def _check_staged(job: Job, _answer: None) -> None:
    expect("rows staged", sum(stage["rows"] for stage in job.stages.stages()), TASKS * job.table.num_rows)


def _check_committed(job: Job, answer: bool) -> None:
    expect("the batch is new", answer, wanted=True)
    expect("messages in the queue", job.namespace.statistics()["messages"], TASKS * job.table.num_rows)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Staging, committing, and both: in memory and in a directory at either level."""
    return [case for durability in (None, "os", "fsync") for case in _cases_of(1024, durability, plan.of(BATCHES))]


def _cases_of(size: int, durability: str | None, batches: int) -> list[Case]:
    empty, staged = (partial(ready, size, durability, batches) for ready in (_open, _staged))

    def case(operation: str, prepare: Any, run: Any, check: Any) -> Case:
        bench_id = f"{operation}/1KiB/{durability or 'memory'}"
        return Case(bench_id, "oxbus", TASKS * batches * ROWS, prepare, run, check, Job.close)

    return [
        case("stage", empty, Job.stage, _check_staged),
        case("commit_stages", staged, Job.commit, _check_committed),
        case("stage_and_commit", empty, Job.stage_and_commit, _check_committed),
    ]
