# SPDX-License-Identifier: Apache-2.0
"""Fixtures for every test that uses a broker.

Axes
- `transport`: the message store and the way to it: in this process, in memory or in a directory with durability `os`;
  over AMQP, with the Azure SDK and a server whose namespace is in memory.
  Only tests that open a namespace by these fixtures run more than once; kit/amqp_transport.py selects those over AMQP.
- `partitioned`: whether `queue_name`, `make_queue` and `make_topic` create partitioned entities.
  Tests that use one of these fixtures run twice on each transport, but over AMQP only once, with partitions.

The clock does not run until a test moves it, so `max_wait_time=0` shows a settled state and no test measures time.
It starts in the future: the Azure SDK uses the system clock, so it never considers a lock expired.
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import oxbus
import oxbus.aio
import pytest
from azure.core.settings import settings as settings_of_azure
from hypothesis import HealthCheck, settings
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusReceiver
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_sdk import AzureSdk
    from oxbus import ServiceBusReceivedMessage, ServiceBusSender

# Code that several directories share is in one without a conftest, so that mypy finds it by its short name.
sys.path.insert(0, str(Path(__file__).with_name("kit")))

import amqp_transport
import client_transport
import http_transport

# No test asserts a duration, hypothesis included, so a slow machine fails none.
settings.register_profile("oxbus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("oxbus"), max_examples=2000)
settings.load_profile("oxbus")

START = datetime(2100, 3, 1, 12, 0, 0, tzinfo=UTC)
LIVENESS_SECONDS = 60
"""How long a test waits before it considers something stuck; not a measure of speed."""

IN_OBJECTS = "OXBUS_TEST_OBJECTS"
"""If this variable is set, tests keep durable namespaces in a directory of objects, as in a store."""

EMPTY_RECEIVES = 3
"""How many empty receives in a row mean an empty queue, since a receive may return fewer messages than exist."""


MEMORY_DISK = "/dev/shm"  # noqa: S108 (pytest makes the directory there, with a unique name)
"""Where temporary directories are, if it exists: store tests do not depend on the disk's speed."""


def pytest_configure() -> None:
    """Put `tmp_path` into memory, unless `PYTEST_DEBUG_TEMPROOT` is set; turn the spans of the Azure SDK off."""
    if os.access(MEMORY_DISK, os.W_OK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY_DISK)
    # The Azure SDK would write spans, and properties into messages, once a test imports OpenTelemetry.
    settings_of_azure.tracing_implementation = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for transports."""
    parser.addoption(
        amqp_transport.LEFT_OUT_OPTION,
        action="store_true",
        help="run the contract tests that are excluded over AMQP; the run fails if one of them passes",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on its transports."""
    amqp_transport.parametrize(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--left-out`, run only excluded tests."""
    if config.getoption(amqp_transport.LEFT_OUT_OPTION):
        amqp_transport.try_left_out(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With `--left-out`, fail for excluded tests that pass over AMQP."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption(amqp_transport.LEFT_OUT_OPTION) and reporter is not None:
        for place in amqp_transport.unexpected_passes(reporter.stats):
            reporter.write_line(f"passes over AMQP, remove it from the list: {place}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give each test to a free process, but all Spark tests first and to one process, since Spark starts slowly."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 -- there only when tests run in several processes

    class SparkTogether(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return SparkTogether(config, log)


class BackgroundCall:
    """A call in a daemon thread, so that a stuck call fails a test and does not block the run."""

    def __init__(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function, args, options), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            self._value = function(*args, **options)
        except BaseException as error:  # noqa: BLE001 - handed to the test that asks for the result
            self._error = error

    @property
    def running(self) -> bool:
        """Whether the call is still running."""
        return self._thread.is_alive()

    def result(self, timeout: float = LIVENESS_SECONDS) -> Any:
        """Wait for the call and return its value or raise its error."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            pytest.fail(f"the call is still waiting after {timeout} s")
        if self._error is not None:
            raise self._error
        return self._value


@pytest.fixture
def clock() -> ManualClock:
    """A clock that shows 2100-03-01 12:00:00 UTC until a test moves it."""
    return ManualClock(START)


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """The message store, and the way to it."""
    return str(request.param)


@pytest.fixture
def store(transport: str) -> str:
    """The message store: `memory`, or `durable` in a directory."""
    network = http_transport.STORES | client_transport.STORES | {"amqp": "memory"}
    return network.get(transport, transport)


@pytest.fixture
def open_namespace(store: str, tmp_path: Path) -> Iterator[Callable[..., Namespace]]:
    """Open namespaces on the store under test, each in its own directory; they close when the test ends."""
    opened: list[Namespace] = []

    def open_one(**options: Any) -> Namespace:
        if store == "durable":
            # Only tests/durable need syncing: these tests do not simulate a loss of power.
            path = tmp_path / f"bus-{len(opened)}"
            kept: dict[str, Any] = {"path": path, "durability": "os"}
            if os.environ.get(IN_OBJECTS):
                kept = {"path": f"objects://{path}"}
            options = kept | options
        opened.append(Namespace(**options))
        return opened[-1]

    yield open_one
    for namespace in opened:
        namespace.close()


@pytest.fixture
def namespace(open_namespace: Callable[..., Namespace], clock: ManualClock) -> Namespace:
    """A namespace with 16 partitions that follows `clock`."""
    return open_namespace(clock=clock)


@pytest.fixture
def azure(namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureSdk]:
    """The Azure SDK, connected to a server of `namespace`."""
    from azure_sdk import AzureSdk  # noqa: PLC0415 -- not where older versions of Spark are tried

    with AzureSdk(namespace, tmp_path / "issuer.pem", monkeypatch) as sdk:
        yield sdk


@pytest.fixture
def client(namespace: Namespace, transport: str, request: pytest.FixtureRequest) -> Iterator[ServiceBusClient]:
    """A client of `namespace`."""
    if transport == "amqp":
        yield request.getfixturevalue("azure").client
    elif transport in client_transport.STORES:
        with (
            serve(namespace) as server,
            ServiceBusClient.from_connection_string(server.connection_string, retry_total=0) as client,
        ):
            yield client
    else:
        with ServiceBusClient(namespace) as client:
            yield client


@pytest.fixture
def aio_client(namespace: Namespace, transport: str) -> Iterator[Callable[[], oxbus.aio.ServiceBusClient]]:
    """Make clients of `namespace` for asyncio."""
    if transport not in client_transport.STORES:
        yield lambda: oxbus.aio.ServiceBusClient(namespace)
        return
    with serve(namespace) as server:
        yield lambda: oxbus.aio.ServiceBusClient.from_connection_string(server.connection_string, retry_total=0)


@pytest.fixture
def admin(
    namespace: Namespace, transport: str, request: pytest.FixtureRequest
) -> Iterator[ServiceBusAdministrationClient]:
    """An administration client of `namespace`."""
    if transport == "amqp":
        yield cast("ServiceBusAdministrationClient", request.getfixturevalue("azure").administration)
    elif transport in http_transport.STORES:
        with (
            serve(namespace) as server,
            ServiceBusAdministrationClient.from_connection_string(server.connection_string, retry_total=0) as admin,
        ):
            yield admin
    else:
        yield ServiceBusAdministrationClient(namespace)


@pytest.fixture(params=[True, False], ids=["partitioned", "plain"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    """Whether the queues of this test are partitioned."""
    return bool(request.param)


@pytest.fixture
def make_queue(admin: ServiceBusAdministrationClient, partitioned: bool) -> Callable[..., str]:
    """Create a queue, partitioned if `partitioned` is true, and return its name."""

    def make(name: str = "orders", **options: Any) -> str:
        admin.create_queue(name, enable_partitioning=partitioned, **options)
        return name

    return make


@pytest.fixture
def queue_name(make_queue: Callable[..., str]) -> str:
    """A queue with default options, partitioned if `partitioned` is true."""
    return make_queue()


@pytest.fixture
def partitioned_queue(admin: ServiceBusAdministrationClient) -> str:
    """A partitioned queue with default options, for rules about partitioned queues only."""
    admin.create_queue("spread", enable_partitioning=True)
    return "spread"


@pytest.fixture
def plain_queue(admin: ServiceBusAdministrationClient) -> str:
    """A queue that is not partitioned, for rules about plain queues only."""
    admin.create_queue("single", enable_partitioning=False)
    return "single"


@pytest.fixture
def sender(client: ServiceBusClient, queue_name: str) -> Iterator[ServiceBusSender]:
    """A sender to `queue_name`."""
    with client.get_queue_sender(queue_name) as sender:
        yield sender


@pytest.fixture
def receiver(client: ServiceBusClient, queue_name: str) -> Iterator[ServiceBusReceiver]:
    """A peek-lock receiver of `queue_name`."""
    with client.get_queue_receiver(queue_name) as receiver:
        yield receiver


@pytest.fixture
def drain() -> Callable[..., list[ServiceBusReceivedMessage]]:
    """Receive until no message is left.

    One receive may return fewer messages than requested although more exist (B-135), so this receives until
    several in a row are empty.
    """

    def drain(receiver: ServiceBusReceiver, max_message_count: int = 100) -> list[ServiceBusReceivedMessage]:
        messages: list[ServiceBusReceivedMessage] = []
        empty = 0
        while empty < EMPTY_RECEIVES:
            batch = receiver.receive_messages(max_message_count=max_message_count, max_wait_time=0)
            assert len(batch) <= max_message_count
            messages += batch
            empty = 0 if batch else empty + 1
        return messages

    return drain


@pytest.fixture
def receive_one() -> Callable[..., ServiceBusReceivedMessage]:
    """Receive exactly one message, or fail."""

    def receive_one(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
        for _ in range(EMPTY_RECEIVES):
            messages = receiver.receive_messages(max_message_count=1, max_wait_time=0)
            if messages:
                (message,) = messages
                return message
        pytest.fail("no message to receive")

    return receive_one


@pytest.fixture
def peek_all() -> Callable[..., list[ServiceBusReceivedMessage]]:
    """Peek at a queue or sub-queue from start to end, with a new receiver."""

    def peek_all(client: ServiceBusClient, queue_name: str, **options: Any) -> list[ServiceBusReceivedMessage]:
        messages: list[ServiceBusReceivedMessage] = []
        with client.get_queue_receiver(queue_name, **options) as browser:
            while batch := browser.peek_messages(max_message_count=100):
                messages += batch
        return messages

    return peek_all


@pytest.fixture
def in_background() -> Callable[..., BackgroundCall]:
    """Run a call in a thread; `.result()` waits for it and fails the test if it is stuck."""
    return BackgroundCall


@pytest.fixture
def key_in() -> Callable[..., str]:
    """Find a partition key of the given one of 16 partitions."""

    def key_in(partition_id: int, partitions: int = 16) -> str:
        candidates = (f"key-{number}" for number in range(100_000))
        return next(key for key in candidates if oxbus.partition_id(key, partitions) == partition_id)

    return key_in


@pytest.fixture
def with_two_keys() -> Callable[..., object]:
    """Call a function with a message whose session id and partition key differ.

    It is refused at the latest when it is sent (B-064); setting the second key may fail earlier.
    """

    def with_two_keys(call: Callable[[ServiceBusMessage], object]) -> object:
        message = ServiceBusMessage(b"two keys", partition_key="p")
        message.session_id = "s"
        return call(message)

    return with_two_keys


def body_bytes(body: Any) -> bytes | None:
    """The whole body of a message; None for a message without one."""
    return None if body is None else b"".join(body)


@pytest.fixture
def snapshot(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> Callable[[str], object]:
    """Everything a client can see of a queue, to show that a refused call changed nothing."""

    def snapshot(queue_name: str) -> object:
        counts = admin.get_queue_runtime_properties(queue_name)
        contents = [
            [
                (
                    message.sequence_number,
                    message.state,
                    message.delivery_count,
                    message.enqueued_time_utc,
                    body_bytes(message.body),
                    message.application_properties,
                )
                for message in peek_all(client, queue_name, sub_queue=sub_queue)
            ]
            for sub_queue in (None, "deadletter")
        ]
        return (
            counts.total_message_count,
            counts.active_message_count,
            counts.dead_letter_message_count,
            counts.scheduled_message_count,
            counts.locked_message_count,
            counts.deferred_message_count,
            contents,
        )

    return snapshot
