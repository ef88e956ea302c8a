# SPDX-License-Identifier: Apache-2.0
"""The options of queues, topics and subscriptions as command-line options, with the names of the SDK."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from typing import TYPE_CHECKING, Any, Final

from oxbus.cli import _values

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

_STATUSES: Final = ("Active", "Disabled", "SendDisabled", "ReceiveDisabled")
_FLAG: Final[dict[str, Any]] = {"action": BooleanOptionalAction}
_DURATION: Final[dict[str, Any]] = {"type": _values.duration, "metavar": "DURATION"}
_COUNT: Final[dict[str, Any]] = {"type": _values.amount, "metavar": "N"}
_ENTITY: Final[dict[str, Any]] = {"metavar": "ENTITY"}

_OPTIONS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "enable_partitioning": (_FLAG, "spread it over all partitions; fixed at creation"),
    "requires_session": (_FLAG, "receive by session; fixed at creation"),
    "requires_duplicate_detection": (_FLAG, "drop a message whose id was seen before; fixed at creation"),
    "duplicate_detection_history_time_window": (_DURATION, "how long message ids are remembered"),
    "lock_duration": (_DURATION, "how long a received message stays locked"),
    "max_delivery_count": (_COUNT, "deliveries before a message moves to the dead-letter queue"),
    "default_message_time_to_live": (
        _DURATION,
        "time to live of messages that set none, and the upper bound for others",
    ),
    "dead_lettering_on_message_expiration": (_FLAG, "move expired messages to the dead-letter queue"),
    "dead_lettering_on_filter_evaluation_exceptions": (_FLAG, "dead-letter messages on which a rule fails"),
    "expire_whole_sessions": (_FLAG, "when a message of a session expires, expire all ready messages of that session"),
    "auto_delete_on_idle": (_DURATION, "delete it after this much time without use"),
    "forward_to": (_ENTITY, 'forward its messages to that entity; "" ends forwarding'),
    "forward_dead_lettered_messages_to": (_ENTITY, 'forward its dead letters to that entity; "" ends forwarding'),
    "max_size_in_megabytes": (_COUNT, "largest size of each partition, in megabytes"),
    "max_message_size_in_kilobytes": (_COUNT, "largest message, in kilobytes"),
    "status": ({"choices": _STATUSES}, "which operations it allows"),
    "filtering_messages_before_publishing": (_FLAG, "reject a message that no rule selects"),
    "support_ordering": (_FLAG, "deliver messages to the subscriptions in the order of sending"),
    "enable_batched_operations": (_FLAG, "stored and shown; has no effect"),
    "enable_express": (_FLAG, "stored and shown; has no effect"),
    "user_metadata": ({"metavar": "TEXT"}, "free text"),
}

_COMMON: Final = frozenset(
    {"auto_delete_on_idle", "default_message_time_to_live", "enable_batched_operations", "status", "user_metadata"}
)
_RECEIVED_FROM: Final = _COMMON | {
    "dead_lettering_on_message_expiration",
    "forward_dead_lettered_messages_to",
    "forward_to",
    "lock_duration",
    "max_delivery_count",
    "requires_session",
}
_SENT_TO: Final = _COMMON | {
    "duplicate_detection_history_time_window",
    "enable_express",
    "enable_partitioning",
    "max_message_size_in_kilobytes",
    "max_size_in_megabytes",
    "requires_duplicate_detection",
}
_NAMES: Final = {
    "queue": _RECEIVED_FROM | _SENT_TO | {"expire_whole_sessions"},
    "topic": _SENT_TO | {"filtering_messages_before_publishing", "support_ordering"},
    "subscription": _RECEIVED_FROM | {"dead_lettering_on_filter_evaluation_exceptions"},
}


def add_entity_options(parser: ArgumentParser, kind: str) -> None:
    """Add the options of a kind of entity."""
    group = parser.add_argument_group(f"options of a {kind}")
    for name, (settings, help_text) in _OPTIONS.items():
        if name in _NAMES[kind]:
            flags = ["--" + name.replace("_", "-")]
            if name == "enable_partitioning":
                flags.insert(0, "--partitioned")
            group.add_argument(*flags, dest=name, default=None, help=help_text, **settings)


def entity_options(options: Options, kind: str) -> dict[str, Any]:
    """Return the options of a kind of entity that the command line sets."""
    given = {name: getattr(options, name) for name in _OPTIONS if name in _NAMES[kind]}
    return {name: value for name, value in given.items() if value is not None}
