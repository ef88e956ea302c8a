# SPDX-License-Identifier: Apache-2.0
"""What is checked when a read or write is declared, before any batch: options, entity and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus.spark.source.entity import describe
from oxbus.spark.source.options import OptionNotForUseError
from oxbus.spark.source.settings import sink_settings, source_settings
from oxbus.spark.source.sink_columns import sink_columns
from oxbus.spark.source.task_writer import target_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from oxbus.spark.source.entity import Entity
    from oxbus.spark.source.options import Use
    from oxbus.spark.source.settings import SourceSettings


def check_source(given: Mapping[str, str], *uses: Use) -> None:
    """Check a read.

    Args:
        given: The options.
        uses: The possible operations; several while Spark has not selected one.

    Raises:
        ValueError: An option is wrong, or does not suit the entity.
        ServiceBusError: The entity does not exist, or the broker cannot be reached.
    """
    settings = _source_settings(given, uses)
    check_with_entity(settings, describe(settings.connection.client(), settings.entity))


def check_with_entity(settings: SourceSettings, entity: Entity) -> None:
    """Check settings that depend on the entity.

    Raises:
        ValueError: A setting does not suit the entity.
    """
    if settings.sessions_max is not None and not entity.requires_session:
        raise ValueError(f"option maxSessionsPerTrigger: `{settings.entity}` does not require sessions; leave it out")


def check_sink(given: Mapping[str, str], use: Use, schema: StructType) -> None:
    """Check a write.

    Raises:
        ValueError: An option or a column is wrong.
        ServiceBusError: The entity does not exist, or the broker cannot be reached.
    """
    settings = sink_settings(given, use)
    sink_columns(schema, settings)
    target_of(settings)


def _source_settings(given: Mapping[str, str], uses: tuple[Use, ...]) -> SourceSettings:
    """Return the settings of the first use that the options allow.

    Raises:
        ValueError: They allow none.
    """
    refused: list[ValueError] = []
    for use in uses:
        try:
            return source_settings(given, use)
        except ValueError as error:
            refused.append(error)
    # An option of a stream is no mistake of a batch.
    relevant = [error for error in refused if not isinstance(error, OptionNotForUseError)]
    raise (relevant or refused)[0]
