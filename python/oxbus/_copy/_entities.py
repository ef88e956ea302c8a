# SPDX-License-Identifier: Apache-2.0
"""Creates the entities of a copy, sets their marks, and completes them."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from oxbus._copy._marks import Mark, mark_of
from oxbus._copy._messages import WINDOW
from oxbus._entity_path import subscription_path
from oxbus.exceptions import InvalidOperationError
from oxbus.management import EntityStatus, FalseRuleFilter, RuleProperties, TrueRuleFilter

if TYPE_CHECKING:
    from oxbus.management import QueueProperties, ServiceBusAdministrationClient, SubscriptionProperties

_FIRST: Final[dict[str, Any]] = {
    "lock_duration": timedelta(seconds=5),
    "max_delivery_count": 2000,
    "duplicate_detection_history_time_window": WINDOW,
}
"""Values until an entity is complete: the shortest times, and no move to the dead-letter queue."""
_LAST: Final = (
    *_FIRST,
    "auto_delete_on_idle",
    "default_message_time_to_live",
    "forward_to",
    "forward_dead_lettered_messages_to",
    "status",
    "user_metadata",
)
"""Options that would delete, forward or refuse messages while they are copied."""
_OF_THE_TARGET: Final = ("size_in_bytes", "max_message_size_in_kilobytes")
"""Options that the target decides on: its tier has its own limit of a message."""
_RULE: Final = "$Default"


class CopiedEntity:
    """A queue or a subscription in the source and the target.

    Args:
        source: The administration client of the source.
        target: The administration client of the target.
        properties: The options of the queue or of the subscription in the source.
        topic: The topic of a subscription, else None.
    """

    def __init__(
        self,
        source: ServiceBusAdministrationClient,
        target: ServiceBusAdministrationClient,
        properties: QueueProperties | SubscriptionProperties,
        topic: str | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self.properties = properties
        self.topic = topic
        self.name: str = properties.name
        self.path = self.name if topic is None else subscription_path(topic, self.name)
        """Its path."""
        self.sends_to = topic or self.name
        """The queue or topic that its messages are sent to."""

    @property
    def _kind(self) -> str:
        return "queue" if self.topic is None else "subscription"

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,) if self.topic is None else (self.topic, self.name)

    @property
    def _owner(self) -> tuple[str, ...]:
        return self._names[:-1]

    @property
    def mark(self) -> Mark | None:
        """The mark in the target. None: it is complete."""
        return mark_of(_get(self._target, self._kind, *self._names).user_metadata)

    @property
    def requires_session(self) -> bool:
        """Whether its messages belong to sessions."""
        return bool(self.properties.requires_session)

    def create(self) -> None:
        """Create it in the target, without what would change messages. A subscription gets none yet."""
        options = _options(self._target, self._kind, self.properties)
        if self.topic is not None:
            options["rule"] = RuleProperties(_RULE, filter=FalseRuleFilter(), action=None, created_at_utc=None)
        create = getattr(self._target, f"create_{self._kind}")
        create(*self._names, **options, user_metadata=Mark.DEAD_LETTERS.text)

    def set_mark(self, mark: Mark) -> None:
        """Go to the next step. From the messages on, nobody can receive."""
        entity = _get(self._target, self._kind, *self._names)
        entity.user_metadata = mark.text
        entity.status = EntityStatus.ACTIVE if mark is Mark.DEAD_LETTERS else EntityStatus.RECEIVE_DISABLED
        self._update(entity)

    def take_messages(self, takes: bool) -> None:
        """Let a subscription get the messages of its topic, or none."""
        if self.topic is not None:
            rule = self._target.get_rule(self.topic, self.name, _RULE)
            wanted = TrueRuleFilter() if takes else FalseRuleFilter()
            if type(rule.filter) is not type(wanted):
                rule.filter = wanted
                self._target.update_rule(self.topic, self.name, rule)

    def complete(self) -> None:
        """Give it the rules and options of the source, the status last."""
        if self.topic is not None:
            self._copy_rules(self.topic)
        entity = _get(self._target, self._kind, *self._names)
        _set_last(entity, self.properties)
        self._update(entity)

    def _copy_rules(self, topic: str) -> None:
        wanted = {rule.name: rule for rule in self._source.list_rules(topic, self.name)}
        existing = {rule.name for rule in self._target.list_rules(topic, self.name)}
        for name, rule in wanted.items():
            if name in existing:
                self._target.update_rule(topic, self.name, rule)
            else:
                self._target.create_rule(
                    topic, self.name, name, filter=rule.filter or TrueRuleFilter(), action=rule.action
                )
        for name in existing - wanted.keys():
            self._target.delete_rule(topic, self.name, name)

    def _update(self, entity: Any) -> None:
        getattr(self._target, f"update_{self._kind}")(*self._owner, entity)


def create_topic(source: ServiceBusAdministrationClient, target: ServiceBusAdministrationClient, name: str) -> None:
    """Create a topic in the target."""
    target.create_topic(name, **_options(target, "topic", source.get_topic(name)), user_metadata=Mark.COPIED.text)


def complete_topic(source: ServiceBusAdministrationClient, target: ServiceBusAdministrationClient, name: str) -> None:
    """Give a topic of the target the options of the source."""
    topic = target.get_topic(name)
    _set_last(topic, source.get_topic(name))
    target.update_topic(topic)


def check_new(names: list[str], marks: dict[str, Mark | None]) -> None:
    """Refuse a target that has entities of these names, unless a copy is under way there.

    Args:
        names: The queues and topics of the copy.
        marks: The marks of the queues and topics of the target.
    """
    if any(marks.get(name) for name in names):
        return
    existing = sorted(set(names) & marks.keys())
    if existing:
        raise InvalidOperationError(
            f"the target already has {', '.join(existing[:5])}{', …' if len(existing) > 5 else ''}; delete or rename "  # noqa: PLR2004
            "them, or choose other entities with --entity"
        )


def _get(admin: ServiceBusAdministrationClient, kind: str, *names: str) -> Any:
    return getattr(admin, f"get_{kind}")(*names)


def _options(target: ServiceBusAdministrationClient, kind: str, properties: Any) -> dict[str, Any]:
    """Return the options to create an entity with."""
    known = inspect.signature(getattr(target, f"create_{kind}")).parameters
    values: dict[str, Any] = dict(properties.items())
    options = values | _FIRST
    left_out = {*_LAST, *_OF_THE_TARGET} - _FIRST.keys()
    return {
        name: value
        for name, value in options.items()
        if name in known and name not in left_out and value not in (None, [])
    }


def _set_last(entity: Any, properties: Any) -> None:
    values: dict[str, Any] = dict(properties.items())
    for name in _LAST:
        if name in values:
            setattr(entity, name, values[name])
