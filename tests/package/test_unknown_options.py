# SPDX-License-Identifier: Apache-2.0
"""A call with an unknown option or an invalid choice gets an error that names the closest valid one.

The error named an internal class, `Receivers`, and did not suggest an option.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import AutoLockRenewer, Namespace, ServiceBusClient, ServiceBusMessage, aio, management, server
from oxbus.aio import management as aio_management

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


@pytest.fixture
def made() -> dict[str, Any]:
    """One object of each class with calls, by the name of its module and class."""
    namespace = Namespace()
    admin = management.ServiceBusAdministrationClient(namespace)
    admin.create_queue("q")
    client, aio_client = ServiceBusClient(namespace), aio.ServiceBusClient(namespace)
    return {
        "client": client,
        "sender": client.get_queue_sender("q"),
        "receiver": client.get_queue_receiver("q"),
        "renewer": AutoLockRenewer(),
        "admin": admin,
        "aio client": aio_client,
        "aio sender": aio_client.get_queue_sender("q"),
        "aio receiver": aio_client.get_queue_receiver("q"),
        "aio renewer": aio.AutoLockRenewer(),
        "aio admin": aio_management.ServiceBusAdministrationClient(namespace),
    }


@pytest.mark.parametrize(
    ("owner", "call", "wrong", "right"),
    [
        ("client", "get_queue_receiver", "max_wait", "max_wait_time"),
        ("client", "get_queue_receiver", "mode", "receive_mode"),
        ("client", "get_subscription_receiver", "session", "session_id"),
        ("client", "get_queue_sender", "client_id", "client_identifier"),
        ("client", "get_topic_sender", "sockettimeout", "socket_timeout"),
        ("client", "from_connection_string", "retries_total", "retry_total"),
        ("client", "transaction", "crossentity", "cross_entity"),
        ("client", "list_queue_sessions", "detail", "details"),
        ("receiver", "peek_messages", "sequence", "sequence_number"),
        ("sender", "schedule_messages", "timeouts", "timeout"),
        ("renewer", "register", "max_duration", "max_lock_renewal_duration"),
        ("admin", "create_queue", "lock_durations", "lock_duration"),
        ("admin", "create_topic", "partitioning", "enable_partitioning"),
        ("admin", "purge_messages", "subqueue", "sub_queue"),
    ],
)
@pytest.mark.parametrize("kind", ["", "aio "])
def test_unknown_option_names_the_right_one(
    made: dict[str, Any], kind: str, owner: str, call: str, wrong: str, right: str
) -> None:
    """With the public class, in both APIs."""
    it = made[f"{kind}{owner}"]
    # Native classes report missing arguments first.
    first = ["x", "y"] if call == "schedule_messages" else []

    async def use() -> None:
        found = getattr(it, call)(*first, **{wrong: 3})
        if inspect.isawaitable(found):
            await found

    with pytest.raises(TypeError) as caught:
        asyncio.run(use())
    expected = f"{type(it).__name__}.{call}() got an unexpected keyword argument '{wrong}'; did you mean '{right}'?"
    assert str(caught.value) == expected


@pytest.mark.parametrize("kind", ["", "aio "])
def test_sending_and_receiving_name_the_class(made: dict[str, Any], kind: str) -> None:
    """The synchronous calls are on a hot path, so their errors name the class but suggest no option."""
    for owner, call in (("sender", "send_messages"), ("receiver", "receive_messages")):
        it = made[f"{kind}{owner}"]
        with pytest.raises(TypeError, match=rf"^{type(it).__name__}.{call}\(\) got an unexpected keyword argument 'x'"):
            asyncio.run(_awaited(getattr(it, call)(*(["x"] if owner == "sender" else []), x=3)))


async def _awaited(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize(
    ("make", "wrong", "right"),
    [
        (Namespace, "teir", "tier"),
        (Namespace, "partition", "partitions"),
        (ServiceBusMessage, "sessionid", "session_id"),
        (ServiceBusMessage, "properties", "application_properties"),
        (ServiceBusClient, "retry", "retry_mode"),
        (aio.ServiceBusClient, "retries", "retry_mode"),
        (AutoLockRenewer, "duration", "max_lock_renewal_duration"),
        (aio.AutoLockRenewer, "duration", "max_lock_renewal_duration"),
        (management.ServiceBusAdministrationClient, "version", "api_version"),
        (aio_management.ServiceBusAdministrationClient, "version", "api_version"),
        (management.CorrelationRuleFilter, "topic", "to"),
        (management.QueueProperties, "names", "name"),
        (management.SqlRuleFilter, "expression", "sql_expression"),
        (management.AuthorizationRule, "right", "rights"),
        (server.serve, "ports", "_port"),
    ],
)
def test_unknown_option_of_a_constructor_names_the_right_one(
    make: Callable[..., object], wrong: str, right: str
) -> None:
    """For classes with a constructor; without a close match, the error names all options."""
    first = ("x",) if make is ServiceBusMessage else ()
    with pytest.raises(TypeError) as caught:
        make(*first, **{wrong: 3})
    text = str(caught.value)
    assert text.startswith(f"{make.__name__}() got an unexpected keyword argument '{wrong}'; ")
    assert right in text


def test_missing_argument_names_the_public_class(made: dict[str, Any]) -> None:
    """The error has Python's wording."""
    with pytest.raises(TypeError, match=r"^ServiceBusClient.get_queue_receiver\(\) missing 1 required .* 'queue_name'"):
        made["client"].get_queue_receiver()


def test_error_inside_a_call_is_unchanged(made: dict[str, Any]) -> None:
    """Only a call with wrong arguments is explained; an error raised inside is unchanged."""
    with pytest.raises(TypeError, match=r"^session_id must be a str or NEXT_AVAILABLE_SESSION, not int$"):
        made["client"].get_queue_receiver("q", session_id=3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"receive_mode": "peek_lock"},
            (
                "'peek_lock' is not a valid ServiceBusReceiveMode: use one of 'peeklock', 'receiveanddelete'; "
                "did you mean 'peeklock'?"
            ),
        ),
        (
            {"sub_queue": "dlq"},
            "'dlq' is not a valid ServiceBusSubQueue: use one of 'deadletter', 'transferdeadletter'",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["client", "aio client"])
def test_wrong_choice_lists_the_right_ones(made: dict[str, Any], kind: str, options: Any, text: str) -> None:
    """The error lists all choices and suggests the closest one."""
    with pytest.raises(ValueError, match="is not a valid") as caught:
        made[kind].get_queue_receiver("q", **options)
    assert str(caught.value) == text


def test_signatures_do_not_show_the_wrapper() -> None:
    """Neither the signature nor the awaited value shows the wrapper."""
    assert "max_wait_time" in inspect.signature(ServiceBusClient.get_queue_receiver).parameters
    assert inspect.iscoroutinefunction(aio.ServiceBusClient(Namespace()).get_queue_sender) is False
    assert inspect.iscoroutinefunction(aio_management.ServiceBusAdministrationClient.close)
    assert "unknown" not in inspect.signature(ServiceBusMessage).parameters


@pytest.mark.timeout(300)
def test_body_has_a_type(tmp_path: Path) -> None:
    """The sections of a body have the type bytes; it was `Any`."""
    program = tmp_path / "program.py"
    program.write_text(
        "from oxbus import ServiceBusReceivedMessage\n\n\n"
        "def text(message: ServiceBusReceivedMessage) -> str:\n"
        "    reveal_type(message.body)\n"
        '    return b"".join(message.body).decode()\n\n\n'
        "def first(message: ServiceBusReceivedMessage) -> str:\n"
        "    return next(message.body)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(r"Revealed type is .*Iterator\[(builtins\.)?bytes\]", done.stdout), done.stdout
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [line.rsplit("[", 1)[1] for line in errors] == ["return-value]"]
