# SPDX-License-Identifier: Apache-2.0
"""Loads the native module, whose allocator keeps freed memory for some time.

By default the allocator returns memory to the system 10 ms after it was freed and gets it back page by page for the
next messages, which costs more than storing them. Here it waits longer, unless `MIMALLOC_PURGE_DELAY` is set in the
environment. It reads its options once, when it is loaded.
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
        import oxbus._oxbus  # noqa: F401 (imported for its side effect)
    finally:
        # Child processes configure their own allocators.
        del os.environ[OPTION]
