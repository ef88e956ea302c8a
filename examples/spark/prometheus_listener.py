# SPDX-License-Identifier: Apache-2.0
"""Exports the progress of streams that read from oxbus to Prometheus.

Needs `pip install prometheus-client`. Add the listener to the session before the queries start:

    prometheus_client.start_http_server(9400)
    spark.streams.addListener(PrometheusListener())
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge
from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

COUNTS = {
    "activeMessages": ("oxbus_query_active_messages", "Messages of the entity, those of the running batch too"),
    "deadLetterMessages": ("oxbus_query_dead_letter_messages", "Messages of its dead-letter queue"),
    "oldestMessageAgeSeconds": ("oxbus_query_oldest_message_age_seconds", "Age of the oldest active message"),
    "reservedMessages": ("oxbus_query_reserved_messages", "Messages of the last batch"),
    "lateMessages": ("oxbus_query_late_messages", "Messages completed too late, which others got as well"),
    "missingMessages": ("oxbus_query_missing_messages", "Messages missing from a batch that had lost its locks"),
    "commitMillis": ("oxbus_query_commit_milliseconds", "Time to complete the last batch"),
    "stagedBytes": ("oxbus_query_staged_bytes", "Rows of all sinks of the server that are not yet published"),
}
"""By the name of a count in the progress: the metric and its meaning."""


class PrometheusListener(StreamingQueryListener):
    """Sets gauges with the label `query`, the name of the query or its id."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        labels = ("query",)
        self._counts = {key: Gauge(name, text, labels, registry=registry) for key, (name, text) in COUNTS.items()}
        behind = "Messages of a partition that the query has not processed"
        self._behind = Gauge("oxbus_query_messages_behind", behind, ("query", "over"), registry=registry)
        self._rows = Counter("oxbus_query_rows", "Messages processed", labels, registry=registry)
        self._failures = Counter("oxbus_query_failures", "Ends of the query with an error", labels, registry=registry)
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name, as below)
        """Remember the name of a query."""
        self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Set the gauges of a query."""
        progress = event.progress
        query = progress.name or str(progress.id)
        self._rows.labels(query).inc(progress.numInputRows)
        for source in progress.sources:
            for key, value in _counts_of(source.latestOffset).items():
                if key == "messagesBehind":
                    for over, messages in value.items():
                        self._behind.labels(query, over).set(messages)
                elif key in self._counts:
                    # Without messages there is no oldest one.
                    self._counts[key].labels(query).set(value or 0)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Count a failure."""
        if event.exception is not None:
            self._failures.labels(self._names.get(str(event.id), str(event.id))).inc()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: an idle query has no new counts."""


def _counts_of(offset: Any) -> dict[str, Any]:
    """The counts of an oxbus source; none for others."""
    counts = json.loads(offset) if isinstance(offset, str) else offset
    return counts if isinstance(counts, dict) and "activeMessages" in counts else {}
