# SPDX-License-Identifier: Apache-2.0
"""The exceptions of oxbus, as one tree.

::

    ServiceBusError
    ├── AutoLockRenewFailed
    ├── AutoLockRenewTimeout
    ├── CheckpointBehindError              +
    ├── ForkedProcessError                 +
    ├── InvalidOperationError              +
    │   ├── InvalidRequestError            + (also a ValueError)
    │   ├── InvalidRuleError               + (also a ValueError)
    │   └── PartitionKeyMismatchError      + (also a ValueError)
    ├── MessageAlreadySettled              (also a ValueError)
    ├── MessageLockLostError
    ├── MessageNotFoundError
    ├── MessageSizeExceededError           (also a ValueError)
    ├── MessagingEntityAlreadyExistsError  = ResourceExistsError
    ├── MessagingEntityDisabledError
    ├── MessagingEntityNotFoundError       = ResourceNotFoundError
    ├── NamespaceInUseError                +
    ├── OperationTimeoutError
    ├── PartialSendError                   +
    ├── ReservationFencedError             +
    ├── ServiceBusAuthenticationError
    ├── ServiceBusAuthorizationError
    ├── ServiceBusCommunicationError
    ├── ServiceBusConnectionError
    ├── ServiceBusQuotaExceededError
    ├── ServiceBusServerBusyError
    │   └── PartitionUnavailableError      +
    ├── SessionCannotBeLockedError
    ├── SessionLockLostError
    └── StoreCorruptError                  +

Names are those of the azure-servicebus SDK; a plus marks what oxbus adds.
A wrong argument (type, range, closed handle) is a ``TypeError`` or a ``ValueError``, as in the SDK.

Every error has an `effect`: what the call did before it failed. With ``"none"`` or None the call can be repeated
without doing anything twice. A ``ValueError`` or ``OSError`` has an effect only if the work of its call had begun.
docs/guarantees.md lists the effects of each call.

The ``__cause__`` of an error is an ``OSError`` with its ``errno`` if a system call failed; otherwise an exception that
describes the failure, for example of a damaged file or unreadable Arrow data. An error that came over a connection has
no cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Effect: TypeAlias = Literal["none", "partial", "unknown"]
"""What a failed call did after its work had begun."""

__all__ = [
    "AutoLockRenewFailed",
    "AutoLockRenewTimeout",
    "CheckpointBehindError",
    "ForkedProcessError",
    "InvalidOperationError",
    "InvalidRequestError",
    "InvalidRuleError",
    "MessageAlreadySettled",
    "MessageLockLostError",
    "MessageNotFoundError",
    "MessageSizeExceededError",
    "MessagingEntityAlreadyExistsError",
    "MessagingEntityDisabledError",
    "MessagingEntityNotFoundError",
    "NamespaceInUseError",
    "OperationTimeoutError",
    "PartialSendError",
    "PartitionKeyMismatchError",
    "PartitionUnavailableError",
    "ReservationFencedError",
    "ResourceExistsError",
    "ResourceNotFoundError",
    "ServiceBusAuthenticationError",
    "ServiceBusAuthorizationError",
    "ServiceBusCommunicationError",
    "ServiceBusConnectionError",
    "ServiceBusError",
    "ServiceBusQuotaExceededError",
    "ServiceBusServerBusyError",
    "SessionCannotBeLockedError",
    "SessionLockLostError",
    "StoreCorruptError",
]


class ServiceBusError(Exception):
    """Base of every error of this package.

    Attributes:
        message: What happened and what to do about it.
        condition: The AMQP error condition that a server would send.
        is_transient: Whether the same call may succeed later unchanged.
        effect: What the call did before it failed. ``"none"``: nothing. ``"partial"``: a part, which the error
            names. ``"unknown"``: it cannot be known. None: the call failed before its work began, so it did nothing.
        sequence_numbers: The messages on which the call did not, or may not have, taken effect.
        inner_exception: The error that caused this one, if any.

    Source: Service Bus error conditions, docs/behaviour.md section 21.6.
    """

    condition: str | None = "amqp:internal-error"
    is_transient: bool = False
    effect: Effect | None = None
    sequence_numbers: list[int]
    default_message: ClassVar[str] = (
        "The operation failed inside the broker. Report it with this text and what the program did before."
    )

    def __init__(
        self,
        message: str | None = None,
        *,
        effect: Effect | None = None,
        sequence_numbers: Iterable[int] = (),
        condition: str | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Create the error.

        Args:
            message: What happened and what to do. None: the default text of the class.
            effect: What the call did before it failed; None if its work had not begun.
            sequence_numbers: The messages on which it did not, or may not have, taken effect.
            condition: The AMQP condition, if it differs from that of the class.
            error: The error that caused this one; it becomes the cause.
        """
        self.effect = effect
        self.sequence_numbers = list(sequence_numbers)
        self.message = message or self.default_message
        super().__init__(self.message)
        self.inner_exception = error
        if error is not None:
            self.__cause__ = error
        if condition is not None:
            self.condition = condition


class InvalidOperationError(ServiceBusError):
    """The call is not possible on this entity or message, now or later: change the call.

    Service Bus calls it an invalid operation: mixed keys in one batch, different session id and partition key, or a
    feature that this version does not have (then ``condition`` is ``amqp:not-implemented``).

    Source: docs/behaviour.md B-439.
    """

    condition = "amqp:not-allowed"
    default_message = "The call is not allowed on this entity or this message. Change the call."


class PartitionKeyMismatchError(InvalidOperationError, ValueError):
    """Session id and partition key are both set and differ: set one of them, or both to the same text.

    An invalid operation in the service and a ``ValueError`` in the SDK; here it is both.

    Source: docs/behaviour.md B-064.
    """

    default_message = "Session id and partition key differ. Set only one of them, or both to the same text."


class InvalidRequestError(InvalidOperationError, ValueError):
    """A server refused a call: change the option or the call that the error names.

    The server does not say whether an option is out of its range, which is a ``ValueError`` in process, or the call is
    not possible, an invalid operation. So this is both.

    Source: docs/behaviour.md B-463.
    """

    default_message = "The server refused the call as invalid. Change what it names."


class InvalidRuleError(InvalidOperationError, ValueError):
    """The text of a filter or an action does not parse: change it at the position that the error names.

    A bad request in the service; here an invalid operation and a ``ValueError``.

    Source: docs/behaviour.md B-359.
    """

    default_message = "The filter or the action cannot be read. Change its text."


class OperationTimeoutError(ServiceBusError):
    """The call timed out: repeat it, after a send with the same message id."""

    condition = "com.microsoft:timeout"
    is_transient = True
    default_message = (
        "The call timed out, and a send may or may not have been stored. "
        "Retry, with the same message id if it was a send."
    )


class MessageLockLostError(ServiceBusError):
    """The lock on the message is lost: receive the message again.

    After a settlement of several messages `sequence_numbers` names those that were not settled; the others were.

    Source: docs/behaviour.md B-155, B-160.
    """

    condition = "com.microsoft:message-lock-lost"
    default_message = (
        "The lock expired, or the message was settled or belongs to another entity. Receive the message again."
    )


class MessageAlreadySettled(ServiceBusError, ValueError):  # noqa: N818 (the SDK's name)
    """This message object was completed, abandoned, deferred or dead-lettered before: receive the next one."""

    condition = "com.microsoft:message-lock-lost"
    default_message = "The message was settled before. Receive the next one."


class MessageNotFoundError(ServiceBusError):
    """No message has that sequence number: peek to find existing messages.

    Source: docs/behaviour.md B-238, B-278.
    """

    condition = "com.microsoft:message-not-found"
    default_message = "No message has that sequence number, or it is locked. Peek to find existing messages."


class MessageSizeExceededError(ServiceBusError, ValueError):
    """The message or the batch is larger than the limit: send less at once.

    Source: docs/behaviour.md B-055.
    """

    condition = "amqp:link:message-size-exceeded"
    default_message = "The message or batch is larger than the limit. Send less at once."


class MessagingEntityNotFoundError(ServiceBusError):
    """No entity has that name: create it first."""

    condition = "amqp:not-found"
    default_message = "No entity has that name. Create it with ServiceBusAdministrationClient.create_queue first."


class MessagingEntityAlreadyExistsError(ServiceBusError):
    """An entity has that name: choose another, or update that one.

    Source: docs/behaviour.md B-019.
    """

    condition = "com.microsoft:entity-already-exists"
    default_message = "An entity has that name. Choose another name, or update that entity."


class MessagingEntityDisabledError(ServiceBusError):
    """The status of the entity forbids the call: set it to active first.

    Source: docs/behaviour.md B-397.
    """

    condition = "com.microsoft:entity-disabled"
    default_message = "The status of the entity forbids the call. Set its status to Active with update_queue first."


class ServiceBusQuotaExceededError(ServiceBusError):
    """The entity, a partition or the namespace is full: receive and complete, then send again.

    Source: docs/behaviour.md B-036, B-037.
    """

    condition = "amqp:resource-limit-exceeded"
    is_transient = True
    default_message = (
        "The entity is full. Receive and complete messages, including dead-lettered ones, then send again."
    )


class ServiceBusServerBusyError(ServiceBusError):
    """The broker is overloaded: wait, then repeat the call.

    Source: docs/behaviour.md B-100.
    """

    condition = "com.microsoft:server-busy"
    is_transient = True
    default_message = "The broker is busy. Wait some seconds, then repeat the call."


class PartitionUnavailableError(ServiceBusServerBusyError):
    """The partition of the key is out of service: wait, or send without a key.

    Other partitions keep working, and a message without a key goes to one of them.

    Source: docs/behaviour.md B-073, B-074, B-090.
    """

    default_message = "The partition is out of service. Wait until it is healed, or send without a key."


class PartialSendError(ServiceBusError):
    """`send_arrow` stored some of the rows: send those in `rows` again.

    With the effect ``"unknown"`` some of these rows may have been stored too; a second send duplicates them.

    Attributes:
        rows: Indexes of the rows that were not stored, ascending.
        partitions: Number of stored rows by partition id.
    """

    condition = "com.microsoft:server-busy"
    default_message = "Some rows were not stored. Send the rows that `rows` names again."

    def __init__(
        self,
        message: str | None = None,
        *,
        rows: Iterable[int] = (),
        partitions: Mapping[int, int] | None = None,
        effect: Effect | None = "partial",
        sequence_numbers: Iterable[int] = (),
        condition: str | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Create the error; `rows` were not stored, `partitions` counts those that were."""
        super().__init__(message, effect=effect, sequence_numbers=sequence_numbers, condition=condition, error=error)
        self.rows = list(rows)
        self.partitions = dict(partitions or {})


class SessionLockLostError(ServiceBusError):
    """The lock on the session is lost: accept the session again.

    Source: docs/behaviour.md B-203.
    """

    condition = "com.microsoft:session-lock-lost"
    default_message = "The lock on the session expired or was released. Accept the session again."


class SessionCannotBeLockedError(ServiceBusError):
    """Another receiver holds the session: wait for it, or accept another.

    Source: docs/behaviour.md B-194.
    """

    condition = "com.microsoft:session-cannot-be-locked"
    is_transient = True
    default_message = "Another receiver holds the session. Wait until it is released, or accept another session."


class ReservationFencedError(ServiceBusError):
    """Another program acquired the consumer since, or no program has acquired it.

    Let the other program continue, or acquire the consumer again.
    """

    condition = "amqp:link:stolen"
    default_message = "Another program acquired this consumer. Use another one, or let that program continue."


class CheckpointBehindError(ServiceBusError):
    """That number was completed before and its messages are gone: continue after the completed number.

    The cause is a checkpoint that was rolled back, or copied from another query.
    """

    condition = "amqp:precondition-failed"
    default_message = "That number was completed before. Use another consumer, or continue after the completed number."


class ForkedProcessError(ServiceBusError):
    """The handle was made before a fork: open a namespace in the child process."""

    condition = "amqp:illegal-state"
    default_message = "This handle was created before the process forked. Open a namespace in the child process."


class NamespaceInUseError(ServiceBusError):
    """Another process owns the directory or those partitions: close it there, or open other partitions."""

    condition = "amqp:resource-locked"
    default_message = "Another process owns this namespace. Close it there first, or open other partitions."


class StoreCorruptError(ServiceBusError):
    """Stored bytes fail their checks: stop, and restore from a copy."""

    condition = "amqp:internal-error"
    default_message = "Stored bytes fail their checks. Stop using the partition and restore it from a copy."


class ServiceBusConnectionError(ServiceBusError):
    """The connection to a server broke: repeat the call, which reconnects."""

    condition = "amqp:connection:forced"
    is_transient = True
    default_message = "The connection broke. Retry: the next call connects again."


class ServiceBusCommunicationError(ServiceBusError):
    """A server cannot be reached: check its name and the network, then retry."""

    condition = "amqp:link:detach-forced"
    is_transient = True
    default_message = "The server cannot be reached. Check its name and the network, then retry."


class ServiceBusAuthenticationError(ServiceBusError):
    """A server rejected the credential: check it."""

    condition = "com.microsoft:auth-failed"
    default_message = "The server rejected the credential. Check the key or token of the connection string."


class ServiceBusAuthorizationError(ServiceBusError):
    """The credential lacks the right for this call: use one with the right that the error names."""

    condition = "amqp:unauthorized-access"
    default_message = (
        "The credential lacks the right for this call. Use one with the Send, Listen or Manage right that it needs."
    )


class AutoLockRenewFailed(ServiceBusError):  # noqa: N818 (the SDK's name)
    """The background renewal of a lock failed: receive the message again."""

    condition = "com.microsoft:message-lock-lost"
    default_message = "The lock could not be renewed. Receive the message again."


class AutoLockRenewTimeout(ServiceBusError):  # noqa: N818 (the SDK's name)
    """The time allowed for renewing a lock is over: allow more, or settle sooner."""

    condition = "com.microsoft:timeout"
    default_message = (
        "The time allowed for renewing the lock is over. "
        "Use a longer max_lock_renewal_duration, or settle the message sooner."
    )


ResourceNotFoundError = MessagingEntityNotFoundError
"""The administration client's name for a missing entity."""

ResourceExistsError = MessagingEntityAlreadyExistsError
"""The administration client's name for an entity that exists already."""
