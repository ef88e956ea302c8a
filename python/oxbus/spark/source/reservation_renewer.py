# SPDX-License-Identifier: Apache-2.0
"""Renews the locks of a query's batch while the query runs, regardless of how long a batch takes."""

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
"""Longer than a renewal takes. If the broker is unavailable, the thread ends with its process instead."""


class ReservationRenewer:
    """A thread that renews a consumer's locks until it is stopped or a newer query acquires the consumer."""

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
        """Stop renewing; the locks then expire."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._lock_seconds / _RENEWALS_PER_LOCK):
            try:
                self._client.renew(self._entity, self._consumer, self._epoch, lock_duration=self._lock_seconds)
            except ReservationFencedError:
                return  # the next callback of the query reports it
            except ServiceBusError as error:
                # The next plan locks expired messages again.
                _log.warning("locks of consumer %s were not renewed: %s", self._consumer, error)
