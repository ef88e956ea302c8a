# SPDX-License-Identifier: Apache-2.0
"""The options of `format("oxbus")`: their names, values and uses.

Names are case-insensitive, as in Spark. An unknown option, or one without a meaning for the operation, is an error: a
silently ignored option would be noticed only in production.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from oxbus.spark.source import values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Use = Literal["batch read", "stream read", "batch write", "stream write"]


class OptionNotForUseError(ValueError):
    """An option belongs to another kind of read or write."""


_READS: tuple[Use, ...] = ("batch read", "stream read")
_STREAM_READ: tuple[Use, ...] = ("stream read",)
_BATCH_READ: tuple[Use, ...] = ("batch read",)
_WRITES: tuple[Use, ...] = ("batch write", "stream write")
_ALL: tuple[Use, ...] = _READS + _WRITES

OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Spark's own options, which it passes along, in lower case."""


MESSAGES_MAX = 1_000_000
"""Largest batch in messages, as in rust/oxbus-model/src/caps.rs."""

_WAIT_MS_MAX = 60_000
"""Spark blocks during this wait."""


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str
    read: Callable[[str], Any]
    uses: tuple[Use, ...] = _ALL
    default: Any = None


_START = values.offsets("earliest or latest")

OPTIONS = (
    Option("connectionString", values.text),
    Option("connectionStringFile", values.text),
    Option("connectionStringEnv", values.text),
    Option("client.caFile", values.text),
    Option("client.timeout", values.seconds, default=60.0),
    Option("client.retryTimeout", values.seconds, default=30.0),
    Option("queue", values.text),
    Option("topic", values.text),
    Option("subscription", values.text, _READS),
    Option("subQueue", values.choice("deadLetter"), _READS),
    Option("receiveMode", values.choice("peekLock", "peek"), _READS),
    Option("consumer", values.text, _STREAM_READ),
    Option("startingOffsets", _START, _READS),
    Option("startingTimestamp", values.moment, _READS),
    Option("endingOffsets", values.offsets("latest"), _BATCH_READ),
    Option("endingTimestamp", values.moment, _BATCH_READ),
    Option("maxMessagesPerTrigger", values.integer(1, MESSAGES_MAX), _STREAM_READ, 100_000),
    Option("minMessagesPerTrigger", values.integer(1), _STREAM_READ, 1),
    Option("maxTriggerDelay", values.seconds, _STREAM_READ, 900.0),
    Option("maxBytesPerTrigger", values.size, _STREAM_READ, 256 << 20),
    Option("maxSessionsPerTrigger", values.integer(1, MESSAGES_MAX), _STREAM_READ),
    Option("includeSessionState", values.boolean, _STREAM_READ, default=False),
    Option("maxWaitMs", values.integer(0, _WAIT_MS_MAX), _STREAM_READ, 250),
    Option("targetPartitionBytes", values.size, _READS, 32 << 20),
    Option("minPartitions", values.integer(1), _READS, 1),
    Option("maxPartitions", values.integer(1), _READS, 16),
    Option("lockDuration", values.seconds, _STREAM_READ, 60.0),
    Option("maxBatchFailures", values.integer(1), _STREAM_READ, 10),
    Option("onRepeatedFailure", values.choice("fail", "deadLetterBatch", "bisect"), _STREAM_READ, "fail"),
    Option("failOnDataLoss", values.boolean, _READS),
    Option("arrowBatchBytes", values.size, _READS, 2 << 20),
    Option("applicationPropertiesAs", values.choice("map", "json", "variant"), _ALL, "map"),
    Option("includeBody", values.boolean, _READS, default=True),
    Option("partitionFilter", values.partitions, _READS),
    Option("pushFilters", values.boolean, _BATCH_READ, default=False),
    Option("delivery", values.choice("exactlyOnce", "atLeastOnce"), _WRITES),
    Option("sinkId", values.text, _WRITES),
    Option("ignoreExtraColumns", values.boolean, _WRITES, default=False),
)

_BY_LOWER_CASE = {option.name.lower(): option for option in OPTIONS}


def read_options(given: Mapping[str, str], *uses: Use) -> dict[str, Any]:
    """Check the options of one read or write, and parse their values.

    Args:
        given: The options from Spark, names in any letter case.
        uses: The possible operations; several while Spark has not selected one.

    Returns:
        The value of every option that applies, by its proper name.

    Raises:
        ValueError: An option is unknown, does not apply, or has an invalid value.
    """
    found: dict[str, Any] = {option.name: option.default for option in OPTIONS if set(uses) & set(option.uses)}
    for name, value in given.items():
        option = _BY_LOWER_CASE.get(name.lower())
        if option is None:
            if name.lower() in OF_SPARK:
                continue
            if name.lower().startswith("asyncprogresstracking"):
                raise ValueError(
                    f"option {name}: it makes Spark record finished batches late; "
                    "the oxbus source settles by these records, so leave it out"
                )
            raise ValueError(f"unknown option {name}; {_advice(name, uses)}")
        if option.name not in found:
            raise OptionNotForUseError(
                f"option {option.name} has no meaning for a {' or '.join(uses)}, "
                f"only for a {' or '.join(option.uses)}; leave it out"
            )
        try:
            found[option.name] = option.read(value)
        except ValueError as error:
            shown = "" if option.name == "connectionString" else f": `{value}`"
            raise ValueError(f"option {option.name} takes {error}{shown}") from None
    return found


def _advice(name: str, uses: tuple[Use, ...]) -> str:
    names = [option.name for option in OPTIONS if set(uses) & set(option.uses)]
    near = difflib.get_close_matches(name.lower(), [known.lower() for known in names], n=1)
    if near:
        return f"did you mean {_BY_LOWER_CASE[near[0]].name}?"
    return f"the options of a {' or '.join(uses)} are {', '.join(names)}"


def connection_options(given: Mapping[str, str]) -> dict[str, Any]:
    """Check options for the connection to the broker; other options of a stream are accepted.

    Raises:
        ValueError: An option is unknown or has an invalid value.
    """
    return read_options(given, *_ALL)
