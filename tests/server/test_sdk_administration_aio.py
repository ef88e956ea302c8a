# SPDX-License-Identifier: Apache-2.0
"""The unmodified asynchronous administration client of azure-servicebus over https (B-456, B-457)."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.core.pipeline.transport import AioHttpTransport
from azure.servicebus.aio.management import ServiceBusAdministrationClient
from azure.servicebus.management import SqlRuleFilter

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.server import Server

pytest.importorskip("aiohttp")


def test_entities_are_made_read_changed_listed_and_deleted(server: Server, certificate: Path) -> None:
    """Each kind of call once."""

    async def use() -> None:
        transport = AioHttpTransport(connection_verify=str(certificate))
        connection = ServiceBusAdministrationClient.from_connection_string(
            server.connection_string, transport=transport, retry_total=0
        )
        async with connection as sdk:
            await asyncio.gather(*(sdk.create_queue(f"q{number:03}") for number in range(120)))
            assert len([queue async for queue in sdk.list_queues()]) == 120
            queue = await sdk.create_queue("orders", enable_partitioning=True)
            queue.max_delivery_count = 3
            await sdk.update_queue(queue)
            assert (await sdk.get_queue("orders")).max_delivery_count == 3
            assert (await sdk.get_queue_runtime_properties("orders")).total_message_count == 0
            await sdk.create_topic("news")
            await sdk.create_subscription("news", "all")
            await sdk.create_rule("news", "all", "r", filter=SqlRuleFilter("a=1"))
            assert [rule.name async for rule in sdk.list_rules("news", "all")] == ["$Default", "r"]
            assert (await sdk.get_namespace_properties()).namespace_type == "Messaging"
            await sdk.delete_topic("news")
            with pytest.raises(ResourceNotFoundError):
                await sdk.get_topic("news")

    asyncio.run(use())


def test_certificate_file_is_of_the_running_server(server: Server, certificate: Path) -> None:
    """The file contains exactly the issuer that the server presents."""
    trusting = ssl.create_default_context(cafile=str(certificate))
    (issuer,) = trusting.get_ca_certs()
    assert certificate.read_text() == server.certificate
    assert issuer["subject"] == ((("commonName", "oxbus development issuer"),),)
