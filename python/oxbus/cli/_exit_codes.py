# SPDX-License-Identifier: Apache-2.0
"""Exit codes and errors of commands."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1
"""The command failed, or it found a problem."""
USAGE: Final = 2
"""Wrong usage, or a package is missing."""
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""The reader of the output closed the pipe, as ``| head`` does. Shells report SIGPIPE by this code."""


class UsageError(Exception):
    """The command line is wrong in a way that its parser does not detect."""


class CommandError(Exception):
    """The command failed; the text explains what the user can do."""
