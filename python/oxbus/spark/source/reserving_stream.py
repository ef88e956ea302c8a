# SPDX-License-Identifier: Apache-2.0
"""`readStream` with `receiveMode` peekLock: each batch is a reservation, settled when Spark is done with it.

The signal that a batch is done is Spark's question for the offset behind it: Spark asks only after it has noted the
batch as committed, also when nothing new comes. Its own `commit` comes with the next batch, which may be never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from oxbus.spark.source.consumer import Consumer
from oxbus.spark.source.options import MESSAGES_MAX
from oxbus.spark.source.pages import read_task
from oxbus.spark.source.schemas import arrow_schema, check_source_schema
from oxbus.spark.source.versions import AvailableNow, messages_allowed, read_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from oxbus.spark.source.offsets import Offset
    from oxbus.spark.source.settings import SourceSettings

_UNLIMITED_BYTES = 1 << 50


class ReservingStreamReader(DataSourceStreamReader, AvailableNow):
    """The reader of a stream that takes messages.

    The one that Spark calls on the driver is not the one that reads: that is another instance, pickled to the tasks,
    and all it knows of a batch stands in the tasks.
    """

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        check_source_schema(schema, settings.properties_as)
        self._settings = settings
        self._schema = schema
        self._consumer: Consumer | None = None
        self._last: Offset | None = None
        """Before 4.2 Spark does not say behind which offset it asks for the next one."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_consumer": None}

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name, as below)
        """Where a new query begins; asked again after a restart when the first batch was not finished."""
        self._last = self._driver().first_offset
        return self._last

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """What a trigger takes at most."""
        return read_limit(self._settings.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note what there is: the query ends there."""
        self._driver().stop_at_current_end()

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Settle what is done, and reserve the next batch."""
        driver = self._driver()
        start = start or self._last or driver.first_offset
        driver.complete(start)
        if limit is None:
            return driver.reserve_after(start, self._settings.messages_max, self._settings.bytes_max)
        messages = messages_allowed(limit)
        if messages is None:  # a trigger that takes all there is
            return driver.reserve_after(start, MESSAGES_MAX, _UNLIMITED_BYTES)
        return driver.reserve_after(start, min(messages, MESSAGES_MAX), self._settings.bytes_max)

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """What the progress of the query shows as the latest: how many messages there are."""
        return None if self._consumer is None else self._consumer.report()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Share out a batch; a replayed one has the messages that it had."""
        self._last = end
        if start == end:
            return []
        return list(self._driver().tasks(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read what one task was given, as often as it is tried."""
        return read_task(self._settings, arrow_schema(self._schema), partition)

    def commit(self, end: Offset) -> None:
        """Settle what is done; mostly it is settled already."""
        self._driver().complete(end)

    def stop(self) -> None:
        """End the renewal of locks."""
        if self._consumer is not None:
            self._consumer.stop()

    def _driver(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
        return self._consumer
