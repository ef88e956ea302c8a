# SPDX-License-Identifier: Apache-2.0
"""Commands on a running server: `--connection-string` and OXBUS_CONNECTION_STRING with `sb://`."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.server import serve
from oxbus.testing import inject_fault
from signatures import KEY, connection_string

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from oxbus.server import Server


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A namespace in memory, with four partitions."""
    with Namespace(partitions=4) as namespace:
        yield namespace


@pytest.fixture
def server(namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of the namespace; commands find it by the environment."""
    with serve(namespace, certificate_out=tmp_path / "issuer.pem") as server:
        monkeypatch.delenv("OXBUS_DATA", raising=False)
        monkeypatch.setenv("OXBUS_CONNECTION_STRING", server.connection_string)
        yield server


@pytest.fixture
def remote(server: Server, run: Callable[..., Any]) -> Callable[..., Any]:
    """Run a command on the server and expect success."""
    assert server.port

    def remote(*arguments: object) -> Any:
        done = run(*arguments)
        assert (done.code, done.err) == (0, ""), (arguments, done)
        return done

    return remote


def test_entities_are_made_changed_listed_and_deleted(remote: Callable[..., Any]) -> None:
    """The same commands as on a directory."""
    assert remote("queue", "create", "orders", "--lock-duration", "30s", "--json").json["lock_duration"] == "PT30S"
    remote("queue", "update", "orders", "--max-delivery-count", 3)
    assert remote("queue", "show", "orders", "--json").json["max_delivery_count"] == 3
    assert "orders" in remote("queue", "list").out
    remote("topic", "create", "news", "--partitioned")
    remote("subscription", "create", "news", "all", "--forward-to", "orders")
    assert [found["forward_to"] for found in remote("subscription", "list", "news", "--json").json] == ["orders"]
    remote("rule", "create", "news", "all", "big", "--sql", "amount > @least", "--parameter", "@least:int=5")
    assert "amount > @least (@least = 5)" in remote("rule", "list", "news", "all").out
    remote("rule", "delete", "news", "all", "big")
    remote("subscription", "delete", "news", "all")
    remote("topic", "delete", "news")
    remote("queue", "delete", "orders")
    assert remote("queue", "list", "--json").json == []


def test_messages_are_sent_shown_received_and_settled(remote: Callable[..., Any]) -> None:
    """The same commands as on a directory."""
    remote("queue", "create", "orders", "--partitioned")
    remote("send", "orders", "one", "--property", "amount:int=5", "--partition-key", "k")
    remote("send", "orders", "two", "--partition-key", "k")
    (one, two) = remote("peek", "orders", "--all", "--json").json_lines
    assert (one["body"], one["application_properties"], two["body"]) == ("one", {"amount": 5}, "two")
    assert one["partition_id"] == two["partition_id"] is not None
    assert remote("receive", "orders").out == "one\n"
    remote("receive", "orders", "--dead-letter", "--reason", "broken")
    assert "broken" in remote("deadletter", "list", "orders").out
    assert remote("receive", "orders", "--sub-queue", "deadletter").out == "two\n"
    counts = remote("stats", "orders", "--json").json["entities"][0]
    assert (counts["active_message_count"], counts["dead_letter_message_count"]) == (0, 0)


def test_messages_of_a_session(remote: Callable[..., Any]) -> None:
    """A session is accepted by id, or the next one."""
    remote("queue", "create", "talks", "--requires-session")
    remote("send", "talks", "hello", "--session-id", "a")
    assert remote("receive", "talks", "--session", "a").out == "hello\n"
    assert remote("receive", "talks", "--next-session").out == ""


def test_stats(namespace: Namespace, remote: Callable[..., Any]) -> None:
    """Counts of all entities, or of one; what a server does not report is null or missing."""
    remote("queue", "create", "orders")
    remote("topic", "create", "news")
    remote("subscription", "create", "news", "all")
    with ServiceBusClient(namespace) as client:
        client.get_queue_sender("orders").send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
        client.get_topic_sender("news").send_messages(ServiceBusMessage("3"))
    shown = remote("stats", "--json").json
    assert {name: shown[name] for name in ("namespace", "partitions", "stages")} == {
        "namespace": None,
        "partitions": None,
        "stages": None,
    }
    counts = {values["name"]: values["active_message_count"] for values in shown["entities"]}
    assert counts == {"orders": 2, "news": None, "news/Subscriptions/all": 1}
    assert shown["entities"][0]["locked_message_count"] is None
    one = remote("stats", "ORDERS").out
    assert "orders" in one
    assert "news" not in one
    assert "news/Subscriptions/all" in remote("stats").out


def test_stats_while_a_partition_is_out_of_service(
    namespace: Namespace, remote: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """Exit code 1, and the entities."""
    remote("queue", "create", "wide", "--partitioned")
    remote("queue", "create", "other")
    inject_fault(namespace, 3, "unavailable")
    shown = run("stats")
    assert shown.code == 1
    assert "entities with partitions out of service:" in shown.err
    assert "wide" in shown.err


def test_missing_entity_lists_the_existing_ones(remote: Callable[..., Any], run: Callable[..., Any]) -> None:
    """As for a directory."""
    remote("queue", "create", "orders")
    missing = run("queue", "show", "order")
    assert (missing.code, missing.out) == (1, "")
    assert "the queue `order` does not exist; existing queues: orders; create it with" in missing.err


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("queue", "list", "--tier", "basic"), "a server has its own tier"),
        (("serve",), "this command works on a directory"),
    ],
)
def test_wrong_usage(server: Server, run: Callable[..., Any], arguments: tuple[str, ...], cause: str) -> None:
    """Exit code 2, with what to do; no text shows the key."""
    refused = run(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert cause in refused.err
    assert KEY not in refused.err
    assert server.port


def test_dead_letters_are_resubmitted_and_purged(remote: Callable[..., Any]) -> None:
    """All, or those that a condition selects; an extension of our server."""
    remote("queue", "create", "orders")
    remote("topic", "create", "news")
    remote("subscription", "create", "news", "all")
    for number in range(6):
        remote("send", "orders", f"m{number}", "--property", f"n:int={number}")
    remote("receive", "orders", "--all", "--dead-letter", "--reason", "bad")
    where = ("--where", "n >= @least", "--parameter", "least:int=4")
    assert remote("deadletter", "resubmit", "orders", *where).out == "2 dead letters resubmitted\n"
    assert remote("receive", "orders", "--all").out == "m4\nm5\n"
    assert remote("deadletter", "purge", "orders", "--where", "n = 0", "--json").json == {"deleted": 1}
    assert remote("deadletter", "purge", "orders", "--before", "2020-01-01").out == "0 dead letters deleted\n"
    assert (
        remote("deadletter", "resubmit", "orders", "--rate", 1000, "--limit", 2).out == "2 dead letters resubmitted\n"
    )
    assert remote("deadletter", "purge", "orders").out == "1 dead letter deleted\n"
    assert remote("receive", "orders", "--all").out == "m1\nm2\n"
    remote("send", "news", "n")
    remote("receive", "news/Subscriptions/all", "--dead-letter")
    assert remote("deadletter", "resubmit", "news", "--subscription", "all").out == "1 dead letter resubmitted\n"
    assert remote("receive", "news/Subscriptions/all").out == "n\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("deadletter", "purge", "unknown"), "unknown"),
        (("deadletter", "purge", "orders", "--where", "n >"), "expected a property"),
        (("deadletter", "resubmit", "news"), "TopicDescription"),
    ],
)
def test_refused_selections(
    remote: Callable[..., Any], run: Callable[..., Any], arguments: tuple[str, ...], text: str
) -> None:
    """A missing entity, a filter that does not parse, a topic."""
    remote("queue", "create", "orders")
    remote("topic", "create", "news")
    refused = run(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert text in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("reservation", "list", "orders"),
        ("reservation", "cancel", "orders", "consumer"),
        ("stage", "list"),
        ("stage", "discard", "id"),
    ],
    ids=" ".join,
)
def test_what_a_server_lacks(server: Server, run: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    """The error names it."""
    refused = run(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert "cannot be called over a connection" in refused.err
    assert server.port


def test_wrong_key_and_absent_server(server: Server, run: Callable[..., Any]) -> None:
    """One line each, with exit code 1."""
    wrong = run("queue", "list", "--connection-string", server.connection_string.replace(KEY, "other"))
    absent = run("queue", "list", "--connection-string", connection_string(1))
    for failed, cause in ((wrong, "key name=`Root"), (absent, "cannot connect to the server")):
        assert (failed.code, failed.out, len(failed.err.splitlines())) == (1, "", 1)
        assert cause in failed.err


def test_certificate(server: Server, run: Callable[..., Any], tmp_path: Path) -> None:
    """`--connection-verify` names the issuer of a server with TLS."""
    text = server.connection_string.removesuffix(";UseDevelopmentEmulator=true")
    done = run("queue", "list", "--json", "--connection-string", text, "--connection-verify", tmp_path / "issuer.pem")
    assert done.json == []
    missing = run("queue", "list", "--connection-string", text, "--connection-verify", tmp_path / "none.pem")
    assert (missing.code, missing.out) == (1, "")
    assert "none.pem" in missing.err
    assert "connection_verify" not in missing.err


@pytest.mark.parametrize("command", ["queue list", "peek orders"])
def test_untrusted_certificate(server: Server, run: Callable[..., Any], command: str) -> None:
    """The errors named `connection_verify`, an option of the clients."""
    text = server.connection_string.removesuffix(";UseDevelopmentEmulator=true")
    refused = run(*command.split(), "--connection-string", text)
    assert (refused.code, "--connection-verify FILE" in refused.err) == (1, True)
    assert "connection_verify" not in refused.err


def test_stats_of_a_server_in_another_process(
    start: Callable[..., subprocess.Popen[bytes]], run: Callable[..., Any]
) -> None:
    """The string that `oxbus serve` prints is the one to use."""
    with start("serve", "--memory", "--amqp-port", 0, "--json") as process:
        try:
            assert process.stdout is not None
            text = json.loads(process.stdout.readline())["connection_string"]
            assert run("queue", "create", "orders", "--connection-string", text).code == 0
            shown = run("stats", "--connection-string", text, "--json").json
            assert [values["name"] for values in shown["entities"]] == ["orders"]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
