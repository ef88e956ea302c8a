# SPDX-License-Identifier: Apache-2.0
"""The command `oxbus`: one module for each group of commands, and modules that they share.

Exit codes: 0 done, 1 failed or a problem was found, 2 wrong usage or a missing package, 130 interrupted, 141 the reader
of the output closed the pipe.
"""

from oxbus.cli._run import main

__all__ = ["main"]
