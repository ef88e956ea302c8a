# SPDX-License-Identifier: Apache-2.0
"""The columns of a write: types are checked before any task runs, values before rows leave a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from oxbus.spark.source.settings import SinkSettings

_KEYS = ("partition_key", "session_id")
_TEXTS = ("message_id", "subject", "content_type", "correlation_id", "reply_to", "to", "queue")

_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "body": ("binary or string", (BinaryType, StringType)),
    **dict.fromkeys(_KEYS, ("string, or binary that is UTF-8", (StringType, BinaryType))),
    **dict.fromkeys(_TEXTS, ("string", (StringType,))),
    "partition_id": ("int", (ByteType, ShortType, IntegerType, LongType)),
    "time_to_live": ("interval day to second, such as INTERVAL '90' SECOND", (DayTimeIntervalType,)),
    "scheduled_enqueue_time_utc": ("timestamp", (TimestampType,)),
    "application_properties": ("map<string,string>", (MapType,)),
}
_PROPERTIES: dict[str, tuple[str, tuple[type, ...]]] = {
    "map": _KINDS["application_properties"],
    "json": ("string with a JSON object", (StringType,)),
    "variant": ("variant", (VariantType,)),
}
"""The accepted types of each column, in words and as Spark types."""

SINK_COLUMNS = tuple(_KINDS)

_ADVICE = {
    **dict.fromkeys(_KEYS, "; cast it to string first, so that it hashes as it is read"),
    "application_properties": "; the option applicationPropertiesAs selects its form: map, json or variant",
}


@dataclass(frozen=True)
class Target:
    """A queue or topic as the target of rows."""

    entity: str
    partitions: int


def sink_columns(schema: StructType, settings: SinkSettings) -> list[str]:
    """Check the columns of a write.

    Returns:
        The columns to send. Other columns exist only if the settings ignore them.

    Raises:
        ValueError: A column is missing, unknown, or has the wrong type.
    """
    names = [field.name for field in schema.fields]
    if "body" not in names:
        raise ValueError(f"column body is missing; the frame has {', '.join(names) or 'no columns'}")
    extra = [name for name in names if name not in _KINDS]
    if extra and not settings.ignore_extra_columns:
        raise ValueError(
            f"unknown column{'s' if len(extra) > 1 else ''} {', '.join(extra)}; messages have {', '.join(_KINDS)}. "
            "Drop the others, or set ignoreExtraColumns to true"
        )
    if settings.entity is None and "queue" not in names:
        raise ValueError("option queue is missing; give queue or topic, or a column queue with the target of each row")
    for field in schema.fields:
        if field.name in _KINDS:
            _check_type(field.name, field.dataType, settings.properties_as)
    return [name for name in names if name in _KINDS]


def _check_type(name: str, kind: Any, properties_as: str) -> None:
    words, kinds = _KINDS[name]
    if name == "application_properties":
        words, kinds = _PROPERTIES[properties_as]
    good = isinstance(kind, kinds)
    if good and isinstance(kind, MapType):
        good = isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    if not good:
        raise ValueError(f"column {name} must be {words}, not {kind.simpleString()}{_ADVICE.get(name, '')}")


def by_target(
    batch: pa.RecordBatch, columns: list[str], target: Target | None, partitions: Mapping[str, int]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by target, with columns that the broker accepts.

    Args:
        batch: Rows from Spark.
        columns: The columns to send.
        target: The target of all rows. None: each row names its own.
        partitions: Number of partitions by target; requested only if rows name a partition.

    Raises:
        ValueError: A row has no target, an invalid partition, or a key that is not text.
    """
    import pyarrow as pa  # noqa: PLC0415 -- in the worker
    import pyarrow.compute as pc  # noqa: PLC0415

    rows = batch.select([name for name in columns if name != "queue"])
    if target is not None:
        yield target.entity, _checked(rows, target.entity, {target.entity: target.partitions})
        return
    queues = batch.column("queue")
    if queues.null_count:
        raise ValueError("column queue is null in some rows; name a queue in each, or set the option queue")
    for entity in sorted(pc.unique(queues).to_pylist()):
        yield entity, _checked(rows.filter(pc.equal(queues, pa.scalar(entity))), entity, partitions)


def _checked(rows: pa.RecordBatch, entity: str, partitions: Mapping[str, int]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    for name in _KEYS:
        if name in rows.schema.names and not pa.types.is_string(rows.column(name).type):
            try:
                text = rows.column(name).cast(pa.string())
            except pa.ArrowInvalid:
                raise ValueError(f"column {name} has bytes that are not UTF-8; keys are text") from None
            rows = rows.set_column(rows.schema.get_field_index(name), name, text)
    if "partition_id" in rows.schema.names:
        requested = rows.column("partition_id").cast(pa.int64())
        ends = pc.min_max(requested).as_py()
        count = partitions[entity]
        if ends["max"] is not None and (ends["min"] < 0 or ends["max"] >= count):
            wrong = ends["min"] if ends["min"] < 0 else ends["max"]
            raise ValueError(f"column partition_id has {wrong}; `{entity}` has partitions 0 to {count - 1}")
        for name in _KEYS:
            if (
                name in rows.schema.names
                and pc.any(pc.and_(requested.is_valid(), rows.column(name).is_valid())).as_py()
            ):
                raise ValueError(
                    f"rows have partition_id and {name}; the key decides the partition, so give one of them"
                )
        rows = rows.set_column(rows.schema.get_field_index("partition_id"), "partition_id", requested.cast(pa.int32()))
    return rows
