# SPDX-License-Identifier: Apache-2.0
"""Encoded flights: what Spark hands over, and what is sent."""

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
"""One encoded flight; `spark_partition` is Spark's opinion and does not travel."""


@dataclass(frozen=True)
class EncodedFlights:
    """What goes into the queue, and what is known about it from elsewhere."""

    batches: list[pa.RecordBatch]
    """Batches of `SCHEMA`, in sending order."""
    flights: int
    """How many flights there have to be."""
    keyless: int
    """How many of them have no tail number."""
    encode_seconds: float = 0.0
    bulk: ScenarioResult | None = None
    """What Spark's tasks did by the bulk path, without the driver."""
