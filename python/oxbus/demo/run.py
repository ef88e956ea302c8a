# SPDX-License-Identifier: Apache-2.0
"""The demo from start to end."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import oxbus
from oxbus import ServiceBusClient
from oxbus.demo import checks, exchange, stories
from oxbus.demo.encoding import PARTITIONS, encode_flights
from oxbus.demo.flights import FLIGHTS, FLIGHTS_WITHOUT_TAIL_NUMBER, InputMissingError, write_numbered_csv
from oxbus.demo.report import Report, print_report
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark.local import SparkDidNotStartError, local_session

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = "flights"


@dataclass(frozen=True)
class EncodedFlights:
    """What goes into the queue, and what is known about it from elsewhere."""

    batches: list[pa.RecordBatch]
    """Batches of `encoding.SCHEMA`, in sending order."""
    flights: int
    """How many flights there have to be."""
    keyless: int
    """How many of them have no tail number."""
    encode_seconds: float = 0.0


def encode_with_spark(progress: Progress) -> EncodedFlights:
    """Read the real flights, place and encode them in Spark."""
    with tempfile.TemporaryDirectory(prefix="oxbus-demo-") as directory:
        numbered_csv = Path(directory, "flights.csv")
        write_numbered_csv(numbered_csv)
        starting = progress.add_task("starting Spark", total=None)
        with local_session("oxbus demo") as spark:
            progress.update(starting, total=1, completed=1)
            encoding = progress.add_task("placing and encoding in Spark", total=FLIGHTS)
            started = time.perf_counter()
            batches = encode_flights(spark, numbered_csv, lambda rows: progress.advance(encoding, rows))
            seconds = time.perf_counter() - started
    return EncodedFlights(batches, FLIGHTS, FLIGHTS_WITHOUT_TAIL_NUMBER, seconds)


def run(
    progress: Progress,
    encode: Callable[[Progress], EncodedFlights] = encode_with_spark,
    make_client: Callable[[oxbus.Namespace], ServiceBusClient] = ServiceBusClient,
) -> Report:
    """Send the flights through a queue, drain it, and judge what came out.

    Args:
        progress: Shows how far each stage is.
        encode: Delivers the flights; tests bring a few of their own.
        make_client: Makes the client; tests bring one that loses or misroutes messages.

    Returns:
        The report; its `passed` is false as soon as one message is wrong.

    Raises:
        InputMissingError: The flights are not installed.
        SparkDidNotStartError: Spark or Java is missing.
    """
    began = time.perf_counter()
    encoded = encode(progress)
    total = sum(batch.num_rows for batch in encoded.batches)
    with oxbus.Namespace(partitions=PARTITIONS) as namespace, make_client(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue(QUEUE, enable_partitioning=True)
        sending = progress.add_task("sending", total=total)
        sent = exchange.send(client, QUEUE, encoded.batches, lambda rows: progress.advance(sending, rows))
        receiving = progress.add_task("receiving and completing", total=total)
        received = exchange.receive(client, QUEUE, lambda rows: progress.advance(receiving, rows))
        left_in_queue = admin.get_queue_runtime_properties(QUEUE).total_message_count or 0

    checking = progress.add_task("checking", total=None)
    tables = [one.messages for one in received]
    findings = [
        *checks.check_input(sent.messages, encoded.flights, encoded.keyless),
        *checks.check_placement(sent.messages, PARTITIONS),
        *checks.check_delivery(sent.messages, tables, PARTITIONS, left_in_queue),
    ]
    told = [stories.lock_expiry(), stories.dead_letter()]
    progress.update(checking, total=1, completed=1)

    partition_ids = pa.concat_tables(tables)["partition_id"].to_numpy()
    return Report(
        messages_per_partition=np.bincount(partition_ids, minlength=PARTITIONS).tolist(),
        messages_per_receiver=[table.num_rows for table in tables],
        checks=findings,
        stories=told,
        seconds={
            "encode": encoded.encode_seconds,
            "send": sent.seconds,
            "receive": max(one.seconds for one in received),
            "total": time.perf_counter() - began,
        },
    )


def main(*, as_json: bool = False) -> int:
    """Run the demo on the real flights and print what it found.

    Returns:
        0 when every count is right, 1 when one is not, 2 when the demo could not run.
    """
    console = Console()
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, TimeElapsedColumn(), console=errors if as_json else console) as progress:
            report = run(progress)
    except (InputMissingError, SparkDidNotStartError) as error:
        errors.print(f"[bold red]The demo cannot run:[/] {error}", highlight=False)
        return 2
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        print_report(report, console)
    return 0 if report.passed else 1
