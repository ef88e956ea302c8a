# SPDX-License-Identifier: Apache-2.0
"""The asynchronous administration client over HTTP: every call once, without blocking its event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from oxbus.aio.management import ServiceBusAdministrationClient
from oxbus.exceptions import InvalidOperationError, ResourceNotFoundError, ServiceBusConnectionError
from oxbus.management import SqlRuleFilter
from scripted_http import SILENCE, ScriptedServer
from signatures import KEY, KEY_NAME, token

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.server import Server


class Token(NamedTuple):
    """A token as azure-identity returns it."""

    token: str
    expires_on: float


async def use_every_call(admin: ServiceBusAdministrationClient) -> None:
    """Create, read, change, list and delete one entity of each kind."""
    await asyncio.gather(*(admin.create_queue(f"q{number:03}") for number in range(20)))
    assert len([queue async for queue in admin.list_queues()]) == 20
    queue = await admin.create_queue("orders", enable_partitioning=True)
    queue.max_delivery_count = 3
    await admin.update_queue(queue)
    assert (await admin.get_queue("orders")).max_delivery_count == 3
    assert (await admin.get_queue_runtime_properties("orders")).total_message_count == 0
    assert len([counts async for counts in admin.list_queues_runtime_properties()]) == 21
    await admin.delete_queue("orders")
    with pytest.raises(ResourceNotFoundError):
        await admin.get_queue("orders")

    topic = await admin.create_topic("news")
    await admin.update_topic(topic)
    assert (await admin.get_topic("news")).name == "news"
    subscription = await admin.create_subscription("news", "all")
    await admin.update_subscription("news", subscription)
    assert (await admin.get_subscription("news", "all")).name == "all"
    assert (await admin.get_topic_runtime_properties("news")).subscription_count == 1
    assert (await admin.get_subscription_runtime_properties("news", "all")).topic_name == "news"
    assert [found.name async for found in admin.list_topics()] == ["news"]
    assert [found.name async for found in admin.list_topics_runtime_properties()] == ["news"]
    assert [found.name async for found in admin.list_subscriptions("news")] == ["all"]
    assert [found.name async for found in admin.list_subscriptions_runtime_properties("news")] == ["all"]

    rule = await admin.create_rule("news", "all", "r", filter=SqlRuleFilter("a = 1"))
    await admin.update_rule("news", "all", rule)
    assert (await admin.get_rule("news", "all", "r")).filter == SqlRuleFilter("a = 1", {})
    assert [found.name async for found in admin.list_rules("news", "all")] == ["$Default", "r"]
    await admin.delete_rule("news", "all", "r")
    await admin.delete_subscription("news", "all")
    await admin.delete_topic("news")
    assert (await admin.get_namespace_properties()).namespace_type == "Messaging"
    assert await admin.purge_messages("q000") == 0
    with pytest.raises(InvalidOperationError, match="discard_stage"):
        await admin.discard_stage("s")


def test_every_call(server: Server) -> None:
    """By a connection string."""

    async def use() -> None:
        async with ServiceBusAdministrationClient.from_connection_string(server.connection_string) as admin:
            await use_every_call(admin)

    asyncio.run(use())


def test_awaitable_credential(server: Server, certificate: Path) -> None:
    """`get_token` runs in the event loop of the call, as the credentials of azure.identity.aio need it."""
    loops = []

    class Credential:
        async def get_token(self, *_: str) -> Token:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            return Token(token("https://localhost", KEY_NAME, KEY), time.time() + 3600)

    async def use() -> None:
        async with ServiceBusAdministrationClient(
            f"localhost:{server.port}", Credential(), connection_verify=certificate
        ) as admin:
            await use_every_call(admin)
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(use())


def test_event_loop_goes_on_while_a_server_is_silent() -> None:
    """A call waits in a thread; it ends with its connection."""

    async def use(server: ScriptedServer) -> None:
        async with ServiceBusAdministrationClient.from_connection_string(server.connection_string) as admin:
            call = asyncio.create_task(admin.create_queue("orders"))
            await asyncio.to_thread(server.received.wait)
            assert not call.done()
            server.close()
            with pytest.raises(ServiceBusConnectionError) as caught:
                await call
            assert caught.value.effect == "unknown"

    with ScriptedServer([SILENCE]) as server:
        asyncio.run(use(server))
