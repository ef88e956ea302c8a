# SPDX-License-Identifier: Apache-2.0
"""How a command ends."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1
"""It failed, or it found that something is wrong."""
USAGE: Final = 2
"""Wrong usage, or something that it needs is missing."""
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""Whoever read the output stopped, as after ``| head``; what a shell says of a program that SIGPIPE ended."""


class UsageError(Exception):
    """The command line is wrong in a way that its parser does not see."""


class CommandError(Exception):
    """The command cannot do what it was asked for; the text says what to do."""
