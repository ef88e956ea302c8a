# SPDX-License-Identifier: Apache-2.0
"""`spark.read.format("oxbus")`: browses the messages present at planning time; it locks and settles nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from oxbus.spark.source.entity import describe
from oxbus.spark.source.filters import PushedFilters
from oxbus.spark.source.pages import read_task
from oxbus.spark.source.positions import average_bytes, end_positions, first_positions, slices_between
from oxbus.spark.source.schemas import arrow_schema, check_source_schema
from oxbus.spark.source.tasks import Task, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from oxbus.spark.source.settings import SourceSettings


class BatchReader(DataSourceReader):
    """Reads between positions that are fixed at planning time, so that every action reads the same range."""

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        check_source_schema(schema, settings.properties_as)
        self._settings = settings
        self._schema = schema
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        """Describe the entity and divide its messages into tasks."""
        settings = self._settings
        client = settings.connection.client()
        entity = describe(client, settings.entity)
        begin, end = first_positions(client, entity, settings), end_positions(client, entity, settings)
        begin, end = self._filters.positions(begin, end, partitioned=entity.partitions > 1)
        shares = slices_between(begin, end, average_bytes(client, entity, begin, end))
        packed = pack(
            shares, task_bytes=settings.task_bytes, tasks_min=settings.tasks_min, tasks_max=settings.tasks_max
        )
        return [Task(shares) for shares in packed]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of one task; Spark creates an empty task where there are none."""
        if not isinstance(partition, Task):
            return iter(())
        return read_task(self._settings, arrow_schema(self._schema), partition, self._filters.keep)


class FilteringBatchReader(BatchReader):
    """A reader with filter pushdown.

    It is a separate class because Spark rejects pushdown unless its configuration allows it.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        """Keep the filters that reduce reading; Spark evaluates all of them again."""
        self._filters.add(filters)
        return filters
