# SPDX-License-Identifier: Apache-2.0
"""The data source class behind `format("oxbus")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from oxbus.spark.source.settings import sink_settings, source_settings

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

# A planning worker of Spark needs only one of these classes, so each is imported on use.


class OxbusDataSource(DataSource):
    """Reads and writes queues, topics and subscriptions of a server; see docs/guide/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "oxbus"

    def schema(self) -> StructType:
        """Return the columns that a read yields. Spark calls it in `load`, unless the reader has a schema.

        Raises:
            ValueError: An option is wrong, or does not suit the entity; Spark shows the text on the driver.
            ServiceBusError: The entity does not exist, or the broker cannot be reached.
        """
        from oxbus.spark.source.declared import check_source  # noqa: PLC0415
        from oxbus.spark.source.options import read_options  # noqa: PLC0415
        from oxbus.spark.source.schemas import source_schema  # noqa: PLC0415

        check_source(self.options, "stream read", "batch read")
        options = read_options(self.options, "batch read", "stream read")
        return source_schema(
            options["applicationPropertiesAs"],
            include_body=options["includeBody"],
            include_session_state=options["includeSessionState"],
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader of `spark.read`."""
        from oxbus.spark.source.batch_reader import BatchReader, FilteringBatchReader  # noqa: PLC0415
        from oxbus.spark.source.versions import PUSHES_FILTERS  # noqa: PLC0415

        settings = source_settings(self.options, "batch read")
        if settings.push_filters and not PUSHES_FILTERS:
            raise ValueError(
                "option pushFilters needs PySpark 4.1 or newer; leave it out, or select messages by other options"
            )
        return (FilteringBatchReader if settings.push_filters else BatchReader)(settings, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name, as below)
        """Create the reader of `spark.readStream`."""
        from oxbus.spark.source.browse_stream import BrowsingStreamReader  # noqa: PLC0415
        from oxbus.spark.source.reserving_stream import ReservingStreamReader  # noqa: PLC0415

        settings = source_settings(self.options, "stream read")
        return (ReservingStreamReader if settings.peek_lock else BrowsingStreamReader)(settings, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Create the writer of `df.write`."""
        from oxbus.spark.source.batch_writer import BatchWriter  # noqa: PLC0415

        if overwrite:
            raise ValueError("a queue cannot be overwritten; write with mode append")
        return BatchWriter(sink_settings(self.options, "batch write"), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Create the writer of `df.writeStream`."""
        from oxbus.spark.source.stream_writer import OxbusStreamWriter  # noqa: PLC0415

        if overwrite:
            raise ValueError("a queue cannot be overwritten; write with output mode append")
        return OxbusStreamWriter(sink_settings(self.options, "stream write"), schema)
