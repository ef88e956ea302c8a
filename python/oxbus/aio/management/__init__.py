# SPDX-License-Identifier: Apache-2.0
"""Entities made, changed and looked at, for asyncio. Properties and their classes are those of `oxbus.management`."""

from __future__ import annotations

from oxbus.aio.management._client import ServiceBusAdministrationClient

__all__ = ["ServiceBusAdministrationClient"]
