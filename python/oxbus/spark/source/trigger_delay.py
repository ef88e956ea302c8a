# SPDX-License-Identifier: Apache-2.0
"""Waits with a batch until there are enough messages, or until the last batch is long enough ago."""

from __future__ import annotations

import time


class TriggerDelay:
    """The options minMessagesPerTrigger and maxTriggerDelay of one query run."""

    def __init__(self, messages_min: int, delay_seconds: float) -> None:
        """Begin a run; its first batch waits as if one had just begun.

        Args:
            messages_min: The number of messages that is enough.
            delay_seconds: How long a batch waits for them at most.
        """
        self._messages_min = messages_min
        self._delay_seconds = delay_seconds
        self._began = time.monotonic()

    @property
    def is_set(self) -> bool:
        """Whether a batch may have to wait."""
        return self._messages_min > 1

    def holds(self, messages: int) -> bool:
        """Whether a batch of so many messages waits for more."""
        return messages < self._messages_min and time.monotonic() - self._began < self._delay_seconds

    def begin_batch(self) -> None:
        """Note that a batch begins."""
        self._began = time.monotonic()
