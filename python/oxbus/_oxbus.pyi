# SPDX-License-Identifier: Apache-2.0
"""The native module: messages, senders, receivers and the namespace.

Everything here that has no underscore is exported by `oxbus`, `oxbus.bulk` or `oxbus.testing`.
Times are aware UTC datetimes with the resolution of a millisecond; waits are seconds.
A call that may block lets other threads run and can be interrupted with Ctrl-C.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Never, Protocol, Self, TypeAlias, final
from uuid import UUID

from typing_extensions import disjoint_base

from oxbus._auto_lock_renewer import AutoLockRenewer
from oxbus._enums import AmqpMessageBodyType, ServiceBusMessageState
from oxbus._transaction import TransactionScopes

__all__ = [
    "ArrowArray",
    "ArrowTable",
    "BulkClient",
    "ManualClock",
    "Namespace",
    "PartitionHealth",
    "Recovery",
    "Server",
    "ServiceBusMessage",
    "ServiceBusMessageBatch",
    "ServiceBusReceivedMessage",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "_BulkLoad",
    "_Drain",
    "_Reservations",
    "_Stages",
    "_Transaction",
    "_Waiter",
    "_WakeUps",
    "_close_durable",
    "_end_log",
    "_flush_log",
    "_mute_log",
    "_salvage",
    "_shards_of",
    "_wake_waiting",
    "partition_id",
    "partition_ids",
]

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Property: TypeAlias = bool | int | float | str | bytes | datetime | timedelta | UUID | None
_MaybeNone: TypeAlias = Any
"""Stands for None where hardly any program meets it, so that programs need not check for it."""
_Outcome: TypeAlias = Literal["complete", "abandon", "defer", "dead_letter"]

def partition_id(key: str | bytes, partitions: int = 16) -> int:
    """Return the partition that a key goes to.

    The XXH64 hash of the key's bytes with seed 42, as a signed number, modulo `partitions`:
    what Spark computes as ``pmod(xxhash64(cast(key as binary)), partitions)``.

    Args:
        key: A session id or partition key; text is hashed as UTF-8.
        partitions: How many partitions there are, 1 to 65,535.

    Raises:
        ValueError: `partitions` is out of its range.
        TypeError: `key` is neither text nor bytes.

    Source: docs/behaviour.md B-062; docs/decisions/0001-partition-hash.md.
    """

def partition_ids(keys: _ArrowArray | _ArrowStream | Sequence[str | bytes | None], partitions: int = 16) -> ArrowArray:
    """Return the partition of each key; a null key has a null partition.

    Args:
        keys: An Arrow array of strings or binaries (read in place), a list, or a numpy array.
        partitions: How many partitions there are, 1 to 65,535.

    Returns:
        An Arrow array of 32-bit integers; ``pyarrow.array(result)`` takes it over without a copy.

    Raises:
        ValueError: `partitions` is out of its range.
        TypeError: A key is neither text nor bytes.
    """

def _salvage(source: str | PathLike[str], target: str | PathLike[str]) -> list[dict[str, Any]]:
    """Copy what is intact in a damaged namespace into a new one; what each partition had and lost."""

@final
class _WakeUps:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[int]: ...
    def waiter(self, number: int, max_wait_time: float | None) -> _Waiter: ...

@final
class _Waiter:
    def cancel(self) -> None: ...

def _close_durable() -> None:
    """Close the durable namespaces that are still open: the process ends."""

def _end_log() -> None:
    """Write the lines of the log so far, and take no more: the process ends."""

def _flush_log(seconds: float) -> bool:
    """Wait until the lines of the log so far are written, or for so long; False when some are not."""

def _mute_log(muted: bool) -> None:
    """Take no lines of the log, whatever levels say; or take them again."""

def _wake_waiting() -> None:
    """End every receive that waits; it returns what it has. Called when the interpreter exits."""

@final
class ArrowArray:
    """32-bit integers in Arrow memory, readable by anything that understands the Arrow C data interface."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def to_pylist(self) -> list[int | None]:
        """Return the values as Python objects."""

@final
class ArrowTable:
    """Messages as Arrow columns, readable by anything that understands the Arrow C stream interface."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Server:
    """A server of a namespace, for SDKs and bulk clients. Made by `oxbus.server.serve`; usable as a context manager.

    Source: docs/server.md.
    """

    @property
    def host(self) -> str:
        """The host that it was asked to listen on."""

    @property
    def port(self) -> int:
        """The first of its ports."""

    @property
    def amqp_port(self) -> int | None:
        """What stands for 5672 in the service; None when it was left out."""

    @property
    def amqps_port(self) -> int | None:
        """What stands for 5671 in the service; None when it was left out."""

    @property
    def http_port(self) -> int | None:
        """What stands for 5300 in the emulator; None when it was left out."""

    @property
    def https_port(self) -> int | None:
        """What stands for 443 in the service; None when it was left out."""

    @property
    def connection_string(self) -> str:
        """What SDKs, Spark and `BulkClient` need, with a key in clear: that of the first rule that may manage, or of the first.

        With a certificate of the caller's and a port for TLS it names that port, and clients speak TLS; otherwise it says
        ``UseDevelopmentEmulator=true``, and they do not.
        """

    @property
    def certificate(self) -> str | None:
        """In PEM, what clients have to trust; None when the certificate is the caller's."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    def close(self) -> None:
        """Accept no more connections, let requests under way finish, and free the ports; closing twice is harmless.

        Receives that wait end at once, without messages.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def _rules(self) -> list[dict[str, Any]]: ...
    def _replace_rules(self, rules: list[dict[str, Any]]) -> None: ...

@final
class BulkClient:
    """A client of the bulk routes of a server: rows as Arrow tables, reservations, staged sends.

    May be shared by threads, and works on in a forked process, with connections of its own there.
    Errors of the broker are the same exceptions as in the broker's own process.
    What goes over the network can also raise:

        ServiceBusConnectionError: The server cannot be reached, or the connection broke. After a send, nobody knows
            whether it was stored.
        ServiceBusAuthenticationError: The key is wrong, or the clocks differ by more than five minutes.
        ServiceBusAuthorizationError: The key does not give the right that the call needs, or is for another entity.
        OperationTimeoutError: The server did not answer in time.
        ServiceBusServerBusyError: The server has too much to do.

    Source: docs/bulk.md.
    """

    def __new__(
        cls, connection_string: str, *, ca_file: str | PathLike[str] | None = None, timeout: float = 60.0
    ) -> Self:
        """Make a client; nothing is connected yet.

        Args:
            connection_string: What SDKs take: ``Endpoint=sb://host:port;SharedAccessKeyName=...;SharedAccessKey=...``, with
                ``;UseDevelopmentEmulator=true`` behind it for a server without TLS.
            ca_file: A PEM file with the certificates to trust; None: those of the system.
            timeout: Seconds to wait for each piece of the connection: connecting, writing, and every read.

        Raises:
            ValueError: The connection string or the file is none.
        """

    @property
    def endpoint(self) -> str:
        """The address of the server, ``sb://host:port``."""

    def describe(self, entity: str) -> dict[str, Any]:
        """Return what an entity is: ``kind`` ("queue", "topic" or "subscription"), ``partitions``, ``incarnation``, settings.

        ``starts`` and ``ends`` are counters by partition (the low 48 bits of a sequence number): that of the first message
        there is, and the one that the next message gets. A plain entity has one partition, 0.
        They and ``active_messages`` are left out for a key that may only send.

        Raises:
            MessagingEntityNotFoundError: There is no such entity.
        """

    def send(self, entity: str, data: _ArrowArray | _ArrowStream) -> dict[int, int]:
        """Send the rows of a table as messages, as `ServiceBusSender.send_arrow` does. All rows are checked first.

        The rows are read while they are sent; at most 256 MiB of them in one call.

        Args:
            entity: A queue or a topic.
            data: The columns of `ServiceBusSender.send_arrow`, and ``partition_id`` (int16 or int32) for where rows without
                a key are to go.

        Returns:
            Partition id to the number of rows that it stored.

        Raises:
            PartialSendError: Some rows were not stored; it names them.
            ValueError: A column or a value is wrong; nothing was stored.
            MessageSizeExceededError: A row is larger than the entity takes, or all are larger than one call may bring.
        """

    def receive(
        self,
        entity: str,
        *,
        max_message_count: int,
        max_wait_time: float = 0.0,
        receive_mode: Literal["peek_lock", "receive_and_delete"] = "peek_lock",
    ) -> ArrowTable:
        """Receive messages as columns, as `ServiceBusReceiver.receive_arrow` does.

        Messages whose way breaks off go back at once, nothing charged; with "receive_and_delete" they are lost.

        Args:
            entity: A queue, a subscription (``topic/Subscriptions/name``), or either with ``/$deadletterqueue`` behind.
            max_message_count: Upper bound, at least 1.
            max_wait_time: Seconds to wait for the first message, at most an hour.
            receive_mode: Locked until they are settled, or gone.
        """

    def settle(
        self,
        entity: str,
        lock_tokens: Iterable[bytes] | _ArrowArray | _ArrowStream,
        outcome: _Outcome,
        *,
        reason: str | None = None,
        description: str | None = None,
    ) -> list[int]:
        """Settle received messages and return the positions of those whose lock was lost; the others are settled.

        Args:
            entity: As for `receive`.
            lock_tokens: What `receive` returned, rows of it, its column lock_token, or a sequence of its values.
            outcome: How.
            reason: Of a dead letter.
            description: Of a dead letter.

        Raises:
            PartitionUnavailableError: A partition failed or is out of service; its `sequence_numbers` names those that
                were not settled, or of which nobody knows, and its `effect` says which. The others were.
        """

    def peek(
        self,
        entity: str,
        partition: int,
        from_sequence_number: int,
        *,
        to_sequence_number: int | None = None,
        max_bytes: int = 2097152,
        include_body: bool = True,
        application_properties: Literal["map", "json"] = "map",
    ) -> tuple[ArrowTable, int | None]:
        """Look at the messages of one partition, in the order of their numbers, and leave them as they are.

        Args:
            entity: As for `receive`.
            partition: 0 for a plain entity.
            from_sequence_number: Where to begin; lower than the first is the first.
            to_sequence_number: Where to end, that number included.
            max_bytes: Size of a page, at most 64 MiB; at least one message comes.
            include_body: False leaves the column body empty.
            application_properties: "map" for text under text, "json" for the text of a JSON object that keeps numbers and truth
                values.

        Returns:
            A page, and the sequence number at which the next one begins; None after the last.
        """

    def acquire(self, entity: str, consumer: str, start: Literal["earliest", "latest"] = "earliest") -> dict[str, int]:
        """Become the one who speaks for a consumer; whoever was it before is refused from now on.

        Args:
            entity: As for `receive`; not one with sessions.
            consumer: Its name, the same after every restart.
            start: Where a consumer begins that was never here: at the first message, or behind the last.

        Returns:
            ``epoch``, to be named in later calls, and ``done``, the highest number that was completed.
        """

    def reserve(
        self,
        entity: str,
        consumer: str,
        epoch: int,
        n: int,
        *,
        max_messages: int,
        max_bytes: int,
        lock_duration: float,
        max_wait_time: float = 0.0,
        upto: list[int] | None = None,
    ) -> dict[str, Any]:
        """Reserve messages under a number, or return what that number has.

        Args:
            entity: As for `acquire`.
            consumer: As for `acquire`.
            epoch: What `acquire` returned.
            n: The number, one higher than the last.
            max_messages: At most so many.
            max_bytes: At most so many bytes; one message may have more.
            lock_duration: Seconds that they are reserved unless that is renewed.
            max_wait_time: Seconds to wait for the first message.
            upto: By partition, no message whose counter is this or higher: `ends` of `describe`.

        Returns:
            ``id``, ``n``, ``messages``, ``missing`` (what others took meanwhile), ``expires_at_ms``, and ``partitions``: a list
            of ``partition``, ``ranges`` of sequence numbers with both ends included, ``messages`` and ``bytes``.
            Without messages nothing was reserved, and the number stays free.

        Raises:
            ReservationFencedError: Somebody else acquired the consumer.
            CheckpointBehindError: The number was completed before.
        """

    def plan(self, entity: str, consumer: str, epoch: int, n: int, *, lock_duration: float) -> dict[str, Any]:
        """Return what a number has, as `reserve` does; never more than before."""

    def read(
        self,
        entity: str,
        reservation_id: str,
        epoch: int,
        partition: int,
        lo: int,
        hi: int,
        *,
        max_bytes: int = 2097152,
        include_body: bool = True,
        application_properties: Literal["map", "json"] = "map",
    ) -> tuple[ArrowTable, int | None]:
        """Read messages of a reservation, as often as needed, from any process.

        Args:
            entity: As for `acquire`.
            reservation_id: ``id`` of the plan.
            epoch: What `acquire` returned.
            partition: Which.
            lo: The first sequence number.
            hi: The last sequence number, included.
            max_bytes: Size of a page, at most 64 MiB; at least one message comes.
            include_body: False leaves the column body empty.
            application_properties: As for `peek`.

        Returns:
            A page, and the sequence number at which the next one begins; None after the last.

        Raises:
            MessageLockLostError: The reservation lapsed; plan it again.
        """

    def renew(self, entity: str, consumer: str, epoch: int, *, lock_duration: float) -> None:
        """Keep all that a consumer has for so many seconds from now."""

    def complete(self, entity: str, consumer: str, epoch: int, n: int) -> dict[str, int]:
        """Complete all that a consumer has up to a number; doing it again does nothing.

        Returns:
            ``completed``, and ``late``: messages that others took after the reservation had lapsed.
        """

    def settle_reserved(
        self,
        entity: str,
        reservation_id: str,
        epoch: int,
        sequence_numbers: list[int],
        outcome: _Outcome,
        *,
        reason: str | None = None,
        description: str | None = None,
    ) -> int:
        """Settle single messages of a reservation, and return how many that were."""

    def reservations(self, entity: str) -> list[dict[str, Any]]:
        """Return the reservations of all consumers: ``consumer``, ``n``, ``epoch``, ``done``, ``messages``, ``state``."""

    def cancel_reservation(self, entity: str, consumer: str) -> int:
        """Give back all that a consumer has, nothing charged, and return how many messages that were."""

    def stage(self, entity: str, stage_id: str, data: _ArrowArray | _ArrowStream) -> int:
        """Put rows aside under an id; `commit_stages` publishes them. A stage that fails half-way is removed.

        Args:
            entity: A queue or a topic.
            stage_id: New for each attempt of a task.
            data: As for `send`, without its bound.

        Returns:
            How many rows.
        """

    def commit_stages(self, sink: str, query: str, batch: int, stage_ids: list[str]) -> bool:
        """Publish stages as a batch of a sink: all of them, once.

        Returns:
            False when that batch was committed before; the stages named now are discarded then.
        """

    def abort_stages(self, sink: str, query: str, batch: int, stage_ids: list[str]) -> None:
        """Discard stages, unless their batch was committed."""

    def stages(self) -> list[dict[str, Any]]:
        """Return all stages: ``id``, ``entity``, ``rows``, ``bytes``, ``status``, oldest first."""

    def discard_stage(self, stage_id: str) -> bool:
        """Remove a stage that no commit named; False when there is none."""

    def close(self) -> None:
        """End its connections; closing twice is harmless."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...

@final
class ManualClock:
    """A clock that only moves by hand; give it to ``Namespace(clock=...)``.

    Lock ends, times to live and schedules follow it, and receives that wait look again when it moves.
    """

    def __new__(cls, start: datetime | None = None) -> Self:
        """Make a clock that shows `start`, or the present time of the machine.

        Raises:
            ValueError: `start` has no time zone.
        """

    def advance(self, seconds: float) -> None:
        """Move the clock forward; when this returns, each `AutoLockRenewer` has renewed the locks that were due.

        Raises:
            ValueError: `seconds` is negative.
        """

    def now(self) -> datetime:
        """Return the time it shows."""

    def _follow(self, follower: object) -> None: ...

@final
class PartitionHealth:
    """How one partition of a namespace is.

    Source: docs/behaviour.md section 3.
    """

    @property
    def partition_id(self) -> int:
        """The partition."""

    @property
    def status(self) -> str:
        """``"healthy"``, or what keeps it from working."""

    @property
    def reason(self) -> str | None:
        """Why it does not work; None when it does."""

@final
@final
class Recovery:
    """What opening a durable namespace found."""

    @property
    def frames(self) -> int:
        """Frames of the journals that were read."""

    @property
    def truncated_bytes(self) -> int:
        """Bytes cut from the ends of journals because their write never finished."""

    @property
    def corrupt_partitions(self) -> list[int]:
        """Ids of the partitions that could not be opened; `partition_health` says why."""

    @property
    def waiting_loads(self) -> list[str]:
        """Bulk loads whose rows could not be taken over: why, and in which file they are. The next open tries again."""

    @property
    def seconds(self) -> float:
        """How long opening took, in seconds."""

@final
class Namespace:
    """A set of queues and topics, spread over partitions, in this process: in memory, or in a directory.

    Each partition is a broker with a store of its own: one that fails leaves the others working.
    May be shared by threads; usable as a context manager. A forked child process must open its own.
    """

    def __new__(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        partitions: int | None = None,
        durability: str | None = None,
        tier: str | None = None,
        profile: str = "current",
        config: str | PathLike[str] | Mapping[str, Any] | None = None,
        clock: ManualClock | None = None,
        memory_limit_bytes: int | None = None,
        slow_call_seconds: float = 1.0,
        partitions_owned: Iterable[int] | None = None,
        lock_policy: str = "fresh",
        peek_policy: str = "merged",
    ) -> Self:
        """Open a namespace.

        Args:
            path: A directory, created when it is absent and opened again when it is a namespace. None: in memory.
            partitions: How many partitions, 1 to 64, fixed at creation; None: 16, or those it has.
            durability: What a send or a settlement survives once its call returned. ``"fsync"``, the default with a
                path: the loss of power. ``"os"``: the end of the process; a loss of power may take the last 100 ms.
                ``"memory"``, without a path: nothing.
            tier: ``"basic"``, ``"standard"`` or ``"premium"``: the partitions, ranges, sizes and quotas of that tier.
                None: nothing is metered.
            profile: ``"current"``, or an older edition of the service's rules on partitioning: ``"2019"``, ``"2017"``.
            config: The path of a ``config.json`` of the Azure Service Bus emulator, or what it holds as a mapping. Entities
                that are missing are created; of those that are there, the options that it names are set, and all else
                stays. All of it is done, or nothing.
            clock: What tells the time; None: the clock of the machine.
            memory_limit_bytes: Most bytes of memory that all messages may take. In memory, sends beyond it get a quota error.
                In a directory, what comes in then stays on disk and is read back when it is received; sends are refused
                when even without bodies the messages take so much.
            slow_call_seconds: A call that waits for a disk so long leaves a line in the log; 0: none does.
            partitions_owned: Ids of the partitions to open here; the others are unavailable here and free for other
                processes. Entities are changed only by a process that owns all.
            lock_policy: ``"fresh"``: a lock's time starts when the message is handed out.
                ``"faithful"``: when it is taken from its partition, as in Service Bus.
            peek_policy: ``"merged"``: a peek merges all partitions by enqueued time.
                ``"faithful"``: it answers from one partition at a time, as in Service Bus.

        Raises:
            NamespaceInUseError: Another process, or another handle in this one, owns a partition.
            StoreCorruptError: The catalog is damaged. A damaged partition raises nothing: see `recovery`.
            InvalidOperationError: The path is not a namespace, was written by a newer version, or has another number of
                partitions; an option asks for something that this version does not have; or `config` differs from an
                entity that is there in something that is fixed at creation.
            OSError: The directory or the configuration file cannot be read or written.
            ValueError: An option is out of its range, or `config` has an unknown key or a wrong value; the text names the
                place in the file.

        Source: docs/guarantees.md.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def close(self) -> None:
        """End all receives that wait; closing twice is harmless.

        Messages in memory are dropped; a directory keeps everything acknowledged, and others may open it.
        """

    def serve_bulk(self, *arguments: object, **options: object) -> Never:
        """Say what took its place: `oxbus.server.serve`, whose connection string is for bulk clients, too.

        Raises:
            InvalidOperationError: Always.

        Source: docs/guide/one-server.md.
        """

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    @property
    def partitions(self) -> int:
        """How many partitions it has."""

    def partition_health(self) -> list[PartitionHealth]:
        """Return how each partition is, by partition id.

        Source: docs/behaviour.md B-097 to B-099.
        """

    @property
    def recovery(self) -> Recovery | None:
        """What opening found; None for a namespace in memory."""

    def checkpoint(self) -> None:
        """Write a snapshot of each healthy partition and let go of its journal before it; nothing to do in memory.

        Happens by itself, too: every 64 MiB of a partition's journal, every minute, and when the namespace closes.

        Raises:
            PartitionUnavailableError: A partition could not be written.
        """

    def statistics(self) -> dict[str, Any]:
        """Return counters of the whole namespace, each named with its unit."""

    @staticmethod
    def _own(
        path: str | PathLike[str], partition: int, durability: Literal["fsync", "os"] | None = None
    ) -> Namespace: ...
    def _close_as_it_is(self) -> None: ...
    def _serve(
        self,
        host: str,
        amqp_port: int | None,
        amqps_port: int | None,
        http_port: int | None,
        https_port: int | None,
        rules: list[dict[str, Any]],
        certificate: str | PathLike[str] | None,
        private_key: str | PathLike[str] | None,
        certificate_out: str | PathLike[str] | None,
        bulk_limits: dict[str, int],
    ) -> Server: ...
    def _create_queue(self, name: str, options: dict[str, Any]) -> dict[str, Any]: ...
    def _get_queue(self, name: str) -> dict[str, Any]: ...
    def _update_queue(self, name: str, options: dict[str, Any]) -> None: ...
    def _delete_queue(self, name: str) -> None: ...
    def _list_queues(self) -> list[dict[str, Any]]: ...
    def _queue_runtime(self, name: str) -> dict[str, Any]: ...
    def _create_topic(self, name: str, options: dict[str, Any]) -> dict[str, Any]: ...
    def _get_topic(self, name: str) -> dict[str, Any]: ...
    def _update_topic(self, name: str, options: dict[str, Any]) -> None: ...
    def _delete_topic(self, name: str) -> None: ...
    def _list_topics(self) -> list[dict[str, Any]]: ...
    def _topic_runtime(self, name: str) -> dict[str, Any]: ...
    def _create_subscription(
        self, topic: str, name: str, options: dict[str, Any], rule: dict[str, Any] | None
    ) -> dict[str, Any]: ...
    def _get_subscription(self, topic: str, name: str) -> dict[str, Any]: ...
    def _update_subscription(self, topic: str, name: str, options: dict[str, Any]) -> None: ...
    def _delete_subscription(self, topic: str, name: str) -> None: ...
    def _list_subscriptions(self, topic: str) -> list[dict[str, Any]]: ...
    def _subscription_runtime(self, topic: str, name: str) -> dict[str, Any]: ...
    def _create_rule(self, topic: str, subscription: str, rule: dict[str, Any]) -> dict[str, Any]: ...
    def _get_rule(self, topic: str, subscription: str, name: str) -> dict[str, Any]: ...
    def _update_rule(self, topic: str, subscription: str, rule: dict[str, Any]) -> None: ...
    def _delete_rule(self, topic: str, subscription: str, name: str) -> None: ...
    def _list_rules(self, topic: str, subscription: str) -> list[dict[str, Any]]: ...
    def _namespace_properties(self) -> dict[str, Any]: ...
    def _stages(self) -> _Stages: ...
    @property
    def _may_wait(self) -> bool: ...
    def _inject_fault(self, partition_id: int | None, fault: str, after: int) -> None: ...
    def _heal(self, partition_id: int | None) -> None: ...
    def _sender(self, entity_path: str, client_identifier: str | None = None) -> ServiceBusSender: ...
    def _receiver(
        self,
        entity_path: str,
        *,
        sub_queue: str | None,
        receive_mode: str,
        max_wait_time: float | None,
        prefetch_count: int,
        auto_lock_renewer: AutoLockRenewer | None,
        lock_policy: str | None,
        partition_id: int | None,
        client_identifier: str | None,
        session: tuple[str | None] | None = None,
    ) -> ServiceBusReceiver: ...
    def _purge(
        self,
        entity_path: str,
        sub_queue: str | None,
        expression: str | None,
        parameters: dict[str, Any],
        before: datetime | None,
        limit: int | None,
    ) -> int: ...
    def _resubmit(
        self, entity_path: str, expression: str | None, parameters: dict[str, Any], limit: int | None
    ) -> int: ...
    def _clock_ms(self) -> int: ...
    def _dead_letter_count(self, entity_path: str) -> int: ...
    def _transaction(self, cross_entity: bool) -> _Transaction: ...
    def _list_sessions(self, entity_path: str) -> list[dict[str, Any]]: ...
    def _reservations(self, entity_path: str) -> _Reservations: ...

@final
class _Reservations:
    """The reservations of a queue, a subscription or a dead-letter queue."""

    def acquire(self, consumer: str, start: str = "earliest") -> dict[str, int]: ...
    def reserve(
        self,
        consumer: str,
        epoch: int,
        n: int,
        *,
        max_messages: int,
        max_bytes: int,
        lock_duration: float,
        max_wait_time: float = 0.0,
        upto: list[int] | None = None,
    ) -> dict[str, Any]: ...
    def plan(self, consumer: str, epoch: int, n: int, *, lock_duration: float) -> dict[str, Any]: ...
    def read(
        self,
        reservation_id: str,
        epoch: int,
        partition: int,
        lo: int,
        hi: int,
        *,
        max_bytes: int = 2097152,
        include_body: bool = True,
    ) -> tuple[ArrowTable, int | None]: ...
    def renew(self, consumer: str, epoch: int, *, lock_duration: float) -> None: ...
    def complete(self, consumer: str, epoch: int, n: int) -> dict[str, int]: ...
    def settle_reserved(
        self,
        reservation_id: str,
        epoch: int,
        sequence_numbers: list[int],
        outcome: str,
        *,
        reason: str | None = None,
        description: str | None = None,
    ) -> int: ...
    def reservations(self) -> list[dict[str, Any]]: ...
    def cancel_reservation(self, consumer: str) -> int: ...
    def ends(self) -> list[int]: ...

@disjoint_base
class ServiceBusMessage:
    """A message to send.

    Source: docs/behaviour.md B-047, B-048, B-428, B-429; differences in docs/compat.md#messages.
    """

    def __new__(
        cls,
        body: str | bytes | None,
        *,
        application_properties: Mapping[str, _Property] | None = None,
        session_id: str | None = None,
        message_id: str | None = None,
        scheduled_enqueue_time_utc: datetime | None = None,
        time_to_live: timedelta | None = None,
        content_type: str | None = None,
        correlation_id: str | None = None,
        subject: str | None = None,
        partition_key: str | None = None,
        to: str | None = None,
        reply_to: str | None = None,
        reply_to_session_id: str | None = None,
    ) -> Self:
        """Make a message.

        Args:
            body: The payload; text is stored as UTF-8. None: a message without a payload.
            application_properties: Values of your own by name, up to 64 KiB in all.
            session_id: The session; also the partition key.
            message_id: Up to 128 characters. The sender makes one when it is missing.
            scheduled_enqueue_time_utc: Not to be received before.
            time_to_live: Not to be received later than this long after it was stored.
            content_type: What the body is, a MIME type.
            correlation_id: Which message this one answers.
            subject: What the message is about.
            partition_key: Messages with equal keys go to one partition and stay in order. Up to 128 characters.
            to: The final receiver; not interpreted.
            reply_to: The queue for answers; not interpreted.
            reply_to_session_id: The session for answers; not interpreted.

        Raises:
            TypeError: A value is of the wrong type.
            ValueError: A value is too long or out of its range, or session id and partition key differ.
        """

    def __bytes__(self) -> bytes: ...
    @property
    def body(self) -> Iterator[bytes] | _MaybeNone:
        """The sections of the payload; ``b"".join(message.body)`` is all of it. None for a message without one."""

    @property
    def body_type(self) -> AmqpMessageBodyType:
        """The form of the body."""

    @property
    def application_properties(self) -> dict[str, Any] | None:
        """Values of the sender's own, by name."""

    @application_properties.setter
    def application_properties(self, value: Mapping[str, _Property] | None) -> None: ...
    @property
    def session_id(self) -> str | None:
        """The session."""

    @session_id.setter
    def session_id(self, value: str | None) -> None: ...
    @property
    def message_id(self) -> str | None:
        """The id that the sender gave, or that was made when the message was sent."""

    @message_id.setter
    def message_id(self, value: str | None) -> None: ...
    @property
    def scheduled_enqueue_time_utc(self) -> datetime | None:
        """When the message may be received at the earliest."""

    @scheduled_enqueue_time_utc.setter
    def scheduled_enqueue_time_utc(self, value: datetime | None) -> None: ...
    @property
    def time_to_live(self) -> timedelta | None:
        """How long after it was stored the message may be received."""

    @time_to_live.setter
    def time_to_live(self, value: timedelta | None) -> None: ...
    @property
    def content_type(self) -> str | None:
        """What the body is, a MIME type."""

    @content_type.setter
    def content_type(self, value: str | None) -> None: ...
    @property
    def correlation_id(self) -> str | None:
        """Which message this one answers."""

    @correlation_id.setter
    def correlation_id(self, value: str | None) -> None: ...
    @property
    def subject(self) -> str | None:
        """What the message is about."""

    @subject.setter
    def subject(self, value: str | None) -> None: ...
    @property
    def partition_key(self) -> str | None:
        """The key that chooses the partition."""

    @partition_key.setter
    def partition_key(self, value: str | None) -> None: ...
    @property
    def to(self) -> str | None:
        """The final receiver."""

    @to.setter
    def to(self, value: str | None) -> None: ...
    @property
    def reply_to(self) -> str | None:
        """The queue for answers."""

    @reply_to.setter
    def reply_to(self, value: str | None) -> None: ...
    @property
    def reply_to_session_id(self) -> str | None:
        """The session for answers."""

    @reply_to_session_id.setter
    def reply_to_session_id(self, value: str | None) -> None: ...

@final
class ServiceBusReceivedMessage(ServiceBusMessage):
    """A message that was received or peeked. It is frozen: setting a property raises `AttributeError`.

    Source: docs/behaviour.md B-103 to B-119, B-290 to B-293.
    """

    auto_renew_error: Exception | None

    def __buffer__(self, flags: int, /) -> memoryview:
        """The body without a copy, read-only: `memoryview(message)`, or any call that takes bytes-like objects."""

    @property
    def sequence_number(self) -> int:
        """The number given when the message was stored: partition id in the top 16 bits, never used again."""

    @property
    def partition_id(self) -> int | None:
        """The partition that holds the message; None on a queue that is not partitioned."""

    @property
    def enqueued_sequence_number(self) -> int | None:
        """The number given where the message was first stored, before any forwarding."""

    @property
    def enqueued_time_utc(self) -> datetime:
        """When the message was stored."""

    @property
    def expires_at_utc(self) -> datetime | None:
        """When the message expires; None when it never does."""

    @property
    def delivery_count(self) -> int:
        """How often the message was handed out before and came back; 0 the first time."""

    @property
    def state(self) -> ServiceBusMessageState:
        """Where the message stands in its queue."""

    @property
    def lock_token(self) -> UUID | str | None:
        """The token of the lock; None when the message was peeked or removed as it was received."""

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock ends; None without a lock."""

    @property
    def dead_letter_reason(self) -> str | None:
        """Why the message is in the dead-letter queue."""

    @property
    def dead_letter_error_description(self) -> str | None:
        """What went wrong before the message went to the dead-letter queue."""

    @property
    def dead_letter_source(self) -> str | None:
        """The queue that a forwarded dead letter came from."""

    @property
    def _lock_expired(self) -> bool: ...
    @property
    def _settled(self) -> bool: ...
    @property
    def _committing(self) -> bool: ...

@final
class ServiceBusMessageBatch:
    """Messages that are sent together or not at all, up to a size.

    Make one with `ServiceBusSender.create_message_batch`.

    Source: docs/behaviour.md B-079 to B-084.
    """

    def __new__(cls, max_size_in_bytes: int | None = None) -> Self: ...
    def __len__(self) -> int: ...
    def add_message(self, message: ServiceBusMessage) -> None:
        """Add a message.

        Raises:
            MessageSizeExceededError: It does not fit; the batch stays as it was.
            TypeError: `message` is not a `ServiceBusMessage`.
        """

    @property
    def max_size_in_bytes(self) -> int:
        """The most bytes that the batch may have."""

    @property
    def size_in_bytes(self) -> int:
        """The bytes that it has, each message with its properties and a header."""

@final
class ServiceBusSender:
    """Sends messages to a queue. May be shared by threads; usable as a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def close(self) -> None:
        """Close the sender. Closing twice is harmless."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    @property
    def client_identifier(self) -> str:
        """The name of this sender in error texts."""

    @property
    def last_durability(self) -> str | None:
        """The level that the last send reached: ``"memory"``, ``"os"`` or ``"fsync"``; None before the first one."""

    def send_messages(
        self,
        message: ServiceBusMessage | Iterable[ServiceBusMessage] | ServiceBusMessageBatch,
        *,
        timeout: float | None = 60.0,
        durability: str | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Store one message, or several as one atomic batch.

        A key (session id, else partition key) chooses the partition. A message or batch without a key goes to the
        next partition in turn that is available.

        Args:
            message: One message, several, or a batch. Several need one key on a partitioned queue.
            timeout: Seconds after which a wait for a store that does not answer ends; more than 0, or None for no bound.
                Without a key the message goes elsewhere after 5 s, so give more than 15 s, or leave it out.
            durability: ``"os"`` or ``"fsync"`` for this call; None: the namespace's level.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Raises:
            MessagingEntityNotFoundError: The queue is gone.
            MessagingEntityDisabledError: The status of the queue forbids sending.
            MessageSizeExceededError: A message or the batch is too large.
            InvalidOperationError: Keys in the batch differ, or session id and partition key do.
            PartitionUnavailableError: The key's partition is out of service, or all are.
            ServiceBusServerBusyError: The key's partition asks for a pause: too many sends wait for its store.
            OperationTimeoutError: The store did not answer in time. The message is stored at most once; the text says
                whether that is known.
            ServiceBusQuotaExceededError: The key's partition, or every partition, is full.
            ValueError: The sender is closed, or `timeout` is not more than 0.
            TypeError: `message` holds something that is no message.

        Source: docs/behaviour.md B-061 to B-084; differences in docs/compat.md#send.
        """

    def schedule_messages(
        self,
        messages: ServiceBusMessage | Iterable[ServiceBusMessage],
        schedule_time_utc: datetime,
        *,
        timeout: float | None = 60.0,
        transaction: TransactionScopes | None = None,
    ) -> list[int]:
        """Store messages that cannot be received before a time.

        Args:
            messages: One message or several.
            schedule_time_utc: The earliest time; one without a time zone counts as UTC.
            timeout: As in `send_messages`.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Returns:
            Their sequence numbers, which `cancel_scheduled_messages` takes. They get new ones when their time comes.

        Raises:
            The same as `send_messages`.

        Source: docs/behaviour.md B-232 to B-237.
        """

    def cancel_scheduled_messages(self, sequence_numbers: int | Iterable[int], *, timeout: float | None = 60.0) -> None:
        """Delete messages whose time has not come.

        Args:
            sequence_numbers: What `schedule_messages` returned; of one partition.
            timeout: Seconds after which a wait for a store that does not answer ends; more than 0, or None for no bound.

        Raises:
            OperationTimeoutError: The store did not answer in time; they are deleted, or none is.
            MessageNotFoundError: One of them is not there or was activated; the text names them, none is deleted.
            ValueError: The sender is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-238, B-239.
        """

    def create_message_batch(self, max_size_in_bytes: int | None = None) -> ServiceBusMessageBatch:
        """Return an empty batch.

        Args:
            max_size_in_bytes: The most bytes that it may have; None: 1 MiB.

        Raises:
            ValueError: More than the queue accepts.
        """

    def send_arrow(self, data: _ArrowStream | _ArrowArray) -> dict[int, int]:
        """Store each row of a table as a message.

        Rows are grouped by partition; each group is stored whole and in row order. Rows without a key are spread.
        Columns are properties of messages: `body` (binary or string), `message_id`, `session_id`, `partition_key`,
        `subject`, `correlation_id`, `content_type`, `to`, `reply_to` (strings), `application_properties`
        (map of string to string, or strings with a JSON object each, whose members keep their types), `scheduled_enqueue_time_utc` (timestamp), `time_to_live` (duration).

        Args:
            data: Anything with the Arrow C stream or array interface: pyarrow, polars, pandas.

        Returns:
            Partition id to the number of rows that it stored.

        Raises:
            PartialSendError: Some partitions refused their rows; it names those rows.
            ValueError: A column is unknown or of the wrong type, the text names it; or the sender is closed.
            The same as `send_messages` when no row was stored.

        Source: docs/compat.md#arrow.
        """

@final
class ServiceBusSession:
    """The session that a receiver has accepted. `ServiceBusReceiver.session` makes it.

    Its lock covers all messages of the session, those that come later included.

    Source: docs/behaviour.md B-200 to B-217.
    """

    @property
    def session_id(self) -> str | None:
        """The session."""

    @property
    def locked_until_utc(self) -> datetime | None:
        """When its lock ends."""

    @property
    def auto_renew_error(self) -> Exception | None:
        """Why an `AutoLockRenewer` stopped renewing its lock."""

    @auto_renew_error.setter
    def auto_renew_error(self, value: Exception | None) -> None: ...
    def get_state(self, *, timeout: float | None = None) -> bytes | None:
        """Return the state that was kept with the session; None when none was set.

        Raises:
            SessionLockLostError: The lock ended.
            ValueError: The receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-210 to B-212.
        """

    def set_state(
        self,
        state: str | bytes | bytearray | None,
        *,
        timeout: float | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Keep a state with the session, or clear it with None. It outlives the session's messages.

        Args:
            state: Bytes, or text that is kept as UTF-8; no larger than a message of the queue.
            timeout: Seconds after which a wait for a store that does not answer ends; more than 0, or None for no bound.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Raises:
            SessionLockLostError: The lock ended.
            OperationTimeoutError: The store did not answer in time; the state is the new one or the old one.
            ServiceBusQuotaExceededError: The queue or the namespace is full.
            ValueError: The state is too large, the receiver is closed, or `timeout` is not more than 0.
            TypeError: `state` is something else.

        Source: docs/behaviour.md B-210 to B-213.
        """

    def renew_lock(self, *, timeout: float | None = None) -> datetime:
        """Move the end of the lock to one lock duration from now and return it.

        Raises:
            SessionLockLostError: The lock ended.
            ValueError: The receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-202.
        """

    @property
    def _lock_expired(self) -> bool: ...

@final
class ServiceBusReceiver:
    """Takes messages from a queue, fanned in from all its partitions.

    Iterating yields one message after the other and ends when `max_wait_time` passes without one.
    May be shared by threads; usable as a context manager.

    Source: docs/behaviour.md B-125 to B-149; differences in docs/compat.md#receive.
    """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> ServiceBusReceivedMessage: ...
    def next(self) -> ServiceBusReceivedMessage:
        """Return the next message, waiting for `max_wait_time`.

        Raises:
            StopIteration: None came in time.
        """

    def close(self) -> None:
        """Close the receiver. Messages that it held and did not hand out go back without charging a delivery.

        Messages that were handed out stay locked until they are settled through another receiver or their locks end.
        Closing twice is harmless.
        """

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    @property
    def client_identifier(self) -> str:
        """The name of this receiver in error texts."""

    @property
    def session(self) -> ServiceBusSession | None:
        """The session; None for a receiver that was made without one. Accepted now if it was not before."""

    def receive_messages(
        self, max_message_count: int | None = 1, max_wait_time: float | None = None
    ) -> list[ServiceBusReceivedMessage]:
        """Take up to `max_message_count` messages and lock each one.

        Returns as soon as something is ready; waits only while nothing is. It may return fewer than there are.

        Args:
            max_message_count: Upper bound, at least 1. None: as many as there are, up to the prefetch count.
            max_wait_time: Seconds to wait for the first message; 0 does not wait.
                None uses the receiver's own wait, and without one waits until a message comes.

        Returns:
            Messages in sequence-number order within each partition; empty when the wait ends.

        Raises:
            MessagingEntityNotFoundError: The queue is gone.
            MessagingEntityDisabledError: The status of the queue forbids receiving.
            ServiceBusQuotaExceededError: There are messages, and the disk has no room to note that they are handed out:
                free space on it. They stay.
            PartitionUnavailableError: In receive-and-delete mode a removal could not be written, and nothing else was
                there, or this happened in the receive before; its `sequence_numbers` names the messages. With the
                effect ``"unknown"`` they are there again once the partition is healed, unless the process ends before.
            ForkedProcessError: The receiver was made before the process forked.
            ValueError: The receiver is closed, a count is below 1, or a wait is negative.

        Source: docs/behaviour.md B-125 to B-140.
        """

    def receive_deferred_messages(
        self, sequence_numbers: int | Iterable[int], *, timeout: float | None = 60.0
    ) -> list[ServiceBusReceivedMessage]:
        """Take deferred messages by their numbers; all of them or none.

        Args:
            sequence_numbers: One number or several, on a partitioned queue all of one partition.
            timeout: Seconds after which a wait for a store that does not answer ends; more than 0, or None for no bound.

        Raises:
            MessageNotFoundError: One of them is not there, not deferred, or locked.
            InvalidOperationError: They are of different partitions, or too many for receive-and-delete.
            PartitionUnavailableError: Their partition is out of service, or the delivery could not be written: then its
                `effect` says whether it may count all the same after the end of the process.
            ValueError: The receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-275 to B-288.
        """

    def peek_messages(
        self, max_message_count: int = 1, *, sequence_number: int = 0, timeout: float | None = 60.0
    ) -> list[ServiceBusReceivedMessage]:
        """Look at messages without taking them.

        Args:
            max_message_count: Upper bound, 1 to 250.
            sequence_number: Start with this number. 0 goes on after the last message that this receiver peeked,
                merging the partitions by the time their messages were stored.
            timeout: More than 0, or None. Browsing waits for no store, so it does not end a call.

        Returns:
            Messages without locks: active, locked, deferred and scheduled ones.

        Raises:
            ValueError: The receiver is closed, or a value is out of its range.

        Source: docs/behaviour.md B-290 to B-305; differences in docs/compat.md#peek.
        """

    def complete_message(
        self, message: ServiceBusReceivedMessage, *, transaction: TransactionScopes | None = None
    ) -> None:
        """Remove a message: it was handled.

        Args:
            message: The message.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Raises:
            MessageAlreadySettled: This message object was settled before.
            MessageLockLostError: The lock ended, or the message is of another queue.
            ValueError: The message has no lock, or the receiver is closed.

        Source: docs/behaviour.md B-162, B-173.
        """

    def abandon_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Give a message back at once; its delivery count rises by one and it keeps its place.

        Args:
            message: The message.
            properties_to_modify: Application properties to add or replace.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Raises:
            The same as `complete_message`.

        Source: docs/behaviour.md B-163, B-166, B-178.
        """

    def defer_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Set a message aside; only `receive_deferred_messages` brings it back.

        Args:
            message: The message.
            properties_to_modify: Application properties to add or replace.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Raises:
            The same as `complete_message`.

        Source: docs/behaviour.md B-164, B-275.
        """

    def dead_letter_message(
        self,
        message: ServiceBusReceivedMessage,
        reason: str | None = None,
        error_description: str | None = None,
        *,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Move a message to the dead-letter queue.

        Args:
            message: The message.
            reason: Why, up to 4,096 characters.
            error_description: What went wrong, up to 4,096 characters.
            transaction: The transaction that it is part of; None: that of the scope it is in, if any.

        Raises:
            InvalidOperationError: The receiver reads a dead-letter queue.
            The same as `complete_message`.

        Source: docs/behaviour.md B-165, B-168, B-259 to B-267.
        """

    def renew_message_lock(self, message: ServiceBusReceivedMessage, *, timeout: float | None = 60.0) -> datetime:
        """Start the time of a lock anew.

        Returns:
            When the lock ends now; also the message's `locked_until_utc`.

        Raises:
            The same as `complete_message`.

        Source: docs/behaviour.md B-154, B-155.
        """

    def complete_messages(
        self, messages: Iterable[ServiceBusReceivedMessage], *, transaction: TransactionScopes | None = None
    ) -> None:
        """Complete several messages.

        Raises:
            MessageLockLostError: Some were not completed; its `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service; its `sequence_numbers` names those that were
                not settled, or of which nobody knows, and its `effect` says which. The others were.
        """

    def abandon_messages(
        self,
        messages: Iterable[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Abandon several messages.

        Raises:
            MessageLockLostError: Some were not abandoned; its `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service; its `sequence_numbers` names those that were
                not settled, or of which nobody knows, and its `effect` says which. The others were.
        """

    def defer_messages(
        self,
        messages: Iterable[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Defer several messages.

        Raises:
            MessageLockLostError: Some were not deferred; its `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service; its `sequence_numbers` names those that were
                not settled, or of which nobody knows, and its `effect` says which. The others were.
        """

    def dead_letter_messages(
        self,
        messages: Iterable[ServiceBusReceivedMessage],
        reason: str | None = None,
        error_description: str | None = None,
        *,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Dead-letter several messages.

        Raises:
            MessageLockLostError: Some were not moved; its `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service; its `sequence_numbers` names those that were
                not settled, or of which nobody knows, and its `effect` says which. The others were.
        """

    def receive_arrow(self, max_message_count: int = 1, max_wait_time: float | None = None) -> ArrowTable:
        """Take messages as Arrow columns.

        Args:
            max_message_count: Upper bound, at least 1.
            max_wait_time: As for `receive_messages`.

        Returns:
            A table with the columns of `ServiceBusSender.send_arrow` and `sequence_number` (int64), `partition_id`
            (int16), `enqueued_time_utc`, `locked_until_utc` (timestamps), `delivery_count` (int32), `lock_token`
            (16 bytes), `state`, `dead_letter_reason`, `dead_letter_error_description`.

        Raises:
            The same as `receive_messages`.
        """

    def settle_arrow(self, batch: _ArrowStream | _ArrowArray, outcome: _Outcome) -> None:
        """Settle the messages of a table, by its columns `sequence_number` and `lock_token`.

        Args:
            batch: What `receive_arrow` returned, or some rows of it.
            outcome: What to do with each message.

        Raises:
            MessageLockLostError: Some were not settled; its `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service; its `sequence_numbers` names those that were
                not settled, or of which nobody knows, and its `effect` says which. The others were.
            ValueError: A column is missing or `outcome` is unknown.
        """

    def _now(self) -> datetime: ...
    @property
    def _clock(self) -> ManualClock | None: ...
    def _release(self, messages: list[ServiceBusReceivedMessage]) -> None: ...
    def _receive_or_wait(self, max_message_count: int, waiter: _Waiter) -> list[ServiceBusReceivedMessage] | float: ...
    def _receive_arrow_or_wait(self, max_message_count: int, waiter: _Waiter) -> ArrowTable | float: ...
    def _try_open(self) -> bool: ...
    def _open_or_wait(self, waiter: _Waiter) -> bool | float: ...
    def _raise_timed_out(self) -> None: ...
    @property
    def _wants_session(self) -> bool: ...

@final
class _Stages:
    def stage(self, entity: str, stage_id: str, data: _ArrowStream | _ArrowArray) -> int: ...
    def commit_stages(self, sink: str, query: str, batch: int, stage_ids: list[str]) -> bool: ...
    def abort_stages(self, sink: str, query: str, batch: int, stage_ids: list[str]) -> None: ...
    def stages(self) -> list[dict[str, Any]]: ...
    def discard_stage(self, stage_id: str) -> bool: ...

@final
class _Transaction:
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    @property
    def is_open(self) -> bool: ...
    @staticmethod
    def count_scope(entered: bool) -> None: ...

@final
class _BulkLoad:
    def __new__(
        cls,
        path: str | PathLike[str],
        queue: str,
        name: str,
        *,
        keyless: int = 0,
        durability: Literal["fsync", "os"] | None = None,
    ) -> _BulkLoad: ...
    def _inject_fault(self, partition_id: int | None, fault: str, after: int) -> None: ...
    def check_free(self, wait_time: float) -> None: ...
    def push(self, data: _ArrowStream | _ArrowArray) -> None: ...
    def finish(self, wait_time: float) -> list[tuple[int, int, bool]]: ...

@final
class _Drain:
    def __new__(
        cls,
        namespace: Namespace,
        entity_path: str,
        sub_queue: str | None,
        partition: int,
        columns: Sequence[str] | None = None,
    ) -> _Drain: ...
    def page(self, from_number: int, bytes_max: int) -> tuple[ArrowTable, int | None]: ...
    def settle(
        self,
        numbers: _ArrowStream | _ArrowArray,
        outcome: str,
        reason: str | None = None,
        description: str | None = None,
    ) -> int: ...

def _shards_of(path: str | PathLike[str], entity_path: str) -> list[int]: ...
