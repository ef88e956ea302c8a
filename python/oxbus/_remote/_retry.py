# SPDX-License-Identifier: Apache-2.0
"""How often a call over the network is repeated, and how long it waits before.

Source: the retry options of `azure.servicebus.ServiceBusClient`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """The retry options of a client.

    Attributes:
        total: Retries after the first try.
        backoff_factor: Seconds before the first retry.
        backoff_max: Upper bound for the seconds between two retries.
        mode: ``"exponential"`` doubles the seconds before each further retry, ``"fixed"`` keeps them.
    """

    total: int = 3
    backoff_factor: float = 0.8
    backoff_max: float = 120
    mode: str = "exponential"

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: An option is out of its range.
        """
        if min(self.total, self.backoff_factor, self.backoff_max) < 0:
            raise ValueError("retry options must not be negative")
        if self.mode not in {"exponential", "fixed"}:
            raise ValueError(f"retry_mode must be 'exponential' or 'fixed': retry_mode=`{self.mode}`")

    def delay(self, retry: int, asked: float | None = None) -> float:
        """Return the seconds to wait before a retry.

        Args:
            retry: 0 before the first one.
            asked: The seconds that the server asked for, if any.
        """
        if asked is not None:
            return min(max(asked, 0), self.backoff_max)
        # A larger exponent than a float has would be an error, and the bound is reached long before.
        doublings = 0 if self.mode == "fixed" else min(retry, 64)
        return min(self.backoff_factor * 2.0**doublings, self.backoff_max)
