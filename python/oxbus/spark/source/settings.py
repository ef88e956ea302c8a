# SPDX-License-Identifier: Apache-2.0
"""Checked options as settings of a source or sink. Pickled into tasks; their repr shows no secrets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oxbus.spark.source.connection import Connection, connection_of
from oxbus.spark.source.options import MESSAGES_MAX, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from oxbus.spark.source.options import Use

_DEAD_LETTERS = "$deadletterqueue"

LOCK_SECONDS_MIN, LOCK_SECONDS_MAX = 0.5, 86_400.0
"""Limits of the lock of a reservation, as in rust/oxbus-model/src/caps.rs."""


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Settings of a read."""

    connection: Connection
    entity: str
    """The path as a receiver names it, such as `orders/$deadletterqueue`."""
    peek_lock: bool
    """Take messages under a reservation and settle them; otherwise browse."""
    consumer: str
    start: str | Mapping[int, int]
    start_time: datetime | None
    end: str | Mapping[int, int]
    end_time: datetime | None
    messages_max: int
    messages_min: int
    trigger_delay_seconds: float
    bytes_max: int
    sessions_max: int | None
    wait_seconds: float
    task_bytes: int
    tasks_min: int
    tasks_max: int
    lock_seconds: float
    batch_failures_max: int
    on_repeated_failure: str
    fail_on_data_loss: bool
    batch_bytes: int
    properties_as: str
    include_body: bool
    partitions: frozenset[int] | None
    push_filters: bool


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """Settings of a write."""

    connection: Connection
    entity: str | None
    """Queue or topic. None: each row names its own."""
    staged: bool
    sink_id: str | None
    ignore_extra_columns: bool
    properties_as: str


def source_settings(given: Mapping[str, str], use: Use) -> SourceSettings:
    """Check the options of a read.

    Raises:
        ValueError: An option is wrong, missing, or contradicts another.
    """
    options = read_options(given, use)
    stream = use == "stream read"
    entity = _received_entity(options)
    peek_lock = (options["receiveMode"] or ("peekLock" if stream else "peek")) == "peekLock"
    if peek_lock and not stream:
        raise ValueError(
            "option receiveMode: a batch read only browses, so it takes peek; "
            "drain a queue with readStream and trigger(availableNow=True)"
        )
    if stream and not peek_lock and options["subQueue"]:
        raise ValueError(
            "option receiveMode: dead letters do not arrive in the order of their numbers, so a browsing stream "
            "would miss some; use peekLock"
        )
    _check_places(options, peek_lock=peek_lock)
    if options["minPartitions"] > options["maxPartitions"]:
        raise ValueError(
            f"option minPartitions is above maxPartitions: {options['minPartitions']} > {options['maxPartitions']}"
        )
    fewest, most = options.get("minMessagesPerTrigger", 1), options.get("maxMessagesPerTrigger", MESSAGES_MAX)
    if fewest > most:
        raise ValueError(f"option minMessagesPerTrigger is above maxMessagesPerTrigger: {fewest} > {most}")
    lock_seconds = options.get("lockDuration", LOCK_SECONDS_MIN)
    if not LOCK_SECONDS_MIN <= lock_seconds <= LOCK_SECONDS_MAX:
        raise ValueError(
            f"option lockDuration takes {LOCK_SECONDS_MIN:g}s to {LOCK_SECONDS_MAX:g}s: `{lock_seconds:g}s`"
        )
    connection = connection_of(options)
    fail_on_data_loss = options["failOnDataLoss"]
    return SourceSettings(
        connection=connection,
        entity=entity,
        peek_lock=peek_lock,
        consumer=options.get("consumer") or _consumer_of(connection, entity),
        start=options["startingOffsets"] or "earliest",
        start_time=options["startingTimestamp"],
        end=options.get("endingOffsets") or "latest",
        end_time=options.get("endingTimestamp"),
        messages_max=options.get("maxMessagesPerTrigger", 0),
        messages_min=options.get("minMessagesPerTrigger", 1),
        trigger_delay_seconds=options.get("maxTriggerDelay", 0.0),
        bytes_max=options.get("maxBytesPerTrigger", 0),
        sessions_max=options.get("maxSessionsPerTrigger"),
        wait_seconds=options.get("maxWaitMs", 0) / 1000,
        task_bytes=options["targetPartitionBytes"],
        tasks_min=options["minPartitions"],
        tasks_max=options["maxPartitions"],
        lock_seconds=lock_seconds,
        batch_failures_max=options.get("maxBatchFailures", 0),
        on_repeated_failure=options.get("onRepeatedFailure", "fail"),
        fail_on_data_loss=peek_lock if fail_on_data_loss is None else fail_on_data_loss,
        batch_bytes=options["arrowBatchBytes"],
        properties_as=options["applicationPropertiesAs"],
        include_body=options["includeBody"],
        partitions=options["partitionFilter"],
        push_filters=options.get("pushFilters", False),
    )


def sink_settings(given: Mapping[str, str], use: Use) -> SinkSettings:
    """Check the options of a write.

    Raises:
        ValueError: An option is wrong, missing, or contradicts another.
    """
    options = read_options(given, use)
    if options["queue"] and options["topic"]:
        raise ValueError("options queue and topic are both given; a write has one target, so give one of them")
    delivery = options["delivery"] or ("exactlyOnce" if use == "stream write" else "atLeastOnce")
    if options["sinkId"] and delivery == "atLeastOnce":
        raise ValueError("option sinkId needs delivery exactlyOnce; add that, or leave sinkId out")
    return SinkSettings(
        connection=connection_of(options),
        entity=options["queue"] or options["topic"],
        staged=delivery == "exactlyOnce",
        sink_id=options["sinkId"],
        ignore_extra_columns=options["ignoreExtraColumns"],
        properties_as=options["applicationPropertiesAs"],
    )


def _received_entity(options: Mapping[str, Any]) -> str:
    queue, topic, subscription = options["queue"], options["topic"], options["subscription"]
    if queue and (topic or subscription):
        raise ValueError(
            "option queue is given together with topic or subscription; give queue, or topic and subscription"
        )
    if bool(topic) != bool(subscription):
        missing = "subscription" if topic else "topic"
        raise ValueError(f"option {missing} is missing; a read from a topic needs topic and subscription")
    if not queue and not topic:
        raise ValueError("option queue is missing; give queue, or topic and subscription")
    entity = queue or f"{topic}/Subscriptions/{subscription}"
    return f"{entity}/{_DEAD_LETTERS}" if options["subQueue"] else entity


def _check_places(options: Mapping[str, Any], *, peek_lock: bool) -> None:
    """Check that starts and ends suit the mode, and that each is given in one way only."""
    for place in ("starting", "ending"):
        if options.get(f"{place}Offsets") is not None and options.get(f"{place}Timestamp") is not None:
            raise ValueError(f"options {place}Offsets and {place}Timestamp are both given; give one of them")
    if options.get("endingOffsets") == "earliest":
        raise ValueError("option endingOffsets takes latest or JSON: `earliest`")
    if not peek_lock:
        for name in ("consumer", "maxSessionsPerTrigger", "includeSessionState"):
            if options.get(name):
                raise ValueError(
                    f"option {name} has no meaning when browsing; leave it out, or use receiveMode peekLock"
                )
        return
    if isinstance(options["startingOffsets"], dict) or options["startingTimestamp"] is not None:
        name = "startingOffsets" if options["startingTimestamp"] is None else "startingTimestamp"
        raise ValueError(
            f"option {name}: a stream that takes messages begins at earliest or latest, "
            "since others may take some too; browse with receiveMode peek to begin anywhere"
        )
    if options["partitionFilter"] is not None:
        raise ValueError(
            "option partitionFilter has a meaning only when browsing; leave it out, or use receiveMode peek"
        )


def _consumer_of(connection: Connection, entity: str) -> str:
    """Return the default consumer name: equal for every run of a stream on this entity."""
    endpoint = next((part for part in connection.string.split(";") if part.lower().startswith("endpoint=")), "")
    name = f"{endpoint.lower()}\n{entity.lower()}"
    return f"spark-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
