# SPDX-License-Identifier: Apache-2.0
"""The audit of the fault suite names each broken promise: histories that are wrong on purpose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fault_audit import History, violations

if TYPE_CHECKING:
    from pathlib import Path

SENT: list[list[object]] = [["try", 0, "send", ["a"], 1.0], ["ack", 0, [], 2.0]]
RECEIVED: list[list[object]] = [["try", 1, "receive", [], 3.0], ["ack", 1, [["a", True, 3.5]], 4.0]]
COMPLETED: list[list[object]] = [["try", 2, "complete", ["a"], 5.0], ["ack", 2, [], 6.0]]
DEAD_LETTERED: list[list[object]] = [["try", 2, "dead_letter", ["a"], 5.0], ["ack", 2, [], 6.0]]
HERE = [("a", True)]


def broken(
    path: Path,
    records: list[list[object]],
    left: list[tuple[str, bool]] | None = None,
    dead: list[tuple[str, bool]] | None = None,
) -> list[str]:
    """Return the kinds of promises that a history breaks."""
    log = path / "log"
    log.write_text("".join(json.dumps(record) + "\n" for record in records) + '["try", 9')
    history = History([log])
    history.read()
    return [kind for kind, found in violations(history, left or [], dead or []).items() if found]


@pytest.mark.parametrize(
    ("records", "left", "dead"),
    [
        (SENT, HERE, []),
        (SENT[:1], [], []),
        (SENT[:1], HERE, []),
        ([*SENT, *RECEIVED, *COMPLETED], [], []),
        ([*SENT, *RECEIVED, COMPLETED[0]], [], []),
        ([*SENT, *RECEIVED, COMPLETED[0]], HERE, []),
        ([*SENT, *RECEIVED, *DEAD_LETTERED], [], HERE),
        ([*SENT, *RECEIVED, DEAD_LETTERED[0]], HERE, []),
    ],
)
def test_kept_promises(
    tmp_path: Path, records: list[list[object]], left: list[tuple[str, bool]], dead: list[tuple[str, bool]]
) -> None:
    """What was not acknowledged may have happened or not; a line that a kill cut off counts for nothing."""
    assert broken(tmp_path, records, left, dead) == []


@pytest.mark.parametrize(
    ("records", "left", "dead", "kind"),
    [
        (SENT, [], [], "lost"),
        ([*SENT, *RECEIVED, DEAD_LETTERED[0]], [], [], "lost"),
        ([*SENT, *RECEIVED, *DEAD_LETTERED], [], [], "lost"),
        ([], HERE, [], "forged"),
        (SENT, [("a", False)], [], "forged"),
        ([*SENT, RECEIVED[0], ["ack", 1, [["b", True, 3.5]], 4.0]], HERE, [], "forged"),
        (SENT, [*HERE, *HERE], [], "doubled"),
        (SENT, HERE, HERE, "doubled"),
        ([*SENT, *RECEIVED, *COMPLETED], HERE, [], "returned"),
        ([*SENT, *RECEIVED, *COMPLETED], [], HERE, "returned"),
        (
            [*SENT, *RECEIVED, *COMPLETED, ["try", 3, "receive", [], 7.0], ["ack", 3, [["a", True, 7.5]], 8.0]],
            [],
            [],
            "returned",
        ),
    ],
)
def test_broken_promises(
    tmp_path: Path, records: list[list[object]], left: list[tuple[str, bool]], dead: list[tuple[str, bool]], kind: str
) -> None:
    """Each kind is found, and no other."""
    assert broken(tmp_path, records, left, dead) == [kind]


def test_a_delivery_that_a_client_shows_late_does_not_return(tmp_path: Path) -> None:
    """What the old owner handed out before is no return, when a client notices later that its connection ended."""
    late: list[list[object]] = [["try", 3, "receive", [], 7.0], ["ack", 3, [["a", True, 3.4]], 8.0]]
    assert broken(tmp_path, [*SENT, *RECEIVED, *COMPLETED, *late]) == []
