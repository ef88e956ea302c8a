# SPDX-License-Identifier: Apache-2.0
"""An event loop whose tasks wait for a slow store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def in_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run to the end, however slow the store is."""

    async def bounded() -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            await work()

    asyncio.run(bounded())
