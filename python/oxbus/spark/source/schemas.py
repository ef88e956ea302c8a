# SPDX-License-Identifier: Apache-2.0
"""The columns of a read, and conversion of messages to exactly the Arrow types that Spark requires."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

_TEXT = StringType()

_COLUMNS: dict[str, Any] = {
    "body": BinaryType(),
    "message_id": _TEXT,
    "session_id": _TEXT,
    "partition_key": _TEXT,
    "subject": _TEXT,
    "correlation_id": _TEXT,
    "content_type": _TEXT,
    "to": _TEXT,
    "reply_to": _TEXT,
    "application_properties": MapType(_TEXT, _TEXT),
    "scheduled_enqueue_time_utc": TimestampType(),
    "time_to_live": DayTimeIntervalType(),
    "sequence_number": LongType(),
    "partition_id": IntegerType(),
    "enqueued_time_utc": TimestampType(),
    "delivery_count": IntegerType(),
    "state": _TEXT,
    "dead_letter_reason": _TEXT,
    "dead_letter_error_description": _TEXT,
    "reservation_id": _TEXT,
    "queue": _TEXT,
    "session_state": BinaryType(),
}
"""Message properties by name; the last three are the reservation, the entity, and the state of the session."""

ADDED_COLUMNS = ("reservation_id", "queue", "session_state")


def source_schema(properties_as: str, *, include_body: bool, include_session_state: bool) -> StructType:
    """Return the columns of a read."""
    left_out = {name for name, is_in in (("body", include_body), ("session_state", include_session_state)) if not is_in}
    columns = _columns(properties_as)
    return StructType([StructField(name, kind) for name, kind in columns.items() if name not in left_out])


def drained_schema(names: Sequence[str] | None) -> StructType:
    """Return the columns of messages without a reservation: all, or those named.

    Raises:
        ValueError: A name is unknown.
    """
    kinds = {name: kind for name, kind in _COLUMNS.items() if name not in {"reservation_id", "session_state"}}
    for name in names or ():
        if name not in kinds:
            raise ValueError(f"unknown column {name}; messages have {', '.join(kinds)}")
    return StructType([StructField(name, kinds[name]) for name in names or kinds])


def check_source_schema(schema: StructType, properties_as: str) -> None:
    """Check columns that the reader selected with `.schema(...)`.

    Raises:
        ValueError: A column is unknown or has another type.
    """
    columns = _columns(properties_as)
    for field in schema.fields:
        kind = columns.get(field.name)
        if kind is None:
            raise ValueError(f"unknown column {field.name}; messages have {', '.join(columns)}")
        if field.dataType != kind:
            raise ValueError(
                f"column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}; "
                "read it with that type and cast it afterwards"
            )


def _columns(properties_as: str) -> dict[str, Any]:
    kinds = {"map": _COLUMNS["application_properties"], "json": _TEXT, "variant": VariantType()}
    return _COLUMNS | {"application_properties": kinds[properties_as]}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema that batches must match exactly."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 -- in the worker

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark 4.0 has no such parameter
        return to_arrow_schema(schema)


def as_batches(
    page: Any,
    target: pa.Schema,
    constants: Mapping[str, str | None],
    states: Mapping[str, bytes | None] = MappingProxyType({}),
) -> list[pa.RecordBatch]:
    """Convert a page of messages to batches of the given columns.

    Args:
        page: Anything with the Arrow stream interface.
        target: The columns.
        constants: Columns with the same value in all messages of a page.
        states: The states of sessions by id, for the column `session_state`.
    """
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    batches = []
    for batch in pa.RecordBatchReader.from_stream(page):
        columns = []
        for field in target:
            if field.name in constants:
                column = pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
            elif field.name == "session_state":
                ids = batch.column("session_id").to_pylist() if states else [None] * batch.num_rows
                column = pa.array([None if id_ is None else states.get(id_) for id_ in ids], field.type)
            else:
                column = batch.column(field.name)
                if column.type != field.type:
                    column = column.cast(field.type)
            columns.append(column)
        batches.append(pa.RecordBatch.from_arrays(columns, schema=target))
    return batches
