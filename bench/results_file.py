# SPDX-License-Identifier: Apache-2.0
"""Result files: what was measured, on which commit and machine, how durable, and how quiet it was.

Runs of the kinds `memory` and `peers` left bodies unread before files had the field `bodies`, under ids that now read
them. Such files stay as they were, and no report takes anything from them.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from record import Record

RESULTS = Path(__file__).parent / "results"
BODIES = {"bodies": "read"}
ALWAYS_READ = ("durable", "amqp")
"""Kinds whose clients have read every body since there are such runs."""


@dataclass(frozen=True)
class Beginning:
    """The state of the machine when a run began."""

    about: dict[str, object]
    ticks: tuple[int, int]
    clock: float


def begin() -> Beginning:
    """Look at the machine before a run."""
    return Beginning(machine.description(), machine.cpu_ticks(), time.perf_counter())


def save(kind: str, began: Beginning, rounds: int, record: Record, **more: object) -> Path:
    """Write a result file; `kind` is what the report looks for: `memory`, `durable`, `peers` or `amqp`."""
    now = datetime.now(tz=UTC)
    document = {
        "kind": kind,
        "measured_at": now.isoformat(timespec="seconds"),
        "commit": machine.commit(),
        "machine": began.about,
        "noise": machine.noise_since(began.ticks),
        "sync_mode": "memory",  # rows on disk name their own
        **BODIES,
        **more,
        "rounds": rounds,
        "seconds": round(time.perf_counter() - began.clock, 1),
        "results": record.rows,
    }
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    # A row is a line, so that files stay small and differences readable.
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in record.rows)
    head = json.dumps({**document, "results": []}, indent=1, ensure_ascii=False)
    file.write_text(head.replace('"results": []', f'"results": [\n{rows}\n ]') + "\n", encoding="utf-8")
    print(f"\nwritten to {file.relative_to(RESULTS.parent.parent)}")
    return file


def newest_first(kind: str) -> Iterator[dict[str, Any]]:
    """The result files of a kind whose bodies were read; `file` names each."""
    for file in sorted(RESULTS.glob("*.json"), reverse=True):
        document = json.loads(file.read_text(encoding="utf-8"))
        # Older files have no kind: those with a disk are of queues on disk, the others lack what a report needs.
        its_kind = document.get("kind", "durable" if "disk" in document else "")
        if its_kind == kind and (kind in ALWAYS_READ or BODIES.items() <= document.items()):
            yield {**document, "file": file.name}
