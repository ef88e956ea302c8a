# SPDX-License-Identifier: Apache-2.0
"""Repeats calls while the broker is away, such as during its restart. All calls of driver and tasks go through here."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from oxbus.exceptions import (
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("oxbus.spark")

REPEATABLE: Final = frozenset({
    "abort_stages",
    "acquire",
    "commit_stages",
    "complete",
    "describe",
    "peek",
    "plan",
    "read",
    "renew",
    "reservations",
    "reserve",
    "reserved_sessions",
    "settle_reserved",
    "stage",
})  # fmt: skip
"""Calls that may be made again after an unknown effect: they change nothing, or the broker recognises repetitions."""

ONCE: Final = frozenset({"send"})
"""Calls that are repeated only if their error reports that they had no effect."""

AWAY: Final = (ServiceBusConnectionError, ServiceBusCommunicationError, ServiceBusServerBusyError)
"""Errors of a broker that is away or busy."""

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0


class Repeating:
    """The calls of a client, repeated while the broker is away."""

    def __init__(self, client: Any, retry_seconds: float) -> None:
        """Wrap a client.

        Args:
            client: A `BulkClient`.
            retry_seconds: How long a call is repeated after its first error.
        """
        self._client = client
        self._retry_seconds = retry_seconds

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the repeating form of a call."""
        if name not in REPEATABLE | ONCE:
            raise AttributeError(f"no call of a Spark job: `{name}`")
        call = getattr(self._client, name)

        def repeated(*args: Any, **options: Any) -> Any:
            return self._repeat(name, lambda: call(*args, **options))

        return repeated

    def _repeat(self, name: str, call: Callable[[], Any]) -> Any:
        deadline: float | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return call()
            except AWAY as error:
                if name in ONCE and error.effect not in {None, "none"}:
                    raise
                now = time.monotonic()
                if deadline is None:
                    deadline = now + self._retry_seconds
                    _log.info("%s is repeated for up to %g seconds: %s", name, self._retry_seconds, error)
                # The tasks of a stage must not all come back at the same moment.
                wait = random.uniform(pause / 2, pause)  # noqa: S311 (nothing secret)
                if now + wait > deadline:
                    self._give_up(error)
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _give_up(self, error: ServiceBusError) -> NoReturn:
        text = (
            f"the broker was away for more than {self._retry_seconds:g} seconds; start it and the query again, or "
            f"raise the option client.retryTimeout: {error}"
        )
        raise type(error)(text, effect=error.effect) from error
