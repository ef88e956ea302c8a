# SPDX-License-Identifier: Apache-2.0
import sys

from oxbus.cli import main

sys.exit(main())
