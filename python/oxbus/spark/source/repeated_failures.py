# SPDX-License-Identifier: Apache-2.0
"""What a query does with a batch that ended without success in too many of its starts.

The broker counts how often the consumer was acquired since it reserved the batch. `bisect` needs no memory beyond that:
each start after the limit keeps half of the messages that are left and releases the others, and a single message that
still fails is dead-lettered. Once a half succeeds, the released messages come in batches of its size, each of which is
one failure away from being halved. They may be mixed with others, so a few more batches are treated like that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oxbus._oxbus import BulkClient
    from oxbus.spark.source.settings import SourceSettings

_log = logging.getLogger("oxbus.spark")

REASON: Final = "BatchFailedRepeatedly"
"""The dead-letter reason of messages whose batch failed too often."""


class BatchFailedRepeatedlyError(RuntimeError):
    """A batch ended without success in as many starts as `maxBatchFailures` allows."""


class RepeatedFailures:
    """Decides about the batches of one query run."""

    def __init__(self, client: BulkClient, settings: SourceSettings, epoch: int) -> None:
        self._client = client
        self._settings = settings
        self._epoch = epoch
        self._decided = 0
        self._piece = 0
        """Messages in each of the next batches, while there are suspects."""
        self._suspects = 0
        """About how many messages of a halved batch wait for the next ones."""

    def limits(self, messages_max: int) -> dict[str, int]:
        """Return the limits of the next batch, which is small after a halved one."""
        if self._suspects <= 0:
            return {"max_messages": messages_max}
        return {"max_messages": min(messages_max, self._piece), "attempts": self._settings.batch_failures_max - 1}

    def reserved(self, messages: int) -> None:
        """Note that the next batch is reserved, with so many messages."""
        self._suspects -= messages

    def decide(self, number: int, plan: dict[str, Any]) -> bool:
        """Remove messages from a batch that failed too often.

        Returns:
            Whether messages were removed, so that the plan must be made again.

        Raises:
            BatchFailedRepeatedlyError: `onRepeatedFailure` is `fail`.
        """
        settings = self._settings
        failures = plan["attempt"] - 1
        if failures < settings.batch_failures_max or number == self._decided or not plan["messages"]:
            return False
        self._decided = number
        what = (
            f"batch {number} of consumer `{settings.consumer}` of `{settings.entity}` ended without success in "
            f"{failures} starts of its query; messages: {plan['messages']}"
        )
        if settings.on_repeated_failure == "fail":
            raise BatchFailedRepeatedlyError(
                f"{what}; find the cause in the errors of these starts, then raise maxBatchFailures to try again, or "
                "set onRepeatedFailure to bisect or deadLetterBatch to continue without the messages"
            )
        numbers = [
            number for part in plan["partitions"] for first, last in part["ranges"] for number in range(first, last + 1)
        ]
        if settings.on_repeated_failure == "bisect" and len(numbers) > 1:
            # In the order of the numbers, so that a session keeps its first messages.
            self._piece = (len(numbers) + 1) // 2
            released = self._settle(plan, numbers[self._piece :], "release")
            # Earlier starts released halves, too, each twice as large as the following one.
            self._suspects = self._piece * ((2 << failures - settings.batch_failures_max) - 1)
            _log.warning("%s, of which %d are left for the next batch", what, released)
            return True
        settled = self._settle(plan, numbers, "dead_letter", reason=REASON, description=what)
        _log.error("%s, of which %d were dead-lettered with the reason %s", what, settled, REASON)
        return True

    def _settle(self, plan: dict[str, Any], numbers: list[int], outcome: Any, **details: Any) -> int:
        """Settle messages of a plan; repeating it does no harm, because it skips those that are settled."""
        return self._client.settle_reserved(self._settings.entity, plan["id"], self._epoch, numbers, outcome, **details)
