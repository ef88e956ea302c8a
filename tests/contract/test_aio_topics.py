# SPDX-License-Identifier: Apache-2.0
"""Topics in the asyncio API: the same names, arguments and results as in the synchronous one."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusMessage, management
from oxbus.aio import AutoLockRenewer, ServiceBusClient
from oxbus.aio.management import ServiceBusAdministrationClient
from oxbus.exceptions import MessagingEntityAlreadyExistsError, MessagingEntityNotFoundError
from oxbus.management import CorrelationRuleFilter, RuleProperties, SqlRuleAction, SqlRuleFilter, TrueRuleFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oxbus.testing import ManualClock

LIVENESS_SECONDS = 60


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in a new event loop, or fail if it hangs."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(main, LIVENESS_SECONDS))

    return run


def test_administration_clients_have_the_same_calls() -> None:
    """Each call has the name, the arguments and the docstring of the synchronous client's (B-456)."""
    ours, theirs = ServiceBusAdministrationClient, management.ServiceBusAdministrationClient
    names = [name for name in dir(theirs) if not name.startswith("_") and name != "from_connection_string"]
    assert len(names) > 20
    for name in names:
        assert inspect.signature(getattr(ours, name)) == inspect.signature(getattr(theirs, name)), name
        assert inspect.iscoroutinefunction(getattr(ours, name)) is not name.startswith("list_"), name
        assert getattr(ours, name).__doc__


def test_clients_have_the_same_calls() -> None:
    """Receivers and senders take the same options, in any order (B-136)."""
    for name in ("get_topic_sender", "get_subscription_receiver", "list_subscription_sessions"):
        ours, theirs = (
            inspect.signature(getattr(owner, name)).parameters for owner in (ServiceBusClient, oxbus.ServiceBusClient)
        )
        assert {key: (value.kind, value.default) for key, value in ours.items()} == {
            key: (value.kind, value.default) for key, value in theirs.items()
        }


def test_entities_are_managed(namespace: Namespace, run: Callable[..., Any], partitioned: bool) -> None:
    """Create, get, change, list, count and delete topics, subscriptions and rules (B-023, B-024, B-345)."""

    async def main() -> None:
        async with ServiceBusAdministrationClient(namespace) as admin:
            topic = await admin.create_topic("news", enable_partitioning=partitioned)
            topic.user_metadata = "m"
            await admin.update_topic(topic)
            assert (await admin.get_topic("news")).user_metadata == "m"
            assert [one.name async for one in admin.list_topics()] == ["news"]
            subscription = await admin.create_subscription("news", "all", max_delivery_count=3)
            subscription.max_delivery_count = 4
            await admin.update_subscription("news", subscription)
            assert (await admin.get_subscription("news", "all")).max_delivery_count == 4
            rule = RuleProperties("first", filter=SqlRuleFilter("a = 1"), action=None, created_at_utc=None)
            await admin.create_subscription("news", "some", rule=rule)
            assert [one.name async for one in admin.list_subscriptions("news")] == ["all", "some"]
            assert (await admin.get_topic_runtime_properties("news")).subscription_count == 2
            assert [one.subscription_count async for one in admin.list_topics_runtime_properties()] == [2]
            created = await admin.create_rule("news", "all", "r", filter=CorrelationRuleFilter(label="l"))
            created.filter = SqlRuleFilter("b = 2")
            await admin.update_rule("news", "all", created)
            shown = await admin.get_rule("news", "all", "r")
            assert isinstance(shown.filter, SqlRuleFilter)
            assert shown.filter.sql_expression == "b = 2"
            rules = {one.name: one async for one in admin.list_rules("news", "all")}
            assert (list(rules), rules["$Default"].filter) == (["$Default", "r"], TrueRuleFilter())
            with pytest.raises(MessagingEntityAlreadyExistsError):
                await admin.create_rule("news", "all", "r")
            await admin.delete_rule("news", "all", "r")
            runtimes = [one async for one in admin.list_subscriptions_runtime_properties("news")]
            assert [(one.name, one.total_message_count) for one in runtimes] == [("all", 0), ("some", 0)]
            await admin.delete_subscription("news", "all")
            with pytest.raises(MessagingEntityNotFoundError):
                await admin.get_subscription_runtime_properties("news", "all")
            await admin.delete_topic("news")
            assert [one async for one in admin.list_topics()] == []

    run(main())


def test_copies_go_through(
    topic: str, namespace: Namespace, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Send to a topic, receive, settle and look at dead letters in its subscriptions (B-136, B-343)."""

    async def main() -> None:
        async with (
            ServiceBusAdministrationClient(namespace) as admin,
            aio_client() as client,
            client.get_topic_sender(topic) as sender,
        ):
            await admin.create_subscription(topic, "all")
            await admin.create_subscription(topic, "some")
            rule = await admin.get_rule(topic, "some", "$Default")
            rule.filter, rule.action = SqlRuleFilter("n > 1"), SqlRuleAction("SET n = 0")
            await admin.update_rule(topic, "some", rule)
            await sender.send_messages(
                [ServiceBusMessage(str(n), partition_key="k", application_properties={"n": n}) for n in range(3)]
            )
            async with client.get_subscription_receiver(topic, "all", max_wait_time=0) as receiver:
                copies = [copy async for copy in receiver]
                assert [str(copy) for copy in copies] == ["0", "1", "2"]
                await receiver.complete_messages(copies[:2])
                await receiver.dead_letter_message(copies[2], "reason")
            async with client.get_subscription_receiver(topic, "some", max_wait_time=0) as receiver:
                (copy,) = await receiver.receive_messages(10)
                assert (str(copy), copy.application_properties) == ("2", {"n": 0, "RuleName": "$Default"})
                await receiver.complete_message(copy)
            async with client.get_subscription_receiver(
                topic, "all", sub_queue="deadletter", max_wait_time=0
            ) as dead_letters:
                assert [str(dead) for dead in await dead_letters.receive_messages(10)] == ["2"]

    run(main())


def test_a_waiting_receive_wakes_when_a_message_comes(
    topic: str, namespace: Namespace, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Waiting on a subscription does not occupy a thread (B-132)."""

    async def main() -> None:
        async with (
            ServiceBusAdministrationClient(namespace) as admin,
            aio_client() as client,
            client.get_topic_sender(topic) as sender,
        ):
            await admin.create_subscription(topic, "all")
            async with client.get_subscription_receiver(topic, "all") as receiver:
                for number in range(5):
                    waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=None))
                    await asyncio.sleep(0.01)
                    await sender.send_messages(ServiceBusMessage(str(number)))
                    (copy,) = await waiting
                    assert str(copy) == str(number)
                    await receiver.complete_message(copy)

    run(main())


def test_scheduled_messages(
    topic: str,
    namespace: Namespace,
    clock: ManualClock,
    run: Callable[..., Any],
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """Messages are scheduled at a topic, cancelled there, and delivered when due (B-241)."""

    async def main() -> None:
        async with (
            ServiceBusAdministrationClient(namespace) as admin,
            aio_client() as client,
            client.get_topic_sender(topic) as sender,
        ):
            await admin.create_subscription(topic, "all")
            messages = [ServiceBusMessage(str(number), partition_key="k") for number in range(2)]
            numbers = await sender.schedule_messages(messages, clock.now() + timedelta(hours=1))
            await sender.cancel_scheduled_messages(numbers[0])
            assert (await admin.get_topic_runtime_properties(topic)).scheduled_message_count == 1
            clock.advance(3601)
            async with client.get_subscription_receiver(topic, "all", max_wait_time=0) as receiver:
                assert [str(copy) for copy in await receiver.receive_messages(10)] == ["1"]

    run(main())


def test_sessions_of_a_subscription(
    topic: str, namespace: Namespace, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Sessions are listed and received from one by one (B-181, B-214)."""

    async def main() -> None:
        async with (
            ServiceBusAdministrationClient(namespace) as admin,
            aio_client() as client,
            client.get_topic_sender(topic) as sender,
        ):
            await admin.create_subscription(topic, "all", requires_session=True)
            for session_id in ("a", "b"):
                await sender.send_messages(ServiceBusMessage(session_id, session_id=session_id))
            assert [one async for one in client.list_subscription_sessions(topic, "all")] == ["a", "b"]
            details = client.list_subscription_sessions(topic, "all", details=True)
            assert [(one.session_id, one.message_count) async for one in details] == [("a", 1), ("b", 1)]
            async with client.get_subscription_receiver(topic, "all", session_id="b", max_wait_time=0) as receiver:
                assert [str(copy) async for copy in receiver] == ["b"]

    run(main())


def test_locks_of_copies_are_renewed(
    topic: str,
    namespace: Namespace,
    clock: ManualClock,
    run: Callable[..., Any],
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """Locks are renewed by a call and by the receiver's renewer (B-154)."""

    async def main() -> None:
        async with (
            ServiceBusAdministrationClient(namespace) as admin,
            aio_client() as client,
            client.get_topic_sender(topic) as sender,
            AutoLockRenewer() as renewer,
        ):
            await admin.create_subscription(topic, "all")
            await sender.send_messages(ServiceBusMessage("x"))
            async with client.get_subscription_receiver(
                topic, "all", max_wait_time=0, auto_lock_renewer=renewer
            ) as receiver:
                (copy,) = await receiver.receive_messages()
                clock.advance(10)
                assert await receiver.renew_message_lock(copy) == clock.now() + timedelta(minutes=1)
                await receiver.complete_message(copy)

    run(main())


def test_errors_are_those_of_the_other_api(
    topic: str, namespace: Namespace, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Unknown entities are not found, and wrong types fail at once (B-017, B-019)."""

    async def main() -> None:
        admin, client = ServiceBusAdministrationClient(namespace), aio_client()
        with pytest.raises(MessagingEntityNotFoundError):
            await client.get_topic_sender("nowhere").send_messages(ServiceBusMessage("x"))
        with pytest.raises(MessagingEntityNotFoundError):
            await client.get_subscription_receiver(topic, "nowhere").receive_messages(max_wait_time=0)
        with pytest.raises(MessagingEntityNotFoundError):
            _ = [one async for one in admin.list_rules(topic, "nowhere")]
        with pytest.raises(TypeError):
            await admin.get_topic(1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="SqlRuleFilter"):
            await admin.create_rule(topic, "all", "r", filter="a = 1")  # type: ignore[arg-type]
        await client.close()

    run(main())
