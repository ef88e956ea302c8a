# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve`: a process that clients reach over the network, and its shutdown."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus.exceptions import MessageSizeExceededError as SdkMessageSizeExceededError
from azure.servicebus.management import ServiceBusAdministrationClient as SdkAdministrationClient
from oxbus import Namespace, ServiceBusClient
from oxbus.bulk import BulkClient
from oxbus.cli import _serve
from oxbus.cli._commands import make_parser
from oxbus.exceptions import MessageSizeExceededError, ServiceBusAuthenticationError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark.source.connection import connection_of
from oxbus.spark.source.options import read_options
from signatures import connection_string, token

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

LIVENESS_SECONDS = 60
KEY = "a key of the tests, long enough"
SECRET = "a key of a server of the tests"  # noqa: S105 (it opens nothing else)


@pytest.fixture
def serve(start: Callable[..., Any]) -> Callable[..., tuple[subprocess.Popen[str], str]]:
    """Start a server on a free port, and return its process and its connection string once it is ready."""

    def serve(*arguments: str, **variables: str) -> tuple[subprocess.Popen[str], str]:
        process, printed = start("--amqp-port", "0", *arguments, **variables)
        return process, printed["connection_string"]

    return serve


@pytest.fixture
def start(launch: Callable[..., subprocess.Popen[str]]) -> Callable[..., tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start a server, and return its process and its JSON output once it is ready."""

    def start(*arguments: str, **variables: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = launch("--json", *arguments, **variables)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=LIVENESS_SECONDS)[1]
        return process, json.loads(line)

    return start


@pytest.fixture
def one_queue(tmp_path: Path) -> Path:
    """A configuration with the queue `orders`."""
    config = tmp_path / "config.json"
    queue = {"Name": "orders", "Properties": {}}
    config.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [queue]}]}}))
    return config


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_stops_the_server_and_nothing_is_lost(
    serve: Callable[..., Any], data: Path, ox: Callable[..., Any], number: signal.Signals, code: int
) -> None:
    """Sent messages are in the directory afterwards; the exit code distinguishes SIGINT from SIGTERM."""
    ox("queue", "create", "orders")
    process, printed_string = serve()
    with BulkClient(printed_string) as client:
        client.send("orders", pa.table({"body": [b"kept"] * 5}))
        process.send_signal(number)
        out, err = process.communicate(timeout=LIVENESS_SECONDS)
    assert (process.returncode, out, err) == (code, "", "")
    with Namespace(data) as namespace, ServiceBusClient(namespace).get_queue_receiver("orders") as receiver:
        assert len(receiver.receive_messages(10, max_wait_time=5)) >= 1


def test_memory_with_a_configuration_and_a_key(start: Callable[..., Any], one_queue: Path) -> None:
    """The entities of the file exist; the key of the environment is required and never shown."""
    process, printed = start("--memory", "--amqp-port", "0", "--config", str(one_queue), OXBUS_SAS_KEY=KEY)
    with BulkClient(connection_string(printed["amqp_port"])) as client, pytest.raises(ServiceBusAuthenticationError):
        client.describe("orders")
    with BulkClient(printed["connection_string"]) as client:
        assert client.describe("orders")["kind"] == "queue"
    process.terminate()
    out, err = process.communicate(timeout=LIVENESS_SECONDS)
    assert KEY not in out + err


def test_startup_error_is_one_line(run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data directory, no namespace, a public address without a key, a wrong port."""
    monkeypatch.delenv("OXBUS_DATA", raising=False)
    outcome = run("serve", "--amqp-port", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--memory" in outcome.err
    outcome = run("serve", "--amqp-port", "0", "--data", str(tmp_path / "nothing"))
    assert (outcome.code, "no namespace" in outcome.err) == (1, True)
    outcome = run("serve", "--amqp-port", "70000", "--memory")
    assert (outcome.code, "amqp_port is out of range" in outcome.err) == (1, True)
    outcome = run("serve", "--amqp-port", "0", "--memory", "--host", "0.0.0.0")  # noqa: S104 (an error here)
    assert (outcome.code, "authorization rules" in outcome.err) == (1, True)
    assert "set OXBUS_SAS_KEY" in outcome.err
    rules = tmp_path / "rules.json"
    rules.write_text("[]")
    outcome = run("serve", "--amqp-port", "0", "--memory", "--rules", str(rules), "--sas-key", SECRET)
    assert (outcome.code, "exclude each other" in outcome.err) == (2, True)
    for text, word in (
        ("[]", "at least one authorization rule"),
        ("{", "not valid JSON"),
        ('[{"key_name": "a"}]', "rights"),
        ('[{"key_name": "a", "rights": ["Send"]}]', "primary_key"),
        ('[{"key_name": 1, "primary_key": "b", "rights": ["Send"]}]', "must be a string"),
        ('[{"unheard": "a"}]', "unknown key"),
        ("[1]", "must be an object"),
    ):
        rules.write_text(text)
        outcome = run("serve", "--amqp-port", "0", "--memory", "--rules", str(rules))
        assert (outcome.code, word in outcome.err) == (1, True), outcome.err


def sdk(printed: dict[str, Any], certificate: Path) -> SdkAdministrationClient:
    """The unmodified administration client of the SDK."""
    return SdkAdministrationClient.from_connection_string(
        printed["connection_string"], connection_verify=str(certificate), retry_total=0
    )


def test_sdk_uses_a_directory_and_sigterm_stops_the_server(
    start: Callable[..., Any], ox: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    """Entities that an SDK creates are in the directory; a receive waiting at the shutdown gets an answer."""
    ox("queue", "create", "orders")
    certificate = tmp_path / "issuer.pem"
    process, printed = start("--amqp-port", "0", "--http-port", "0", "--tls-cert-out", str(certificate))
    assert set(printed) == {"connection_string", "amqp_port", "http_port"}
    with sdk(printed, certificate) as admin:
        admin.create_queue("made", enable_partitioning=True)
    signed = token("sb://h")
    with socket.create_connection(("127.0.0.1", printed["http_port"])) as waiting:
        head = f"Host: x\r\nAuthorization: {signed}\r\nContent-Length: 0\r\n\r\n"
        # The first answer proves that the connection is accepted; the second request waits.
        waiting.sendall(f"GET /made HTTP/1.1\r\n{head}".encode())
        assert waiting.recv(4).startswith(b"HTTP")
        waiting.sendall(f"POST /made/messages/head?timeout=3000 HTTP/1.1\r\n{head}".encode())
        process.send_signal(signal.SIGTERM)
        answers = b"".join(iter(lambda: waiting.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 204") <= 1
    out, err = process.communicate(timeout=LIVENESS_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")
    with Namespace(data) as namespace:
        assert ServiceBusAdministrationClient(namespace).get_queue("made").enable_partitioning


@pytest.mark.parametrize(
    ("arguments", "variables", "sku"),
    [
        ([], {}, "Standard"),
        (["--tier", "none"], {}, None),
        ([], {"OXBUS_TIER": "none"}, None),
        (["--tier", "standard"], {"OXBUS_TIER": "none"}, "Standard"),
        ([], {"OXBUS_TIER": "premium"}, "Premium"),
    ],
    ids=str,
)
def test_tier_is_standard_by_default(
    start: Callable[..., Any], tmp_path: Path, arguments: list[str], variables: dict[str, str], sku: str | None
) -> None:
    """A client that works here works in Azure: the Standard limits apply, and the namespace reports them (B-025).

    Without a tier a server accepted a lock of ten minutes and a message of 300 KB, which the service rejects.
    """
    certificate = tmp_path / "issuer.pem"
    variables = {"OXBUS_TIER": "", **variables}
    _, printed = start("--memory", "--amqp-port", "0", "--tls-cert-out", str(certificate), *arguments, **variables)
    with sdk(printed, certificate) as admin:
        assert admin.get_namespace_properties().messaging_sku == sku
        if sku is not None:
            with pytest.raises(HttpResponseError, match="5' minutes"):
                admin.create_queue("q", lock_duration=timedelta(minutes=10))
        else:
            admin.create_queue("q", lock_duration=timedelta(minutes=10))
            return
        admin.create_queue("q")
    with (
        SdkClient.from_connection_string(printed["connection_string"], retry_total=0) as client,
        client.get_queue_sender("q") as sender,
    ):
        sender.send_messages(SdkMessage(b"x" * (200 << 10)))
        if sku == "Standard":
            with pytest.raises(SdkMessageSizeExceededError):
                sender.send_messages(SdkMessage(b"x" * (300 << 10)))
        else:
            sender.send_messages(SdkMessage(b"x" * (300 << 10)))


def test_entities_outside_the_tier_are_served(
    start: Callable[..., Any], ox: Callable[..., Any], tmp_path: Path
) -> None:
    """Entities created without a tier work and can be changed; a change outside the tier is rejected (B-025)."""
    ox("queue", "create", "slow", "--lock-duration", "10m", "--max-message-size-in-kilobytes", "1024")
    certificate = tmp_path / "issuer.pem"
    _, printed = start("--amqp-port", "0", "--tls-cert-out", str(certificate))
    with sdk(printed, certificate) as admin:
        queue = admin.get_queue("slow")
        assert queue.lock_duration == timedelta(minutes=10)
        queue.max_delivery_count = 3
        admin.update_queue(queue)
        queue.lock_duration = timedelta(minutes=20)
        with pytest.raises(HttpResponseError, match="5' minutes"):
            admin.update_queue(queue)
    with (
        SdkClient.from_connection_string(printed["connection_string"], retry_total=0) as client,
        client.get_queue_sender("slow") as sender,
        client.get_queue_receiver("slow") as receiver,
    ):
        sender.send_messages(SdkMessage(b"x" * (500 << 10)))
        (message,) = receiver.receive_messages(max_wait_time=LIVENESS_SECONDS)
        receiver.complete_message(message)


def test_rows_have_the_limit_of_messages(serve: Callable[..., Any], ox: Callable[..., Any]) -> None:
    """Two megabytes in rows of a kilobyte are many messages, not one batch (B-053)."""
    ox("queue", "create", "orders", "--partitioned")
    _, printed_string = serve()
    with BulkClient(printed_string) as client:
        assert sum(client.send("orders", pa.table({"body": [b"x" * 1000] * 2000})).values()) == 2000
        with pytest.raises(MessageSizeExceededError):
            client.send("orders", pa.table({"body": [b"x" * (300 << 10)]}))


def test_default_ports_are_used_unless_one_is_named() -> None:
    """Default ports are 5672, 5671 and 5300; if one is named, only that one is used."""
    parser = make_parser()

    def ports(*arguments: str) -> dict[str, int]:
        return _serve._ports(parser.parse_args(["serve", "--memory", *arguments]))

    assert ports() == {"amqp": 5672, "amqps": 5671, "http": 5300}
    assert ports("--https-port", "0") == {"https": 0}
    assert ports("--amqp-port", "1", "--http-port", "2") == {"amqp": 1, "http": 2}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--bulk-port", "0"], "every port serves bulk clients"),
        (["--bulk-port"], "every port serves bulk clients"),
        (["--bulk-key", KEY], "use --sas-key"),
        (["--bulk-key-name", "spark"], "use --sas-key-name"),
    ],
    ids=" ".join,
)
def test_old_options_name_the_new_ones(run: Callable[..., Any], old: list[str], new: str) -> None:
    """One line, wrong usage, and the server does not start; the help does not show the old options."""
    outcome = run("serve", "--memory", "--amqp-port", "0", *old)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert f"{old[0]} was removed" in outcome.err
    assert new in outcome.err
    assert "docs/guide/one-server.md" in outcome.err
    assert KEY not in outcome.err
    assert "--bulk" not in run("serve", "--help").out


def test_old_variable_names_the_new_one(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the old variable, which is no longer read, is an error."""
    monkeypatch.setenv("OXBUS_BULK_KEY", KEY)
    outcome = run("serve", "--memory", "--amqp-port", "0")
    assert (outcome.code, "use OXBUS_SAS_KEY" in outcome.err, KEY in outcome.err) == (2, True, False)


def test_printed_string_is_for_sdks_spark_and_bulk_clients(launch: Callable[..., Any], one_queue: Path) -> None:
    """All of them accept the printed connection string."""
    process = launch("--memory", "--amqp-port", "0", "--config", str(one_queue))
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    printed_string = lines[1].removeprefix("Connection string: ").strip()
    with SdkClient.from_connection_string(printed_string) as sdk, sdk.get_queue_sender("orders") as sender:
        sender.send_messages(SdkMessage("by an SDK"))
    with BulkClient(printed_string) as client:
        assert client.send("orders", pa.table({"body": [b"by a bulk client"]})) == {0: 1}
    spark = connection_of(read_options({"connectionString": printed_string, "queue": "orders"}, "batch read"))
    assert spark.client().describe("orders")["active_messages"] == 2


def test_string_for_other_keys_has_a_placeholder(launch: Callable[..., Any]) -> None:
    """The string has the address and a placeholder for the key."""
    process = launch("--memory", "--amqp-port", "0", OXBUS_SAS_KEY=KEY)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    shown = lines[1].strip()
    assert shown.startswith("Connection string, with a key of the authorization rules: Endpoint=sb://127.0.0.1:")
    assert KEY not in shown
    printed_string = shown.split(": ", 1)[1].replace("SharedAccessKey=...", f"SharedAccessKey={KEY}")
    with BulkClient(printed_string) as client:
        assert client.stages() == []


def test_rules_of_a_file_apply_and_are_reloaded(start: Callable[..., Any], tmp_path: Path) -> None:
    """SIGHUP replaces keys while the server runs; an invalid file is reported and changes nothing."""
    rules = tmp_path / "rules.json"

    def write(key: str) -> None:
        rules.write_text(json.dumps([{"key_name": "app", "primary_key": key, "rights": ["Manage"]}]))

    write(SECRET)
    process, printed = start("--memory", "--amqp-port", "0", "--rules", str(rules))
    assert f"SharedAccessKeyName=app;SharedAccessKey={SECRET};" in printed["connection_string"]

    def status(key: str, name: str = "app") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", printed["amqp_port"], timeout=LIVENESS_SECONDS)
        connection.request("GET", "/$namespaceinfo", headers={"Authorization": token("sb://h", name, key)})
        found = connection.getresponse().status
        connection.close()
        return found

    assert (status(SECRET), status("SAS_KEY_VALUE", "RootManageSharedAccessKey")) == (200, 401)
    rules.write_text("[")
    process.send_signal(signal.SIGHUP)
    assert process.stderr is not None
    assert "are unchanged" in process.stderr.readline()
    assert status(SECRET) == 200
    write(SECRET + "2")
    process.send_signal(signal.SIGHUP)
    until = time.monotonic() + LIVENESS_SECONDS
    while status(SECRET + "2") != 200:
        assert time.monotonic() < until, "the new key was never accepted"
    assert status(SECRET) == 401
    process.terminate()
    out, err = process.communicate(timeout=LIVENESS_SECONDS)
    assert (process.returncode, SECRET in out + err) == (0, False)


def test_key_of_the_environment_is_not_printed(launch: Callable[..., subprocess.Popen[str]]) -> None:
    """The server accepts the key but does not print it; without a key it prints the development key."""
    for key, shown in (
        (SECRET, "SharedAccessKey=...;UseDevelopmentEmulator=true"),
        ("", "SAS_KEY_VALUE;UseDevelopmentEmulator=true"),
    ):
        process = launch("--memory", "--amqp-port", "0", OXBUS_SAS_KEY=key)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.terminate()
        out, err = process.communicate(timeout=LIVENESS_SECONDS)
        assert process.returncode == 0
        assert lines[0].startswith("Serving on 127.0.0.1: amqp ")
        assert shown in lines[1]
        assert lines[2] == "The limits of the tier standard apply; --tier none removes them.\n"
        assert lines[3] == "Ctrl-C or SIGTERM ends it.\n"
        assert SECRET not in "".join(lines) + out + err
