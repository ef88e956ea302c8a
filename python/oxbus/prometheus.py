# SPDX-License-Identifier: Apache-2.0
"""Metrics of a namespace in this process for `prometheus_client`.

    pip install 'oxbus[prometheus]'

    from prometheus_client import start_http_server, REGISTRY
    from oxbus.prometheus import NamespaceCollector

    REGISTRY.register(NamespaceCollector(namespace))
    start_http_server(9100)

A server (`oxbus serve`, `oxbus.server.serve`) answers `GET /metrics` with the same metrics and needs none of this.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from oxbus import MetricHistogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.metrics_core import Metric

    from oxbus import MetricFamily, Namespace

__all__ = ["NamespaceCollector"]


class NamespaceCollector(Collector):
    """Reads the metrics of a namespace at each scrape.

    Args:
        namespace: An open namespace. Creating the collector switches its metrics on: counters start at zero then.

    Raises:
        ValueError: The namespace is closed.

    Source: docs/metrics.md.
    """

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        namespace.metrics()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics at this time. `prometheus_client` calls it.

        Raises:
            ValueError: The namespace was closed; unregister the collector first.
        """
        return [_metric(family) for family in self._namespace.metrics()]

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not scrape."""
        return []


def _metric(family: MetricFamily) -> Metric:
    names = list(family.samples[0][0]) if family.samples else []
    metric: Metric
    if family.kind == "histogram":
        metric = histogram = HistogramMetricFamily(family.name, family.help, labels=names)
        for labels, value in family.samples:
            if isinstance(value, MetricHistogram):
                buckets = [("+Inf" if bound == inf else str(bound), count) for bound, count in value.buckets]
                histogram.add_metric(_values(names, labels), buckets, value.sum)
        return metric
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = flat = kind(family.name, family.help, labels=names)
    for labels, value in family.samples:
        if not isinstance(value, MetricHistogram):
            flat.add_metric(_values(names, labels), value)
    return metric


def _values(names: list[str], labels: Mapping[str, str]) -> list[str]:
    return [labels[name] for name in names]
