# SPDX-License-Identifier: Apache-2.0
"""Keeps the locks of a query's batch alive while the query runs, however long a batch takes."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from oxbus.exceptions import ReservationFencedError, ServiceBusError

if TYPE_CHECKING:
    from oxbus._oxbus import BulkClient

_log = logging.getLogger("oxbus.spark")

_RENEWALS_PER_LOCK = 3
_STOP_SECONDS = 5.0
"""Longer than a renewal takes, unless the broker is away; then the thread is left to end with its process."""


class ReservationRenewer:
    """A thread that renews a consumer's locks until it is stopped, or until a newer query has the consumer."""

    def __init__(self, client: BulkClient, entity: str, consumer: str, epoch: int, lock_seconds: float) -> None:
        self._client = client
        self._entity = entity
        self._consumer = consumer
        self._epoch = epoch
        self._lock_seconds = lock_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oxbus-renewal", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let the locks end."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._lock_seconds / _RENEWALS_PER_LOCK):
            try:
                self._client.renew(self._entity, self._consumer, self._epoch, lock_duration=self._lock_seconds)
            except ReservationFencedError:
                return  # the next callback of the query says so
            except ServiceBusError as error:
                # What lapsed is locked again by the next plan; until then there is nothing to do but to go on.
                _log.warning("locks of consumer %s were not renewed: %s", self._consumer, error)
