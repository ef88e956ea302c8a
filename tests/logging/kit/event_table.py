# SPDX-License-Identifier: Apache-2.0
"""The log events as defined in the sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]

_LEVELS = {"ERROR": "error", "WARN": "warning", "INFO": "info", "DEBUG": "debug"}


class Event(NamedTuple):
    """A log event.

    Attributes:
        constant: Its name in the sources.
        name: Its name in a line.
        logger: The logger in Python.
        level: Its severity.
    """

    constant: str
    name: str
    logger: str
    level: str


def events() -> list[Event]:
    """All events of the table."""
    source = (ROOT / "rust/oxbus-log/src/events.rs").read_text()
    found = re.findall(r'^    ([A-Z_]+) = "([a-z_.]+)", ([A-Z]+), ([A-Z]+);', source, re.MULTILINE)
    return [Event(constant, name, f"oxbus.{target.lower()}", _LEVELS[level]) for constant, name, target, level in found]
