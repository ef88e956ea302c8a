# SPDX-License-Identifier: Apache-2.0
"""The administration client for asyncio. The property classes are those of `oxbus.management`."""

from __future__ import annotations

from oxbus.aio.management._client import ServiceBusAdministrationClient

__all__ = ["ServiceBusAdministrationClient"]
