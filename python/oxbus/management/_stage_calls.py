# SPDX-License-Identifier: Apache-2.0
"""Listing and discarding stages of staged sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._paging import ItemPaged
from oxbus.management._stages import StageProperties
from oxbus.management._translation import utc

if TYPE_CHECKING:
    from oxbus.management._transport import AdministrationTransport


class StageCalls:
    """The stage operations of the administration client."""

    _transport: AdministrationTransport

    def list_stages(self) -> ItemPaged[StageProperties]:
        """Return the stages of the namespace that no commit has published, oldest first, with `by_page`.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.

        Source: docs/bulk.md.
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
            for stage in self._transport.namespace_for("list_stages")._stages().stages()
        ]

    def discard_stage(self, stage_id: str) -> bool:
        """Remove a stage with its rows.

        A committed stage cannot be removed unless it is damaged: then its rows are lost, and the batch is published
        without them.

        Args:
            stage_id: The id of the stage.

        Returns:
            Whether the stage existed.

        Raises:
            InvalidOperationError: The stage is being written or published, or this process does not own all partitions.
            OperationTimeoutError: Another commit of the sink did not end in time.
            PartitionUnavailableError: The store that records the sink failed.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: The namespace is closed.

        Source: docs/bulk.md.
        """
        return self._transport.namespace_for("discard_stage")._stages().discard_stage(stage_id)
