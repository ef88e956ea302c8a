# SPDX-License-Identifier: Apache-2.0
"""Loads the native part, whose allocator keeps for a while what messages gave back.

The allocator gives memory to the system 10 ms after it was freed, and gets it back page by page when the next messages
come, which costs more than storing them. So it waits longer here, as others do; `MIMALLOC_PURGE_DELAY` in the
environment wins. It reads its options once, when it is loaded.
"""

from __future__ import annotations

import os

OPTION = "MIMALLOC_PURGE_DELAY"
KEEP_MS = 5000

if OPTION in os.environ:
    import oxbus._oxbus
else:
    os.environ[OPTION] = str(KEEP_MS)
    try:
        import oxbus._oxbus  # noqa: F401 (loading it is the point)
    finally:
        # Other programs that this process starts have allocators of their own.
        del os.environ[OPTION]
