# SPDX-License-Identifier: Apache-2.0
"""The options of `format("oxbus")`: which there are, what each takes, and where it has a meaning.

Names are compared without regard to letter case, as Spark does. An option that is unknown, or that has no meaning for
what is done, is an error: one that is silently ignored is found out in production.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from oxbus.spark.source import values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Use = Literal["batch read", "stream read", "batch write", "stream write"]

_READS: tuple[Use, ...] = ("batch read", "stream read")
_STREAM_READ: tuple[Use, ...] = ("stream read",)
_BATCH_READ: tuple[Use, ...] = ("batch read",)
_WRITES: tuple[Use, ...] = ("batch write", "stream write")
_ALL: tuple[Use, ...] = _READS + _WRITES

OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""What Spark hands over although it is meant for Spark itself, in lower case."""


MESSAGES_MAX = 1_000_000
"""Messages of a batch, as in rust/oxbus-model/src/caps.rs."""

_WAIT_MS_MAX = 60_000
"""Spark waits for the answer meanwhile."""


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
    Option("maxBytesPerTrigger", values.size, _STREAM_READ, 256 << 20),
    Option("maxWaitMs", values.integer(0, _WAIT_MS_MAX), _STREAM_READ, 250),
    Option("targetPartitionBytes", values.size, _READS, 32 << 20),
    Option("minPartitions", values.integer(1), _READS, 1),
    Option("maxPartitions", values.integer(1), _READS, 16),
    Option("lockDuration", values.seconds, _STREAM_READ, 60.0),
    Option("failOnDataLoss", values.boolean, _READS),
    Option("arrowBatchBytes", values.size, _READS, 2 << 20),
    Option("applicationPropertiesAs", values.choice("map", "json"), _ALL, "map"),
    Option("includeBody", values.boolean, _READS, default=True),
    Option("partitionFilter", values.partitions, _READS),
    Option("pushFilters", values.boolean, _BATCH_READ, default=False),
    Option("delivery", values.choice("exactlyOnce", "atLeastOnce"), _WRITES),
    Option("sinkId", values.text, _WRITES),
    Option("ignoreExtraColumns", values.boolean, _WRITES, default=False),
)

_BY_LOWER_CASE = {option.name.lower(): option for option in OPTIONS}


def read_options(given: Mapping[str, str], *uses: Use) -> dict[str, Any]:
    """Check the options of one read or write, and read their values.

    Args:
        given: As Spark hands them over, names in any letter case.
        uses: What they are for; several while Spark does not say it yet.

    Returns:
        The value of every option that has a meaning there, under its own name.

    Raises:
        ValueError: An option is unknown, has no meaning here, or has a value that it does not take.
    """
    found: dict[str, Any] = {option.name: option.default for option in OPTIONS if set(uses) & set(option.uses)}
    for name, value in given.items():
        option = _BY_LOWER_CASE.get(name.lower())
        if option is None:
            if name.lower() in OF_SPARK:
                continue
            if name.lower().startswith("asyncprogresstracking"):
                raise ValueError(
                    f"option {name}: with it Spark notes a batch as done later than it is; "
                    "the oxbus source settles by these notes, so leave it out"
                )
            raise ValueError(f"unknown option {name}; {_advice(name, uses)}")
        if option.name not in found:
            raise ValueError(
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
    """Check options that only say how to reach the broker; others that a stream may have are let pass.

    Raises:
        ValueError: One is unknown or has a value that it does not take.
    """
    return read_options(given, *_ALL)
