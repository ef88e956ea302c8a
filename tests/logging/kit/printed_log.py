# SPDX-License-Identifier: Apache-2.0
"""A log handler that prints each record as JSON with all its attributes."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from oxbus._oxbus import _flush_log

PATIENCE_SECONDS = 60
"""Time that a program waits for a line; never a measure of speed."""


class PrintedLog(logging.Handler):
    """A handler that prints and keeps records."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, with the text of its line as `text`."""
        fields: dict[str, Any] = {**vars(record), "text": record.getMessage()}
        sys.stdout.write(json.dumps(fields, default=str) + "\n")
        sys.stdout.flush()
        self.events.append(fields.get("event", ""))

    def until(self, event: str) -> None:
        """Wait for a line of an event."""
        end = time.monotonic() + PATIENCE_SECONDS
        while event not in self.events:
            _flush_log(1)
            if time.monotonic() > end:
                raise TimeoutError(f"no line of {event} came; there were {self.events}")
            time.sleep(0.02)


def print_log(level: int = logging.DEBUG) -> PrintedLog:
    """Start printing the log lines of oxbus."""
    log = PrintedLog()
    logger = logging.getLogger("oxbus")
    logger.addHandler(log)
    logger.setLevel(level)
    logger.propagate = False
    return log
