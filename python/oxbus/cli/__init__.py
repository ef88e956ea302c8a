# SPDX-License-Identifier: Apache-2.0
"""The command `oxbus`: a module for each group of commands, and what they share.

Exit codes: 0 done, 1 failed or something is wrong, 2 wrong usage or something missing, 130 interrupted,
141 nobody reads the output any more.
"""

from oxbus.cli._run import main

__all__ = ["main"]
