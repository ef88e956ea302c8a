# SPDX-License-Identifier: Apache-2.0
"""Log lines of `oxbus serve` on standard error; other commands print their own messages."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from oxbus._oxbus import _flush_log
from oxbus.cli import _values

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Iterator

LEVELS: Final = ("error", "warning", "info", "debug")
FORMATS: Final = ("text", "json")

_STANDARD: Final = frozenset([*vars(logging.makeLogRecord({})), "asctime", "message"])
"""Attributes of every record; the others are the event and its fields."""

_FLUSH_SECONDS: Final = 5.0


def add_log_options(parser: ArgumentParser) -> None:
    """Add the options for level and format of the log."""
    group = parser.add_argument_group(
        "log", "Lines on standard error; the page Logging of the documentation lists the events."
    )
    group.add_argument("--log-level", choices=LEVELS, default="info", help="lowest level to log (default: %(default)s)")
    group.add_argument("--log-format", choices=FORMATS, default="text", help="format of a line (default: %(default)s)")
    group.add_argument(
        "--slow-call",
        type=_values.seconds,
        default=1.0,
        metavar="DURATION",
        help="log calls that wait at least this long for a disk; 0 for none (default: 1s)",
    )


@contextmanager
def log_lines(options: Options) -> Iterator[None]:
    """Write the log of oxbus to standard error during the with-block."""
    logger = logging.getLogger("oxbus")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if options.log_format == "json" else _TextLines())
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(options.log_level.upper())
    logger.propagate = False
    try:
        yield
    finally:
        _flush_log(_FLUSH_SECONDS)
        logger.removeHandler(handler)
        level, logger.propagate = before
        logger.setLevel(level)


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _TextLines(logging.Formatter):
    """Time, level, logger and message, separated by spaces."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 (of logging)
        return _time_of(record)


class _JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, event and its fields, all strings."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"time": _time_of(record), "level": record.levelname.lower(), "logger": record.name}
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if "event" in fields:
            line |= {"event": fields.pop("event"), **fields}
        else:
            # Lines of the package's Python code have a message instead of an event.
            line |= {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
