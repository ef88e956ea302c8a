# SPDX-License-Identifier: Apache-2.0
"""The properties of stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProperties:
    """Rows that a task has staged and that a commit will publish.

    Attributes:
        stage_id: Its id; the name of its file when the id cannot be read.
        entity: The queue or topic of its rows; empty when unknown or deleted.
        status: ``"open"`` while its task is writing, ``"ready"`` for a commit, ``"committed"`` while its rows are being
            published, ``"damaged"`` when it cannot be read.
        created_at_utc: When it was created; None when that cannot be read.
        expires_at_utc: When it is removed unless a commit names it; None when it stays.
        row_count: Number of rows; 0 while its task is writing.
        size_in_bytes: Size of the rows, in bytes.
        sink: The sink that committed it.
        batch: The batch that it is part of.
        reason: Why it cannot be read.

    Source: docs/bulk.md.
    """

    stage_id: str
    entity: str
    status: str
    created_at_utc: datetime | None
    expires_at_utc: datetime | None
    row_count: int
    size_in_bytes: int
    sink: str | None
    batch: int | None
    reason: str | None
