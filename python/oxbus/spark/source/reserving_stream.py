# SPDX-License-Identifier: Apache-2.0
"""`readStream` with `receiveMode` peekLock: each batch is a reservation, settled when Spark has finished it.

Spark asks for the offset after a batch only once it has recorded the batch as committed, even if no new messages
arrive. This question is the signal to settle the batch; Spark's own `commit` comes with the next batch, which may be
never.
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

    Spark calls one instance on the driver and pickles another one to the tasks; all that a task knows of its batch is
    in the task.
    """

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        check_source_schema(schema, settings.properties_as)
        self._settings = settings
        self._schema = schema
        self._consumer: Consumer | None = None
        self._last: Offset | None = None
        """The last offset: before 4.2 Spark does not pass it to `latestOffset`."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_consumer": None}

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name, as below)
        """Return where a new query begins; Spark asks again after a restart in the first batch."""
        self._last = self._driver().first_offset
        return self._last

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of a trigger."""
        return read_limit(self._settings.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the current end, where the query stops."""
        self._driver().stop_at_current_end()

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Settle finished batches and reserve the next one."""
        driver = self._driver()
        start = start or self._last or driver.first_offset
        driver.complete(start)
        if limit is None:
            return driver.reserve_after(start, self._settings.messages_max, self._settings.bytes_max)
        messages = messages_allowed(limit)
        if messages is None:  # a trigger without a limit
            return driver.reserve_after(start, MESSAGES_MAX, _UNLIMITED_BYTES)
        return driver.reserve_after(start, min(messages, MESSAGES_MAX), self._settings.bytes_max)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return counts of messages, shown as latest offset in the progress of the query."""
        return None if self._consumer is None else self._consumer.report()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Divide a batch into tasks; a replayed batch has the same messages."""
        self._last = end
        if start == end:
            return []
        return list(self._driver().tasks(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of one task, once per attempt."""
        return read_task(self._settings, arrow_schema(self._schema), partition)

    def commit(self, end: Offset) -> None:
        """Settle finished batches; usually they are settled already."""
        self._driver().complete(end)

    def stop(self) -> None:
        """Stop the renewal of locks."""
        if self._consumer is not None:
            self._consumer.stop()

    def _driver(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
        return self._consumer
