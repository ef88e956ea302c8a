# SPDX-License-Identifier: Apache-2.0
"""The counts that the progress of a query shows as the latest offset of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxbus.spark.source.entity import Entity


def entity_progress(entity: Entity, behind: Sequence[int]) -> dict[str, Any]:
    """Return the counts of an entity.

    Args:
        entity: Its current description.
        behind: By partition, the messages that the query has not processed.
    """
    return {
        "activeMessages": entity.active_messages,
        "deadLetterMessages": entity.dead_letter_messages,
        "oldestMessageAgeSeconds": entity.oldest_age_seconds,
        "messagesBehind": {"min": min(behind), "avg": sum(behind) / len(behind), "max": max(behind)},
        "stagedBytes": entity.staged_bytes,
    }
