# SPDX-License-Identifier: Apache-2.0
"""The native module: messages, senders, receivers and the namespace.

Every name without an underscore is exported by `oxbus`, `oxbus.bulk`, `oxbus.server` or `oxbus.testing`.
Times are aware UTC datetimes with millisecond resolution; waits are seconds.
A call that may block releases the interpreter lock and can be interrupted with Ctrl-C.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Never, NotRequired, Protocol, Self, TypeAlias, TypedDict, final
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
    "MetricFamily",
    "MetricHistogram",
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
    "_Backup",
    "_BackupLock",
    "_Browse",
    "_BulkLoad",
    "_Columns",
    "_Drain",
    "_LoopTurn",
    "_PendingCall",
    "_ReadyReceiver",
    "_ReadySender",
    "_ReceivedRows",
    "_RemoteNamespace",
    "_Reservations",
    "_Settlement",
    "_Stages",
    "_Transaction",
    "_Waiter",
    "_WakeUps",
    "_backup_directory",
    "_browsed_columns",
    "_close_durable",
    "_end_log",
    "_flush_log",
    "_has_namespace",
    "_is_store_url",
    "_mute_log",
    "_page_stream",
    "_parse_connection_string",
    "_salvage",
    "_shards_of",
    "_shown_store_url",
    "_verify",
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
"""None in rare cases only, so programs need not check for it."""
_WriteBytes: TypeAlias = Callable[[bytes], object]
_Outcome: TypeAlias = Literal["complete", "abandon", "defer", "dead_letter"]

def partition_id(key: str | bytes, partitions: int = 16) -> int:
    """Return the partition of a key.

    The XXH64 hash of the key's bytes with seed 42, as a signed number, modulo `partitions`: what Spark computes as
    ``pmod(xxhash64(cast(key as binary)), partitions)``.

    Args:
        key: A session id or partition key; text is hashed as UTF-8.
        partitions: Number of partitions, 1 to 65,535.

    Raises:
        ValueError: `partitions` is out of its range.
        TypeError: `key` is neither str nor bytes.

    Source: docs/behaviour.md B-062; docs/decisions/0001-partition-hash.md.
    """

def partition_ids(keys: _ArrowArray | _ArrowStream | Sequence[str | bytes | None], partitions: int = 16) -> ArrowArray:
    """Return the partition of each key; the partition of a null key is null.

    Args:
        keys: An Arrow array of strings or binaries (read in place), a list, or a numpy array.
        partitions: Number of partitions, 1 to 65,535.

    Returns:
        An Arrow array of 32-bit integers; ``pyarrow.array(result)`` adopts it without a copy.

    Raises:
        ValueError: `partitions` is out of its range.
        TypeError: A key is neither str nor bytes.

    Source: docs/behaviour.md B-062; docs/decisions/0001-partition-hash.md.
    """

class _ConnectionParts(TypedDict):
    scheme: Literal["memory", "file", "sb"]
    address: str
    host: NotRequired[str]
    port: NotRequired[int]
    tls: NotRequired[bool]
    entity_path: str | None
    shared_access_key_name: str | None
    shared_access_key: str | None
    shared_access_signature: str | None

def _parse_connection_string(text: str) -> _ConnectionParts:
    """Split a connection string; host, port and tls are those of a server."""

def _is_store_url(text: str) -> bool:
    """Return whether a text is the URL of a store that can hold a namespace."""

def _shown_store_url(url: str) -> str:
    """Return the URL of a store as a message may show it: without its query, and without a user and a password."""

def _has_namespace(url: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Return whether there is a namespace in the store of a URL."""

def _backup_directory(path: str | PathLike[str]) -> _Backup:
    """Find the files of the namespace in a directory, which no process can open while the result exists."""

@final
class _Backup:
    """The files of a namespace as they are at one moment; they stay readable until it is closed."""

    def files(self) -> list[tuple[str, int, str]]:
        """Return name, bytes and fingerprint of each file."""

    def read(self, index: int, position: int, size: int) -> bytes:
        """Return `size` bytes of a file from a position on, or fewer at its end."""

    def close(self) -> None:
        """Let go of the files."""

@final
class _BackupLock:
    """Keeps other processes from writing backups into a directory, until it is closed."""

    def __new__(cls, path: str | PathLike[str]) -> Self: ...
    def close(self) -> None:
        """End the lock."""

def _salvage(source: str | PathLike[str], target: str | PathLike[str]) -> list[dict[str, Any]]:
    """Copy the intact part of a damaged namespace into a new one; return what each partition held and lost."""

def _verify(path: str | PathLike[str]) -> tuple[list[str], list[str], list[dict[str, Any]]]:
    """Check every checksum of a namespace; return what is wrong with its catalog, its stages and its partitions."""

@final
class _WakeUps:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[int]: ...
    def waiter(self, number: int, max_wait_time: float | None) -> _Waiter: ...

@final
class _Waiter:
    def cancel(self) -> None: ...

@final
class _LoopTurn:
    def __new__(cls, turn_ms: int) -> Self: ...
    @property
    def is_over(self) -> bool: ...
    def begin(self) -> None: ...

@final
class _ReadySender:
    def __new__(cls, sender: ServiceBusSender, turn: _LoopTurn) -> Self: ...
    def send_messages(
        self,
        message: ServiceBusMessage | ServiceBusMessageBatch | Iterable[ServiceBusMessage],
        timeout: float | None,
        durability: Literal["os", "fsync"] | None,
        transaction: TransactionScopes | None,
    ) -> bool | _PendingCall: ...

@final
class _ReadyReceiver:
    def __new__(cls, receiver: ServiceBusReceiver, turn: _LoopTurn) -> Self: ...
    def receive_messages(
        self, max_message_count: int | None, max_wait_time: float | None
    ) -> list[ServiceBusReceivedMessage] | None: ...
    def settle(
        self, message: ServiceBusReceivedMessage, settlement: _Settlement, transaction: TransactionScopes | None
    ) -> bool | _PendingCall: ...
    def settle_all(
        self, messages: list[ServiceBusReceivedMessage], settlement: _Settlement, transaction: TransactionScopes | None
    ) -> bool | _PendingCall: ...

@final
class _Settlement:
    @staticmethod
    def complete() -> _Settlement: ...
    @staticmethod
    def abandon(properties: Mapping[str, Any] | None, delay: float | timedelta | None) -> _Settlement: ...
    @staticmethod
    def defer(properties: Mapping[str, Any] | None) -> _Settlement: ...
    @staticmethod
    def dead_letter(reason: str | None, description: str | None) -> _Settlement: ...

@final
class _PendingCall:
    def step(self, waiter: _Waiter) -> float | tuple[Any]: ...
    def cancel(self) -> None: ...

def _close_durable() -> None:
    """Close the durable namespaces that are still open, because the process ends."""

def _end_log() -> None:
    """Write the log lines emitted so far and accept no more, because the process ends."""

def _flush_log(seconds: float) -> bool:
    """Wait until the log lines emitted so far are written, at most `seconds`; return False if some are not."""

def _mute_log(muted: bool) -> None:
    """Drop all log lines regardless of levels, or stop doing so."""

def _wake_waiting() -> None:
    """End every waiting receive, which returns what it has. Called when the interpreter exits."""

@final
class ArrowArray:
    """32-bit integers in Arrow memory, readable through the Arrow C data interface.

    Source: docs/compat.md#arrow.
    """

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def to_pylist(self) -> list[int | None]:
        """Return the values as Python objects. Raises nothing."""

@final
class ArrowTable:
    """Messages as Arrow columns, readable through the Arrow C stream interface.

    Source: docs/compat.md#arrow.
    """

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Server:
    """A server of a namespace for SDKs and bulk clients, started by `oxbus.server.serve`.

    Usable as a context manager.

    Source: docs/server.md.
    """

    @property
    def host(self) -> str:
        """The host that it listens on, as given."""

    @property
    def port(self) -> int:
        """The first of its ports."""

    @property
    def amqp_port(self) -> int | None:
        """The port that stands for 5672 of the service; None if it has none."""

    @property
    def amqps_port(self) -> int | None:
        """The port that stands for 5671 of the service; None if it has none."""

    @property
    def http_port(self) -> int | None:
        """The port that stands for 5300 of the emulator; None if it has none."""

    @property
    def https_port(self) -> int | None:
        """The port that stands for 443 of the service; None if it has none."""

    @property
    def connection_string(self) -> str:
        """The connection string for SDKs, Spark and `BulkClient`, with a key in clear text.

        The key is that of the first rule with the Manage right, else of the first rule.
        With a caller's certificate and a TLS port, it names that port and clients use TLS; otherwise it contains
        ``UseDevelopmentEmulator=true``, and clients use plain connections.
        """

    @property
    def certificate(self) -> str | None:
        """The certificate that clients have to trust, as PEM; None when the caller provided the certificate."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    def close(self, *, drain_timeout: float = 0.0) -> None:
        """Stop accepting connections, finish requests in progress, and free the ports.

        Waiting receives end at once, without messages. Closing twice is harmless.

        Args:
            drain_timeout: Seconds in which AMQP clients may settle the messages that they have, at most. Meanwhile
                links are refused and nothing is delivered. A client that has settled all is disconnected.

        Raises:
            ValueError: `drain_timeout` is negative or not a number.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def _rules(self) -> list[dict[str, Any]]: ...
    def _take_spans(
        self, limit: float
    ) -> list[tuple[str, str, list[str], int, str | None, int, int, tuple[str | None, str, int] | None]]:
        """Take what the server did, after a wait of at most `limit` seconds; the first call switches records on.

        Each has operation, target, contexts, messages, error, nanoseconds since its begin, nanoseconds it took, and for
        HTTP its route, scheme and status.
        """

    def _replace_rules(self, rules: list[dict[str, Any]]) -> None: ...

@final
class BulkClient:
    """A client of the bulk routes of a server: rows as Arrow tables, reservations, staged sends.

    May be shared by threads. In a forked process it continues to work, with new connections.
    Errors of the broker raise the same exceptions as in the broker's own process.
    Every call over the network can raise what follows, beside what its own description names.

    Raises:
        ServiceBusConnectionError: The server cannot be reached, or the connection broke. After a send the rows may or
            may not be stored.
        ServiceBusAuthenticationError: The key is wrong, or the clocks differ by more than five minutes.
        ServiceBusAuthorizationError: The key lacks the right that the call needs, or is for another entity.
        OperationTimeoutError: The server did not answer in time.
        ServiceBusServerBusyError: The server is overloaded.
        ValueError: The client is closed.

    Source: docs/bulk.md.
    """

    def __new__(
        cls, connection_string: str, *, ca_file: str | PathLike[str] | None = None, timeout: float = 60.0
    ) -> Self:
        """Create a client; it connects at its first call.

        Args:
            connection_string: As for SDKs: ``Endpoint=sb://host:port;SharedAccessKeyName=...;SharedAccessKey=...``,
                followed by ``;UseDevelopmentEmulator=true`` for a server without TLS.
            ca_file: A PEM file with the certificates to trust. None: those of the system.
            timeout: Seconds to wait for each network operation: connecting, writing, and every read.

        Raises:
            ValueError: The connection string is malformed, or the file is not valid PEM.
        """

    def _backup(self, known: Sequence[tuple[str, str]], write: _WriteBytes) -> None:
        """Pass the answer of a backup to `write`, piece by piece, without the files that are known."""

    @property
    def endpoint(self) -> str:
        """The address of the server, ``sb://host:port``."""

    def describe(self, entity: str) -> dict[str, Any]:
        """Return the kind, the partitions and the settings of an entity.

        ``kind`` is "queue", "topic" or "subscription". ``starts`` and ``ends`` are counters by partition (the low 48
        bits of a sequence number): that of the first message, and that of the next message to be stored. An entity
        without partitioning has one partition, 0.
        They and ``active_messages`` are omitted for a key that has only the Send right. ``incarnation`` changes when an
        entity is deleted and created again.

        Args:
            entity: A queue, a topic, or a subscription as ``topic/Subscriptions/name``.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
        """

    def send(self, entity: str, data: _ArrowArray | _ArrowStream) -> dict[int, int]:
        """Send the rows of a table as messages, as `ServiceBusSender.send_arrow` does. All rows are checked first.

        The rows are read while they are sent; at most 256 MiB in one call.

        Args:
            entity: A queue or a topic.
            data: The columns of `ServiceBusSender.send_arrow`, and ``partition_id`` (int16 or int32) with the target
                partition of rows without a key.

        Returns:
            The number of rows stored in each partition, by partition id.

        Raises:
            PartialSendError: Some rows were not stored; `rows` names them.
            MessagingEntityNotFoundError: The entity does not exist.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A row is larger than the entity accepts, or all rows are larger than one call may
                be.
            PartitionUnavailableError: No row was stored: the partitions are out of service.
            ServiceBusQuotaExceededError: No row was stored: the partitions are full, or the memory limit is reached.
            InvalidOperationError: A row lacks the session id that the entity requires, or the entity is a subscription.
            ValueError: A column or a value is wrong; nothing was stored.
        """

    def receive(
        self,
        entity: str,
        *,
        max_message_count: int,
        max_wait_time: float = 0.0,
        receive_mode: Literal["peek_lock", "receive_and_delete"] = "peek_lock",
        columns: Sequence[str] | None = None,
    ) -> ArrowTable:
        """Receive messages as columns, as `ServiceBusReceiver.receive_arrow` does.

        If the connection breaks during the transfer, locked messages return to the queue at once without counting
        a delivery; with "receive_and_delete" they are lost.

        Args:
            entity: A queue, a subscription (``topic/Subscriptions/name``), or either followed by ``/$deadletterqueue``.
            max_message_count: Upper bound, at least 1.
            max_wait_time: Seconds to wait for the first message, at most an hour.
            receive_mode: "peek_lock": lock messages until they are settled. "receive_and_delete": remove them.
            columns: Names of the columns to return; None: all. `settle` needs `lock_token`.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, requires sessions, or forwards its messages.
            PartitionUnavailableError: As for `ServiceBusReceiver.receive_messages`.
            ValueError: An argument is out of its range.
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
        """Settle received messages; return the positions of those whose lock was lost. The others are settled.

        Args:
            entity: As for `receive`.
            lock_tokens: The table that `receive` returned, some of its rows, its column lock_token, or a sequence of
                its values.
            outcome: "complete", "abandon", "defer" or "dead_letter".
            reason: Why messages are dead-lettered.
            description: What went wrong before they were dead-lettered.

        Raises:
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessagingEntityNotFoundError: The entity does not exist.
            InvalidOperationError: A message of a dead-letter queue is to be dead-lettered.
            ValueError: The outcome is unknown, a token is malformed, or a reason is given with another outcome.
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
        application_properties: Literal["map", "json", "variant"] = "map",
        columns: Sequence[str] | None = None,
    ) -> tuple[ArrowTable, int | None]:
        """Return messages of one partition in the order of their numbers, without locking or removing them.

        Args:
            entity: As for `receive`.
            partition: The partition; 0 for an entity without partitioning.
            from_sequence_number: Where to begin; a number below the first message means the first message.
            to_sequence_number: Where to end, inclusive. None: at the last message.
            max_bytes: Size of a page in bytes, at most 64 MiB; a page has at least one message.
            include_body: False leaves the column body empty.
            application_properties: "map": a map of strings. "json": a JSON object as text, which keeps all types,
                some as tags. "variant": a variant of Spark, a struct of the binaries `value` and `metadata`.
            columns: Names of the columns to return; None: all.

        Returns:
            A page, and the sequence number at which the next page begins; None after the last.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            PartitionUnavailableError: The partition is out of service.
            ValueError: The entity has no such partition, or an argument is out of its range.
        """

    def acquire(self, entity: str, consumer: str, start: Literal["earliest", "latest"] = "earliest") -> dict[str, int]:
        """Take ownership of a consumer; later calls with an earlier epoch are rejected.

        Args:
            entity: As for `receive`; it must not require sessions.
            consumer: The name of the consumer, the same after every restart.
            start: Where a new consumer begins: at the first message, or after the last.

        Returns:
            ``epoch``, an argument of later calls, and ``done``, the highest completed number.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            InvalidOperationError: The entity is a topic or requires sessions.
            PartitionUnavailableError: The partition that stores the consumer is out of service.
            ValueError: The name is malformed.
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
        max_sessions: int | None = None,
        attempts: int = 0,
    ) -> dict[str, Any]:
        """Reserve messages under a number, or return the existing reservation of that number.

        Of an entity that requires sessions, a reservation locks whole runs of the sessions that have waited longest: the
        next messages of each, in order. No one else gets messages of these sessions before the reservation ends.

        Args:
            entity: As for `acquire`.
            consumer: As for `acquire`.
            epoch: The epoch that `acquire` returned.
            n: The number, one higher than the last.
            max_messages: Upper bound for the number of messages.
            max_bytes: Upper bound for their size in bytes; a single message may be larger.
            lock_duration: Seconds until the reservation expires unless it is renewed.
            max_wait_time: Seconds to wait for the first message.
            upto: By partition, the counter at which to stop: `ends` of `describe`. None: no bound.
            max_sessions: Upper bound for the number of sessions. None: no bound.
            attempts: Attempts that count already, because the messages were in an earlier reservation that failed.

        Returns:
            ``id``, ``n``, ``messages``, ``attempt`` (how often the consumer was acquired since the reservation was
            created, from 1), ``missing`` (messages that others took since), ``expires_at_ms``, and
            ``partitions``: a list of ``partition``, ``ranges`` of sequence numbers (both ends inclusive), ``messages``
            and ``bytes``. Without messages nothing is reserved, and the number stays free.

        Raises:
            ReservationFencedError: Another program acquired the consumer since, or none has.
            CheckpointBehindError: The number was completed before.
            InvalidOperationError: The number does not follow the last one, or the entity forwards its messages.
            MessagingEntityNotFoundError: The entity does not exist.
            PartitionUnavailableError: A partition is out of service or its store failed.
            ValueError: An argument is out of its range.
        """

    def plan(self, entity: str, consumer: str, epoch: int, n: int, *, lock_duration: float) -> dict[str, Any]:
        """Return the reservation of a number, as `reserve` does; never more messages than before.

        Args:
            entity: As for `acquire`.
            consumer: As for `acquire`.
            epoch: The epoch that `acquire` returned.
            n: The number.
            lock_duration: Seconds until the reservation expires unless it is renewed.

        Raises:
            ReservationFencedError: Another program acquired the consumer since, or none has.
            CheckpointBehindError: The number was completed before.
            InvalidOperationError: The number was never reserved.
            MessagingEntityNotFoundError: The entity does not exist.
            PartitionUnavailableError: A partition is out of service or its store failed.
            ValueError: `lock_duration` is out of its range.
        """

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
        application_properties: Literal["map", "json", "variant"] = "map",
        columns: Sequence[str] | None = None,
    ) -> tuple[ArrowTable, int | None]:
        """Read messages of a reservation, as often as needed, from any process.

        Args:
            entity: As for `acquire`.
            reservation_id: ``id`` of the plan.
            epoch: The epoch that `acquire` returned.
            partition: The partition.
            lo: The first sequence number.
            hi: The last sequence number, inclusive.
            max_bytes: Size of a page in bytes, at most 64 MiB; a page has at least one message.
            include_body: False leaves the column body empty.
            application_properties: As for `peek`.
            columns: As for `peek`.

        Returns:
            A page, and the sequence number at which the next page begins; None after the last.

        Raises:
            MessageLockLostError: The reservation expired; call `plan` again.
            ReservationFencedError: Another program acquired the consumer since, or none has.
            MessagingEntityNotFoundError: The entity does not exist.
            PartitionUnavailableError: A partition is out of service or its store failed.
            ValueError: The id or a range is malformed.
        """

    def renew(self, entity: str, consumer: str, epoch: int, *, lock_duration: float) -> None:
        """Extend all reservations of a consumer.

        Args:
            entity: As for `acquire`.
            consumer: As for `acquire`.
            epoch: The epoch that `acquire` returned.
            lock_duration: Seconds from now until they expire.

        Raises:
            ReservationFencedError: Another program acquired the consumer since, or none has.
            MessagingEntityNotFoundError: The entity does not exist.
            ValueError: `lock_duration` is out of its range.
        """

    def complete(self, entity: str, consumer: str, epoch: int, n: int) -> dict[str, int]:
        """Complete all reservations of a consumer up to a number; repeating the call has no effect.

        Args:
            entity: As for `acquire`.
            consumer: As for `acquire`.
            epoch: The epoch that `acquire` returned.
            n: The number, inclusive.

        Returns:
            ``completed``, and ``late``: messages that others took after the reservation had expired.

        Raises:
            ReservationFencedError: Another program acquired the consumer since, or none has.
            MessagingEntityNotFoundError: The entity does not exist.
            PartitionUnavailableError: A partition is out of service or its store failed.
        """

    def reserved_sessions(
        self, entity: str, reservation_id: str, epoch: int, partition: int, *, max_bytes: int = 8388608
    ) -> list[tuple[str, bytes | None]]:
        """Return the sessions that a reservation holds in a partition, in the order of their ids, and their states.

        Args:
            entity: As for `acquire`; it requires sessions.
            reservation_id: ``id`` of the plan.
            epoch: The epoch that `acquire` returned.
            partition: The partition.
            max_bytes: Size of a page in bytes, at most 64 MiB; the call reads all pages.

        Raises:
            MessageLockLostError: The reservation expired; call `plan` again.
            ReservationFencedError: Another program acquired the consumer since, or none has.
            InvalidOperationError: The entity requires no sessions.
            MessagingEntityNotFoundError: The entity does not exist.
        """

    def settle_reserved(
        self,
        entity: str,
        reservation_id: str,
        epoch: int,
        sequence_numbers: list[int],
        outcome: _Outcome | Literal["release"],
        *,
        reason: str | None = None,
        description: str | None = None,
        session_states: Mapping[int, bytes | None] | None = None,
    ) -> int:
        """Settle single messages of a reservation; return how many were settled.

        With `session_states` the call also sets states of sessions. The messages of a partition are settled and the
        states of their sessions set in one step, or none of it. A state whose message the reservation does not have any
        more is left out, so a repeated call does not set a state twice.

        Args:
            entity: As for `acquire`.
            reservation_id: ``id`` of the plan.
            epoch: The epoch that `acquire` returned.
            sequence_numbers: The messages.
            outcome: "complete", "abandon", "defer", "dead_letter", or "release": the message is available again, and no
                delivery is counted.
            reason: Why messages are dead-lettered.
            description: What went wrong before they were dead-lettered.
            session_states: By the sequence number of a message, the new state of its session; None clears it. Of several
                for one session, that of the last message counts.

        Raises:
            MessageLockLostError: The reservation expired; call `plan` again.
            ReservationFencedError: Another program acquired the consumer since, or none has.
            SessionLockLostError: A session is no longer held.
            MessagingEntityNotFoundError: The entity does not exist.
            PartitionUnavailableError: A partition is out of service or its store failed.
            ValueError: The id or the outcome is unknown, or a reason is given with another outcome.
        """

    def reservations(self, entity: str) -> list[dict[str, Any]]:
        """Return the reservations of all consumers: ``consumer``, ``n``, ``epoch``, ``done``, ``messages``, ``state``.

        Args:
            entity: As for `acquire`.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            InvalidOperationError: The entity is a topic.
        """

    def cancel_reservation(self, entity: str, consumer: str) -> int:
        """Release all messages that a consumer has reserved, without counting a delivery; return their number.

        Args:
            entity: As for `acquire`.
            consumer: As for `acquire`.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist, or has no such consumer.
            PartitionUnavailableError: A partition is out of service or its store failed.
        """

    def stage(self, entity: str, stage_id: str, data: _ArrowArray | _ArrowStream) -> int:
        """Store rows under an id without making them visible; `commit_stages` publishes them.

        A stage that fails part-way is removed. Staging again under the same id replaces the stage.

        Args:
            entity: A queue or a topic.
            stage_id: A new id for each attempt of a task. An id `SINK/QUERY/BATCH/...` belongs to that batch: what is
                left of it goes once the sink has committed it or a later one (docs/bulk.md).
            data: As for `send`, without its size limit.

        Returns:
            The number of rows.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            MessagingEntityAlreadyExistsError: A commit has named the stage of that id.
            ServiceBusServerBusyError: Another call is writing the stage of that id.
            MessageSizeExceededError: A row is larger than the entity accepts.
            InvalidOperationError: The server does not own all partitions, or the entity is a subscription.
            ServiceBusQuotaExceededError: The disk or the memory limit is full.
            OSError: The stage could not be written.
            ValueError: The id is malformed, or a column or a value is wrong.
        """

    def commit_stages(self, sink: str, query: str, batch: int, stage_ids: list[str]) -> bool:
        """Publish stages as one batch of a sink: all of them, once.

        Args:
            sink: The name of the sink, which commits its batches one after the other.
            query: The query that writes to the sink.
            batch: The number of the batch.
            stage_ids: The stages of the batch.

        Returns:
            False if that batch was committed before; then these stages are discarded.

        Raises:
            MessagingEntityNotFoundError: The entity of a stage was deleted.
            InvalidOperationError: A stage is missing, unfinished or damaged, or another query writes to the sink.
            StoreCorruptError: A stage cannot be read.
            OperationTimeoutError: Another commit of the sink did not end in time.
            PartitionUnavailableError: A partition of an entity, or the one that records the sink, is out of service.
            ValueError: A name or id is malformed.
        """

    def abort_stages(self, sink: str, query: str, batch: int, stage_ids: list[str]) -> None:
        """Discard stages, unless their batch was committed.

        Args:
            sink: As for `commit_stages`.
            query: As for `commit_stages`.
            batch: As for `commit_stages`.
            stage_ids: The stages.

        Raises:
            OperationTimeoutError: A commit of the sink did not end in time.
            InvalidOperationError: The server does not own all partitions.
        """

    def stages(self) -> list[dict[str, Any]]:
        """Return all stages, oldest first: ``id``, ``entity``, ``rows``, ``bytes``, ``status``.

        Raises:
            ServiceBusAuthorizationError: The key lacks the Manage right.
        """

    def discard_stage(self, stage_id: str) -> bool:
        """Remove a stage that no commit named; return False if it does not exist.

        Args:
            stage_id: The id of the stage.

        Raises:
            InvalidOperationError: The stage is being written or committed.
            OperationTimeoutError: A commit of its sink did not end in time.
        """

    def close(self) -> None:
        """Close the connections of the client; closing twice is harmless. Raises nothing."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...

@final
class ManualClock:
    """A clock that only moves by hand; pass it to ``Namespace(clock=...)``.

    Locks, times to live and schedules follow it, and waiting receives look again when it moves.

    Source: docs/guide/testing-with-the-clock.md.
    """

    def __new__(cls, start: datetime | None = None) -> Self:
        """Create a clock.

        Args:
            start: The time that it shows first. None: the current time of the machine.

        Raises:
            ValueError: `start` has no time zone.
        """

    def advance(self, seconds: float) -> None:
        """Move the clock forward; before this returns, each `AutoLockRenewer` renews the locks that are due.

        Args:
            seconds: How far, at least 0.

        Raises:
            ValueError: `seconds` is negative.
        """

    def now(self) -> datetime:
        """Return the time that it shows, in UTC. Raises nothing."""

    def _follow(self, follower: object) -> None: ...

@final
class MetricHistogram:
    """Durations in seconds, counted by bucket."""

    @property
    def buckets(self) -> list[tuple[float, int]]:
        """Upper bounds in seconds, and the durations up to each; the last bound is infinite."""

    @property
    def count(self) -> int:
        """Number of durations."""

    @property
    def sum(self) -> float:
        """Their sum in seconds."""

@final
class MetricFamily:
    """All samples of one metric, after the data model of Prometheus.

    Source: docs/metrics.md.
    """

    @property
    def name(self) -> str:
        """Its name with the unit at the end; counters without `_total`."""

    @property
    def help(self) -> str:
        """A description."""

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """The type of its samples."""

    @property
    def samples(self) -> list[tuple[dict[str, str], float | MetricHistogram]]:
        """Pairs of labels and value."""

@final
class PartitionHealth:
    """The health of one partition of a namespace.

    Source: docs/behaviour.md section 3.
    """

    @property
    def partition_id(self) -> int:
        """The id of the partition."""

    @property
    def status(self) -> str:
        """``"healthy"``, ``"faulted"``, ``"healing"`` or ``"offline"``."""

    @property
    def reason(self) -> str | None:
        """Why the partition is out of service; None when it is healthy."""

@final
class Recovery:
    """The result of opening a durable namespace.

    Source: docs/guarantees.md.
    """

    @property
    def frames(self) -> int:
        """Number of journal frames that were read."""

    @property
    def truncated_bytes(self) -> int:
        """Bytes cut from the ends of journals, and of the catalog, because their write never finished."""

    @property
    def corrupt_partitions(self) -> list[int]:
        """Ids of the partitions that could not be opened; `partition_health` gives the reason."""

    @property
    def waiting_loads(self) -> list[str]:
        """Bulk loads whose rows could not be attached: the reason and the file. The next open tries again."""

    @property
    def seconds(self) -> float:
        """How long opening took, in seconds."""

@final
class Namespace:
    """A set of queues and topics over partitions, in memory or in a directory.

    Each partition is a broker with its own store: when one fails, the others keep working.
    May be shared by threads; usable as a context manager. A forked child process must open its own.

    Source: docs/architecture.md; docs/guarantees.md.
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
        storage_options: Mapping[str, str] | None = None,
        standby: bool = False,
        take_over: bool = False,
    ) -> Self:
        """Open a namespace.

        Args:
            path: A directory, created if it is absent, reopened if it is a namespace. Or the URL of a store:
                ``s3://bucket/prefix``, ``az://container/prefix``, ``gs://bucket/prefix`` or
                ``postgresql://user@host/database?namespace=name``. None: in memory.
            partitions: Number of partitions, 1 to 64, fixed at creation. None: 16, or those that the namespace has.
            durability: What an acknowledged send or settlement survives. ``"fsync"`` (the default with a path): a power
                failure. ``"os"``: the end of the process; a power failure may lose the last 100 ms. ``"memory"``
                (without a path): nothing.
            tier: ``"basic"``, ``"standard"`` or ``"premium"``: apply the partitions, ranges, sizes and quotas of that
                tier. None: no limits of a tier.
            profile: ``"current"``, or an older edition of the service's partitioning rules: ``"2019"``, ``"2017"``.
            config: The path of a ``config.json`` of the Azure Service Bus emulator, or its content as a mapping.
                Missing entities are created; on existing ones the options in the file are set, and all others stay.
                Either all of it is applied, or nothing.
            clock: The clock. None: that of the machine.
            memory_limit_bytes: Upper bound for the memory of all messages, in bytes. In memory, sends beyond it raise a
                quota error. In a directory, message bodies beyond it stay on disk and are read when the messages are
                received; sends are rejected once message metadata alone exceeds the limit.
            slow_call_seconds: Log a call that waits for a disk at least this long, in seconds; 0 logs none.
            partitions_owned: Ids of the partitions that this process opens; other processes may open the others, which
                are unavailable here. Only a process that owns all partitions can change entities.
            lock_policy: ``"fresh"``: the lock duration starts when the message is delivered to the caller.
                ``"faithful"``: when the message leaves its partition, as in Service Bus.
            peek_policy: ``"merged"``: a peek merges all partitions by enqueued time. ``"faithful"``: it answers from
                one partition at a time, as in Service Bus.
            storage_options: Options of a namespace in a store, as names and values: credentials and places, such as
                ``region``, ``endpoint`` or ``account_key``, else taken from the environment; ``timeout``; ``cache_bytes``
                (64 MiB); ``max_puts_per_second`` (no bound). The guide "Where to keep messages" lists them.
            standby: For a namespace in a store: wait until its owner is gone, and take it over.
            take_over: For a namespace in a store: take it over at once, even from an owner that lives. That one
                acknowledges nothing more.

        Raises:
            NamespaceInUseError: Another process, or another handle in this one, owns a partition.
            StoreCorruptError: The catalog is damaged. A damaged partition raises nothing: see `recovery`.
            InvalidOperationError: The path is not a namespace, was written by a newer version, or has another number of
                partitions; an option is not available in this version; or `config` differs from an existing entity in
                an option that is fixed at creation.
            OSError: The directory or the configuration file cannot be read or written.
            TypeError: An argument has the wrong type.
            ValueError: An option is out of its range, or `config` has an unknown key or a wrong value; the text names
                the place in the file.

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
        """End all waiting receives and close the namespace. Closing twice is harmless. Raises nothing.

        In memory the messages are dropped. A directory keeps every acknowledged operation, and other processes may open
        it.
        """

    def serve_bulk(self, *arguments: object, **options: object) -> Never:
        """Removed: use `oxbus.server.serve`, whose connection string also serves bulk clients.

        Args:
            arguments: Ignored.
            options: Ignored.

        Raises:
            InvalidOperationError: Always.

        Source: docs/guide/one-server.md.
        """

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    def partition_health(self) -> list[PartitionHealth]:
        """Return the health of each partition, by partition id.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.

        Source: docs/behaviour.md B-097 to B-099.
        """

    @property
    def recovery(self) -> Recovery | None:
        """The result of opening; None for a namespace in memory."""

    def checkpoint(self) -> None:
        """Write a snapshot of each healthy partition and drop its journal up to there. In memory it does nothing.

        The namespace also writes snapshots automatically, every 64 MiB of journal, every minute, and at close.

        Raises:
            PartitionUnavailableError: A snapshot could not be written.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: The namespace is closed.

        Source: docs/guarantees.md.
        """

    def _announce(self, address: str) -> None:
        """Tell processes that wait for a namespace in a store where its server listens: ``HOST:PORT``."""

    @property
    def _has_lease(self) -> bool:
        """Whether another process may take the namespace over from this one."""

    def _is_taken_over(self) -> bool:
        """Return whether another process took the namespace over."""

    def _store_trouble(self) -> str | None:
        """Return why the store does not do what it should, if it does not."""

    def _directory(self) -> str | PathLike[str] | None:
        """Return the directory, or None for a namespace in memory or in a store."""

    def _backup(self) -> _Backup:
        """Find the files of the namespace as they are at this moment."""

    def metrics(self) -> list[MetricFamily]:
        """Return all metrics at this time; `docs/metrics.md` lists them.

        The first call switches metrics on: from then on counters and durations are counted, which costs a call some
        nanoseconds. It walks all entities, like `statistics`.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: The namespace is closed.

        Source: docs/metrics.md.
        """

    def statistics(self) -> dict[str, Any]:
        """Return counters of the whole namespace; each name contains its unit.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.
        """

    @staticmethod
    def _own(
        path: str | PathLike[str], partition: int, durability: Literal["fsync", "os"] | None = None
    ) -> Namespace: ...
    @staticmethod
    def _view(path: str | PathLike[str]) -> Namespace: ...
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
        console: list[str] | None,
        console_is_read_only: bool,
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
    @property
    def _is_in_store(self) -> bool: ...
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
class _RemoteNamespace:
    """The namespace of a server. The options are those of `oxbus._remote._messaging`."""

    def __new__(cls, options: dict[str, Any]) -> Self: ...
    @property
    def _may_wait(self) -> bool: ...
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
    def _transaction(self, cross_entity: bool) -> _Transaction: ...
    def _session_ids(self, entity_path: str, updated_since_ms: int | None, timeout: float | None) -> list[str]: ...
    def close(self) -> None: ...

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
        max_sessions: int | None = None,
        attempts: int = 0,
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
    def reserved_sessions(
        self, reservation_id: str, epoch: int, partition: int, *, max_bytes: int = 8388608
    ) -> list[tuple[str, bytes | None]]: ...
    def settle_reserved(
        self,
        reservation_id: str,
        epoch: int,
        sequence_numbers: list[int],
        outcome: str,
        *,
        reason: str | None = None,
        description: str | None = None,
        session_states: Mapping[int, bytes | None] | None = None,
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
        """Create a message.

        Args:
            body: The payload; text is stored as UTF-8. None: no payload.
            application_properties: Application-defined values by name, up to 64 KiB in total.
            session_id: The session; also the partition key.
            message_id: Up to 128 characters. The sender generates a missing id.
            scheduled_enqueue_time_utc: The earliest time to receive the message.
            time_to_live: How long after it was stored the message can be received.
            content_type: The MIME type of the body.
            correlation_id: The id of the message that this one answers.
            subject: What the message is about.
            partition_key: Messages with equal keys go to one partition and stay in order. Up to 128 characters.
            to: The final destination; not interpreted.
            reply_to: The queue for replies; not interpreted.
            reply_to_session_id: The session for replies; not interpreted.

        Raises:
            TypeError: A value has the wrong type.
            PartitionKeyMismatchError: Session id and partition key differ.
            ValueError: A value is too long or out of its range.
        """

    def __bytes__(self) -> bytes: ...
    @property
    def body(self) -> Iterator[bytes] | _MaybeNone:
        """The sections of the payload; ``b"".join(message.body)`` is all of it. None without a payload."""

    @property
    def body_type(self) -> AmqpMessageBodyType:
        """The form of the body."""

    @property
    def application_properties(self) -> dict[str, Any] | None:
        """Application-defined values, by name."""

    @application_properties.setter
    def application_properties(self, value: Mapping[str, _Property] | None) -> None: ...
    @property
    def session_id(self) -> str | None:
        """The id of the session."""

    @session_id.setter
    def session_id(self, value: str | None) -> None: ...
    @property
    def message_id(self) -> str | None:
        """The id that the sender set, or that was generated when the message was sent."""

    @message_id.setter
    def message_id(self, value: str | None) -> None: ...
    @property
    def scheduled_enqueue_time_utc(self) -> datetime | None:
        """The earliest time to receive the message."""

    @scheduled_enqueue_time_utc.setter
    def scheduled_enqueue_time_utc(self, value: datetime | None) -> None: ...
    @property
    def time_to_live(self) -> timedelta | None:
        """How long after it was stored the message can be received."""

    @time_to_live.setter
    def time_to_live(self, value: timedelta | None) -> None: ...
    @property
    def content_type(self) -> str | None:
        """The MIME type of the body."""

    @content_type.setter
    def content_type(self, value: str | None) -> None: ...
    @property
    def correlation_id(self) -> str | None:
        """The id of the message that this one answers."""

    @correlation_id.setter
    def correlation_id(self, value: str | None) -> None: ...
    @property
    def subject(self) -> str | None:
        """What the message is about."""

    @subject.setter
    def subject(self, value: str | None) -> None: ...
    @property
    def partition_key(self) -> str | None:
        """The key that selects the partition."""

    @partition_key.setter
    def partition_key(self, value: str | None) -> None: ...
    @property
    def to(self) -> str | None:
        """The final destination."""

    @to.setter
    def to(self, value: str | None) -> None: ...
    @property
    def reply_to(self) -> str | None:
        """The queue for replies."""

    @reply_to.setter
    def reply_to(self, value: str | None) -> None: ...
    @property
    def reply_to_session_id(self) -> str | None:
        """The session for replies."""

    @reply_to_session_id.setter
    def reply_to_session_id(self, value: str | None) -> None: ...

@final
class ServiceBusReceivedMessage(ServiceBusMessage):
    """A message that was received or peeked. It is immutable: setting a property raises `AttributeError`.

    Source: docs/behaviour.md B-103 to B-119, B-290 to B-293.
    """

    auto_renew_error: Exception | None

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return the body read-only and without a copy, as for `memoryview(message)` and bytes-like arguments."""

    @property
    def sequence_number(self) -> int:
        """The number that the message got when it was stored: partition id in the top 16 bits; never reused."""

    @property
    def partition_id(self) -> int | None:
        """The partition of the message; None on a queue that is not partitioned."""

    @property
    def enqueued_sequence_number(self) -> int | None:
        """The sequence number where the message was first stored, before any forwarding."""

    @property
    def enqueued_time_utc(self) -> datetime:
        """When the message was stored."""

    @property
    def expires_at_utc(self) -> datetime | None:
        """When the message expires; None when it never does."""

    @property
    def delivery_count(self) -> int:
        """How often the message was delivered before and returned to the queue; 0 the first time."""

    @property
    def state(self) -> ServiceBusMessageState:
        """The state of the message in its queue."""

    @property
    def lock_token(self) -> UUID | str | None:
        """The token of the lock; None for a message that was peeked, or removed when it was received."""

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
    """Messages that are sent together or not at all, up to a total size.

    `ServiceBusSender.create_message_batch` creates one.

    Source: docs/behaviour.md B-079 to B-084.
    """

    def __new__(cls, max_size_in_bytes: int | None = None) -> Self:
        """Create an empty batch.

        Args:
            max_size_in_bytes: The largest size of the batch, in bytes. None: 1 MiB.

        Raises:
            ValueError: `max_size_in_bytes` is more than 100 MiB.
        """

    def __len__(self) -> int: ...
    def _add_copy(self, message: ServiceBusReceivedMessage, time_to_live_ms: int | None) -> None: ...
    def add_message(self, message: ServiceBusMessage) -> None:
        """Add a message.

        Args:
            message: The message.

        Raises:
            MessageSizeExceededError: The message does not fit; the batch is unchanged.
            PartitionKeyMismatchError: Session id and partition key of the message differ.
            InvalidOperationError: The message was received before.
            TypeError: `message` is not a `ServiceBusMessage`.
        """

    @property
    def max_size_in_bytes(self) -> int:
        """The largest size of the batch, in bytes."""

    @property
    def size_in_bytes(self) -> int:
        """The current size in bytes: each message with its properties and a header."""

@final
class ServiceBusSender:
    """Sends messages to a queue or a topic. May be shared by threads; usable as a context manager.

    Source: docs/behaviour.md B-061 to B-084; differences in docs/compat.md#send.
    """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def close(self) -> None:
        """Close the sender; later sends fail. Closing twice is harmless. Raises nothing."""

    @property
    def closed(self) -> bool:
        """Whether the sender was closed."""

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

        The key of a message (session id, else partition key) selects its partition. A message or batch without a key
        goes to the next available partition in turn.

        Args:
            message: One message, several, or a batch. On a partitioned entity the messages of a batch need the same
                key.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit. A message without a
                key goes to another partition after 5 s; for that the timeout must be more than 15 s.
            durability: ``"os"`` or ``"fsync"`` for this call. None: the level of the namespace.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A message or the batch is too large.
            PartitionKeyMismatchError: Session id and partition key of a message differ.
            InvalidOperationError: The keys of a batch differ; the entity requires sessions and a message has no session
                id; the entity is a subscription; a message was received before; or the transaction is over or covers
                another entity or partition.
            PartitionUnavailableError: The partition of the key is out of service; without a key, every partition is.
            ServiceBusServerBusyError: Too many sends wait for the store of the partition. Wait, then send again.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes. The message is stored at most once; `effect` shows whether it may have been stored.
            ServiceBusQuotaExceededError: The partition of the key or every partition is full, the memory limit is
                reached, or the transaction holds 100 messages.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: `message` holds something that is not a message, or `transaction` is not a transaction.
            ValueError: The sender is closed, `timeout` is not more than 0, or `durability` is unknown.

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
        """Store messages that become available at a later time.

        Args:
            messages: One message or several.
            schedule_time_utc: The earliest time to receive them; a time without a time zone counts as UTC.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Returns:
            Their sequence numbers, for `cancel_scheduled_messages`. A message gets a new number when it becomes
            available. In a transaction the commit fills the list.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A message or the batch is too large.
            PartitionKeyMismatchError: Session id and partition key of a message differ.
            InvalidOperationError: The keys of a batch differ; the entity requires sessions and a message has no session
                id; the entity is a subscription; a message was received before; or the transaction is over or covers
                another entity or partition.
            PartitionUnavailableError: The partition of the key is out of service; without a key, every partition is.
            ServiceBusServerBusyError: Too many sends wait for the store of the partition. Wait, then send again.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes. The message is stored at most once; `effect` shows whether it may have been stored.
            ServiceBusQuotaExceededError: The partition of the key or every partition is full, the memory limit is
                reached, or the transaction holds 100 messages.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: `messages` holds something that is not a message, `schedule_time_utc` is not a datetime, or
                `transaction` is not a transaction.
            ValueError: The sender is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-232 to B-237.
        """

    def cancel_scheduled_messages(self, sequence_numbers: int | Iterable[int], *, timeout: float | None = 60.0) -> None:
        """Delete scheduled messages before their time: all of them, or none.

        Args:
            sequence_numbers: Numbers that `schedule_messages` returned, all from one partition.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Raises:
            MessageNotFoundError: A message does not exist or is active already; the text names it, and none is deleted.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            InvalidOperationError: The numbers are from several partitions, or the call is inside `Transaction.scope`.
            PartitionUnavailableError: The partition is out of service, or its store failed; `effect` shows whether the
                messages may have been deleted.
            OperationTimeoutError: The store did not answer in time; either all are deleted, or none is.
            ServiceBusQuotaExceededError: The disk of the partition is full.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: A sequence number is not an int.
            ValueError: The sender is closed, a number is out of range, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-238, B-239.
        """

    def create_message_batch(self, max_size_in_bytes: int | None = None) -> ServiceBusMessageBatch:
        """Return an empty batch.

        Args:
            max_size_in_bytes: The largest size of the batch, in bytes. None: 1 MiB, or the entity's limit if that is
                lower.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            InvalidOperationError: The entity is a subscription.
            ForkedProcessError: The sender was created before the process forked.
            ValueError: `max_size_in_bytes` is more than the entity accepts, or the sender is closed.

        Source: docs/behaviour.md B-054, B-079.
        """

    def _scheduling(
        self,
        messages: ServiceBusMessage | Iterable[ServiceBusMessage],
        schedule_time_utc: datetime,
        *,
        timeout: float | None = 60.0,
        transaction: TransactionScopes | None = None,
    ) -> _PendingCall | None: ...
    def _cancelling(
        self, sequence_numbers: int | Iterable[int], *, timeout: float | None = 60.0
    ) -> _PendingCall | None: ...
    def _sending_rows(self, data: _ArrowStream | _ArrowArray) -> _PendingCall | None: ...
    def send_arrow(self, data: _ArrowStream | _ArrowArray) -> dict[int, int]:
        """Store each row of a table as a message.

        Rows are grouped by partition; each group is stored whole and in row order. Rows without a key are distributed
        over the partitions. Columns are message properties: `body` (binary or string), `message_id`, `session_id`,
        `partition_key`, `subject`, `correlation_id`, `content_type`, `to`, `reply_to` (strings),
        `application_properties` (map of string to string, or a JSON object as a string, whose members keep their
        types), `scheduled_enqueue_time_utc` (timestamp), `time_to_live` (duration).

        Args:
            data: Anything with the Arrow C stream or array interface: pyarrow, polars, pandas.

        Returns:
            The number of rows stored in each partition, by partition id.

        Raises:
            PartialSendError: Some rows were not stored; `rows` names them.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A row is too large.
            PartitionKeyMismatchError: Session id and partition key of a row differ.
            InvalidOperationError: The call is inside `Transaction.scope`, a row lacks the session id that the entity
                requires, or the entity is a subscription.
            PartitionUnavailableError: No row was stored: the partitions are out of service.
            ServiceBusServerBusyError: No row was stored: too many sends wait for the store.
            OperationTimeoutError: No row is known to be stored: the store did not answer in time.
            ServiceBusQuotaExceededError: No row was stored: the partitions are full, or the memory limit is reached.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: `data` has no Arrow interface.
            ValueError: A column is unknown or has the wrong type (the text names it), or the sender is closed.

        Source: docs/compat.md#arrow.
        """

@final
class ServiceBusSession:
    """The session that a receiver has accepted; see `ServiceBusReceiver.session`.

    Its lock covers all messages of the session, including those that arrive later.

    Source: docs/behaviour.md B-200 to B-217.
    """

    @property
    def session_id(self) -> str | None:
        """The id of the session."""

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock ends, in UTC."""

    @property
    def auto_renew_error(self) -> Exception | None:
        """Why an `AutoLockRenewer` stopped renewing the lock."""

    @auto_renew_error.setter
    def auto_renew_error(self, value: Exception | None) -> None: ...
    def get_state(self, *, timeout: float | None = None) -> bytes | None:
        """Return the state of the session; None when none was set.

        Args:
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Raises:
            SessionLockLostError: The lock on the session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            PartitionUnavailableError: The partition of the session is out of service.
            OperationTimeoutError: The store did not answer in time.
            ForkedProcessError: The receiver was created before the process forked.
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
        """Set the state of the session, or clear it with None. The state outlives the session's messages.

        Args:
            state: Bytes, or text that is stored as UTF-8; at most the entity's message size.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            SessionLockLostError: The lock on the session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The transaction is over or covers another entity or partition.
            PartitionUnavailableError: The partition of the session is out of service, or its store failed; `effect`
                shows whether the state may have been set.
            OperationTimeoutError: The store did not answer in time, so the state is the new one or the old one; or the
                transaction has been open for more than two minutes.
            ServiceBusQuotaExceededError: The entity, the namespace or the disk is full.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `state` is not bytes, bytearray, str or None, or `transaction` is not a transaction.
            ValueError: The state is too large, the receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-210 to B-213.
        """

    def renew_lock(self, *, timeout: float | None = None) -> datetime:
        """Extend the lock of the session to one lock duration from now.

        Args:
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Returns:
            The new end of the lock, in UTC.

        Raises:
            SessionLockLostError: The lock on the session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            PartitionUnavailableError: The partition of the session is out of service.
            OperationTimeoutError: The store did not answer in time.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-202.
        """

    def _setting_state(
        self,
        state: str | bytes | bytearray | None,
        *,
        timeout: float | None = None,
        transaction: TransactionScopes | None = None,
    ) -> _PendingCall | None: ...
    @property
    def _lock_expired(self) -> bool: ...

@final
class ServiceBusReceiver:
    """Receives messages from a queue, a subscription or a sub-queue, from all partitions together.

    Iterating yields one message at a time and ends when `max_wait_time` passes without one.
    May be shared by threads; usable as a context manager.

    The first call looks the entity up and accepts the session. It can also raise:

        MessagingEntityNotFoundError: The entity does not exist.
        SessionCannotBeLockedError: Another receiver holds the session.
        OperationTimeoutError: No session became available within `max_wait_time`, or within a minute if that is None.
        InvalidOperationError: The entity is a topic, forwards its messages, or does not require sessions.
        ValueError: The entity has no partition of that id, or `session_id` is too long.

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
        """Return the next message, waiting up to `max_wait_time`; otherwise as `receive_messages`.

        Raises:
            StopIteration: No message arrived in time.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, forwards its messages, or requires sessions and the receiver
                has none.
            SessionLockLostError: The lock on the receiver's session expired.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery.
            PartitionUnavailableError: As for `receive_messages`.
            OperationTimeoutError: A store did not answer in time, and no other partition had messages.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed.

        Source: docs/behaviour.md B-125 to B-140.
        """

    def close(self) -> None:
        """Close the receiver. Prefetched messages return to the queue; their delivery counts stay the same.

        Messages that the receiver returned stay locked until another receiver settles them or their locks end. The lock
        of its session ends. Closing twice is harmless. Raises nothing.

        Source: docs/behaviour.md B-129, B-163, B-177.
        """

    @property
    def closed(self) -> bool:
        """Whether the receiver was closed."""

    @property
    def client_identifier(self) -> str:
        """The name of this receiver in error texts."""

    @property
    def session(self) -> ServiceBusSession | None:
        """The session; None for a receiver without one. The first access accepts it."""

    def receive_messages(
        self, max_message_count: int | None = 1, max_wait_time: float | None = None
    ) -> list[ServiceBusReceivedMessage]:
        """Receive up to `max_message_count` messages, and lock each one in peek-lock mode.

        Returns as soon as a message is ready, and may leave ready messages for the next call.

        Args:
            max_message_count: Upper bound, at least 1. None: the prefetch count, or 1.
            max_wait_time: Seconds to wait for the first message; 0 does not wait. None: the receiver's own
                `max_wait_time`; without one the call waits until a message arrives.

        Returns:
            Messages in sequence-number order within each partition; empty when the wait ends.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, forwards its messages, or requires sessions and the receiver
                has none.
            SessionLockLostError: The lock on the receiver's session expired.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery of the ready messages. They stay
                in the queue. Free disk space, then receive again.
            PartitionUnavailableError: The partition of the session is out of service. Receive-and-delete mode also
                raises it when a removal could not be written; if other partitions had messages, the next receive raises
                it. `sequence_numbers` names the messages. If `effect` is ``"unknown"``, they return when the partition
                is healed, unless the process ends first.
            OperationTimeoutError: A store did not answer in time, and no other partition had messages.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, `max_message_count` is not 1 to 1,048,576, or `max_wait_time` is
                negative.

        Source: docs/behaviour.md B-125 to B-140.
        """

    def receive_deferred_messages(
        self, sequence_numbers: int | Iterable[int], *, timeout: float | None = 60.0
    ) -> list[ServiceBusReceivedMessage]:
        """Receive deferred messages by sequence number: all of them, or none.

        Args:
            sequence_numbers: One number or several; on a partitioned entity all from one partition. At most 250 in
                receive-and-delete mode.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Returns:
            The messages, in the order of their numbers.

        Raises:
            MessageNotFoundError: A message does not exist, is not deferred, or is locked; the text names it.
            InvalidOperationError: The numbers are from several partitions; or the entity is a topic, forwards its
                messages, or requires sessions and the receiver has none.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            SessionLockLostError: The lock on the receiver's session expired.
            PartitionUnavailableError: The partition is out of service, or the delivery could not be written; `effect`
                shows whether a restart may still count the delivery.
            OperationTimeoutError: The store did not answer in time; nothing was delivered.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: A sequence number is not an int.
            ValueError: The receiver is closed, a number is out of range, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-275 to B-288.
        """

    def peek_messages(
        self, max_message_count: int = 1, *, sequence_number: int = 0, timeout: float | None = 60.0
    ) -> list[ServiceBusReceivedMessage]:
        """Return messages without locking or removing them.

        Args:
            max_message_count: Upper bound, at least 1; one call returns at most 250.
            sequence_number: The sequence number to start with. 0 continues after the last message that this receiver
                peeked and merges the partitions by enqueued time.
            timeout: Seconds, more than 0, or None. Peeking never waits for a store, so it has no effect.

        Returns:
            Active, locked, deferred and scheduled messages. Their `lock_token` is None.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, or an argument is out of range.

        Source: docs/behaviour.md B-290 to B-305; differences in docs/compat.md#peek.
        """

    def complete_message(
        self, message: ServiceBusReceivedMessage, *, transaction: TransactionScopes | None = None
    ) -> None:
        """Remove a message that was processed.

        Args:
            message: A message that `receive_messages` returned.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, or `transaction` is not a transaction.
            ValueError: The message has no lock, or the receiver is closed or in receive-and-delete mode.

        Source: docs/behaviour.md B-162, B-173.
        """

    def abandon_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        delay: float | timedelta | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Return a message to the queue, at once or after a delay.

        It keeps its position, and its delivery count rises by one.

        Args:
            message: A message that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            delay: Seconds or a timedelta, up to a year. The message is not delivered before; until then
                `peek_messages` shows it as scheduled. Later messages of its session wait for it. None or 0: no delay.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, a property value has the wrong type, or `transaction` is not
                a transaction.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-163, B-166, B-178.
        """

    def defer_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Defer a message: only `receive_deferred_messages` returns it.

        Args:
            message: A message that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, a property value has the wrong type, or `transaction` is not
                a transaction.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

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
            message: A message that `receive_messages` returned.
            reason: Why the message is dead-lettered, at most 4,096 characters.
            error_description: What went wrong, at most 4,096 characters.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The receiver reads a dead-letter queue. The entity requires sessions and the receiver
                has none; or the transaction is over or covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, or `transaction` is not a transaction.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, or a text is too
                long.

        Source: docs/behaviour.md B-165, B-168, B-259 to B-267.
        """

    def renew_message_lock(self, message: ServiceBusReceivedMessage, *, timeout: float | None = 60.0) -> datetime:
        """Extend the lock of a message to one lock duration from now.

        Args:
            message: A message that `receive_messages` returned.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Returns:
            The new end of the lock, in UTC; also the message's `locked_until_utc`.

        Raises:
            MessageAlreadySettled: This message object was settled before.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The message belongs to a session; renew `receiver.session` instead.
            PartitionUnavailableError: The partition is out of service.
            OperationTimeoutError: The store did not answer in time.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, or `timeout` is
                not more than 0.

        Source: docs/behaviour.md B-154 to B-156.
        """

    def complete_messages(
        self, messages: Iterable[ServiceBusReceivedMessage], *, transaction: TransactionScopes | None = None
    ) -> None:
        """Complete several messages.

        Args:
            messages: Messages that `receive_messages` returned.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not completed; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, or `transaction` is not a transaction.
            ValueError: A message has no lock, or the receiver is closed or in receive-and-delete mode.

        Source: docs/behaviour.md B-095, B-162, B-173.
        """

    def abandon_messages(
        self,
        messages: Iterable[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        delay: float | timedelta | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Abandon several messages, at once or with a delay.

        Args:
            messages: Messages that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            delay: Seconds or a timedelta, up to a year. The message is not delivered before; until then
                `peek_messages` shows it as scheduled. Later messages of its session wait for it. None or 0: no delay.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not abandoned; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, a property value has the wrong type,
                or `transaction` is not a transaction.
            ValueError: A message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-095, B-163, B-166.
        """

    def defer_messages(
        self,
        messages: Iterable[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, _Property] | None = None,
        transaction: TransactionScopes | None = None,
    ) -> None:
        """Defer several messages.

        Args:
            messages: Messages that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not deferred; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, a property value has the wrong type,
                or `transaction` is not a transaction.
            ValueError: A message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-095, B-164.
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

        Args:
            messages: Messages that `receive_messages` returned.
            reason: Why the message is dead-lettered, at most 4,096 characters.
            error_description: What went wrong, at most 4,096 characters.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not moved; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The receiver reads a dead-letter queue. The entity requires sessions and the receiver
                has none; or the transaction is over or covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, or `transaction` is not a transaction.
            ValueError: A message has no lock, the receiver is closed or in receive-and-delete mode, or a text is too
                long.

        Source: docs/behaviour.md B-095, B-165, B-168.
        """

    def receive_arrow(
        self, max_message_count: int = 1, max_wait_time: float | None = None, *, columns: Sequence[str] | None = None
    ) -> ArrowTable:
        """Receive messages as Arrow columns.

        Args:
            max_message_count: Upper bound, at least 1.
            max_wait_time: Seconds to wait for the first message; 0 does not wait. None: the receiver's own
                `max_wait_time`; without one the call waits until a message arrives.
            columns: Names of the columns to return; None: all. The table has them in the order below. `settle_arrow`
                needs `lock_token`.

        Returns:
            A table with the columns of `ServiceBusSender.send_arrow` and `sequence_number` (int64), `partition_id`
            (int16), `enqueued_time_utc`, `locked_until_utc` (timestamps), `delivery_count` (int32), `lock_token` (16
            bytes), `state`, `dead_letter_reason`, `dead_letter_error_description`.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, forwards its messages, or requires sessions and the receiver
                has none.
            SessionLockLostError: The lock on the receiver's session expired.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery of the ready messages. They stay
                in the queue. Free disk space, then receive again.
            PartitionUnavailableError: The partition of the session is out of service. Receive-and-delete mode also
                raises it when a removal could not be written; if other partitions had messages, the next receive raises
                it. `sequence_numbers` names the messages. If `effect` is ``"unknown"``, they return when the partition
                is healed, unless the process ends first.
            OperationTimeoutError: A store did not answer in time, and no other partition had messages.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `columns` is no sequence of names.
            ValueError: The receiver is closed, `max_message_count` is not 1 to 1,048,576, `max_wait_time` is negative,
                or `columns` is empty or has an unknown name. No message was received.

        Source: docs/behaviour.md B-125 to B-140; docs/compat.md#arrow.
        """

    def settle_arrow(self, batch: _ArrowStream | _ArrowArray, outcome: _Outcome) -> None:
        """Settle the messages of a table by its column `lock_token`.

        Args:
            batch: The table that `receive_arrow` returned, or some of its rows.
            outcome: ``"complete"``, ``"abandon"``, ``"defer"`` or ``"dead_letter"``.

        Raises:
            MessageLockLostError: Some messages were not settled; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The receiver reads a dead-letter queue and `outcome` is ``"dead_letter"``; or the
                entity requires sessions and the receiver has none.
            OperationTimeoutError: A store did not answer in time.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `batch` has no Arrow interface.
            ValueError: Column `lock_token` is missing, `outcome` is unknown, or the receiver is closed or in
                receive-and-delete mode.

        Source: docs/behaviour.md B-095, B-162 to B-168; docs/compat.md#arrow.
        """

    def _now(self) -> datetime: ...
    @property
    def _clock(self) -> ManualClock | None: ...
    def _release(self, messages: list[ServiceBusReceivedMessage]) -> None: ...
    def _receive_or_wait(self, max_message_count: int, waiter: _Waiter) -> list[ServiceBusReceivedMessage] | float: ...
    def _receive_rows_or_wait(
        self, max_message_count: int, columns: _Columns, waiter: _Waiter
    ) -> _ReceivedRows | float: ...
    def _receiving(
        self, max_message_count: int, waiter: _Waiter, columns: _Columns | None = None
    ) -> _PendingCall | None: ...
    def _receiving_deferred(
        self, sequence_numbers: int | list[int], *, timeout: float | None = 60.0
    ) -> _PendingCall | None: ...
    def _settle(
        self, message: ServiceBusReceivedMessage, settlement: _Settlement, transaction: TransactionScopes | None
    ) -> None: ...
    def _settle_all(
        self, messages: list[ServiceBusReceivedMessage], settlement: _Settlement, transaction: TransactionScopes | None
    ) -> None: ...
    def _settling_rows(self, batch: _ArrowStream | _ArrowArray, outcome: _Outcome) -> _PendingCall | None: ...
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
    def _committing(self) -> _PendingCall | None: ...
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
class _Columns:
    def __new__(cls, names: Sequence[str] | None = None) -> _Columns: ...

@final
class _ReceivedRows:
    def __len__(self) -> int: ...
    def table(self, columns: _Columns) -> ArrowTable: ...

@final
class _Browse:
    def __new__(cls, namespace: Namespace, entity_path: str) -> Self: ...
    def bounds(self) -> list[tuple[int, int]]: ...
    def page(
        self,
        partition: int,
        lo: int,
        hi: int,
        max_bytes: int,
        application_properties: str,
        columns: Sequence[str] | None,
    ) -> tuple[ArrowTable, int | None]: ...

@final
class _Drain:
    def __new__(
        cls,
        namespace: Namespace,
        entity_path: str,
        sub_queue: str | None,
        partition: int,
        columns: Sequence[str] | None = None,
    ) -> Self: ...
    def page(self, from_number: int, bytes_max: int) -> tuple[ArrowTable, int | None]: ...
    def settle(
        self,
        numbers: _ArrowStream | _ArrowArray,
        outcome: str,
        reason: str | None = None,
        description: str | None = None,
    ) -> int: ...

def _browsed_columns() -> list[str]: ...
def _page_stream(first: ArrowTable, rest: Iterator[ArrowTable]) -> object: ...
def _shards_of(path: str | PathLike[str], entity_path: str) -> list[int]: ...
