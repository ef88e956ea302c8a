# SPDX-License-Identifier: Apache-2.0
"""Encoded flights, as Spark returns them and as they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from oxbus.demo.scenarios import ScenarioResult

PARTITIONS = 16
"""Partitions of the queue, and tasks of the Spark stage that encodes."""

SCHEMA = pa.schema(
    [
        ("message_id", pa.string()),
        ("partition_key", pa.string()),
        ("body", pa.binary()),
        ("spark_partition", pa.int32()),
    ]
)
"""One encoded flight; `spark_partition` is the partition that Spark computed, and is not sent."""


@dataclass(frozen=True)
class EncodedFlights:
    """The messages to send, and their expected counts from another source."""

    batches: list[pa.RecordBatch]
    """Batches of `SCHEMA`, in sending order."""
    flights: int
    """Expected number of flights."""
    keyless: int
    """Expected number of flights without a tail number."""
    encode_seconds: float = 0.0
    bulk: ScenarioResult | None = None
    """Result of the bulk path by Spark's tasks, without the driver."""
