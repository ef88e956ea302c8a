# SPDX-License-Identifier: Apache-2.0
"""The option of `oxbus serve` for traces: spans of the server, exported with OTLP over HTTP."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from oxbus.cli._exit_codes import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import TracerProvider

    from oxbus.server import Server


def add_traces(parser: ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--otlp-endpoint",
        metavar="URL",
        help="the OpenTelemetry collector for the server's spans, with OTLP over HTTP, such as http://localhost:4318 "
        "(default: no spans)",
    )


def tracer_provider(options: Options) -> TracerProvider | None:
    """Return what exports spans as the option says; None without it. Nothing is open yet that an error would close.

    Raises:
        UsageError: The packages are missing, or the URL is none.
    """
    url: str | None = options.otlp_endpoint
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--otlp-endpoint must be a URL such as http://localhost:4318: `{url}`")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise UsageError("--otlp-endpoint needs packages for the export: pip install 'oxbus[otlp]'") from None
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or "oxbus"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url.rstrip('/')}/v1/traces")))
    return provider


@contextlib.contextmanager
def exported_spans(provider: TracerProvider | None, server: Server) -> Iterator[None]:
    """Export the spans of a server until the block ends; the block closes the server."""
    if provider is None:
        yield
        return
    from oxbus import otel  # noqa: PLC0415 -- needs the packages

    spans = otel.trace_server(server, provider)
    try:
        yield
    finally:
        server.close()
        spans.join()
        provider.shutdown()
