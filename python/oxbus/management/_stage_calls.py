# SPDX-License-Identifier: Apache-2.0
"""Looking after staged sends: which there are, and giving one up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._paging import ItemPaged
from oxbus.management._stages import StageProperties
from oxbus.management._translation import utc

if TYPE_CHECKING:
    from oxbus._oxbus import Namespace


class StageCalls:
    """The calls on stages."""

    _namespace: Namespace

    def list_stages(self) -> ItemPaged[StageProperties]:
        """Return the stages of the namespace, oldest first: what tasks have put aside and no commit has published.

        An iterator with `by_page`, as other lists.
        """
        return ItemPaged(self._stages)

    def _stages(self) -> list[StageProperties]:
        return [
            StageProperties(
                stage_id=stage["id"],
                entity=stage["entity"],
                status=stage["status"],
                created_at_utc=utc(stage["created_at_ms"]),
                expires_at_utc=utc(stage["expires_at_ms"]),
                row_count=stage["rows"],
                size_in_bytes=stage["bytes"],
                sink=stage["sink"],
                batch=stage["batch"],
                reason=stage["reason"],
            )
            for stage in self._namespace._stages().stages()
        ]

    def discard_stage(self, stage_id: str) -> bool:
        """Remove a stage with its rows.

        One that was committed cannot be removed, unless it is damaged: then its rows are given up, and the batch is
        published without them.

        Args:
            stage_id: Its id.

        Returns:
            Whether there was such a stage.

        Raises:
            InvalidOperationError: Its task is writing, or its rows are being published.
        """
        return self._namespace._stages().discard_stage(stage_id)
