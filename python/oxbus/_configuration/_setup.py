# SPDX-License-Identifier: Apache-2.0
"""Applying a configuration file to a namespace; completed steps are undone when one fails."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from oxbus.exceptions import InvalidOperationError, MessagingEntityNotFoundError, ServiceBusError
from oxbus.management import MessagingSku, ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus._configuration._declared import Configuration, DeclaredEntity, DeclaredRule
    from oxbus._oxbus import Namespace

_FIXED: Final = ("enable_partitioning", "requires_duplicate_detection", "requires_session")
"""Options that no update can change."""
_FORWARDS: Final = ("forward_dead_lettered_messages_to", "forward_to")
"""Options that are set last, because their values may name an entity that the file declares later."""


class Setup:
    """One application of a configuration to a namespace that has no other users yet."""

    def __init__(self, namespace: Namespace) -> None:
        self._admin: Any = ServiceBusAdministrationClient(namespace)
        # On Premium the namespace decides about partitioning, not the entity (docs/behaviour.md B-005).
        decides = self._admin.get_namespace_properties().messaging_sku == MessagingSku.PREMIUM
        self._compared = [name for name in _FIXED if not (decides and name == "enable_partitioning")]
        self._undo: list[Callable[[], object]] = []

    def run(self, configuration: Configuration) -> None:
        """Apply all of the configuration, or nothing."""
        for entity in configuration.entities:
            self._check_fixed(entity)
        try:
            for entity in configuration.entities:
                with _at(entity.location):
                    self._create_or_change(entity)
            for entity in configuration.entities:
                with _at(entity.location):
                    self._change(entity, {name: entity.options[name] for name in _FORWARDS if name in entity.options})
        except BaseException:
            for undo in reversed(self._undo):
                # The first error is the one to report.
                with suppress(ServiceBusError, OSError):
                    undo()
            raise

    def _check_fixed(self, entity: DeclaredEntity) -> None:
        current = self._find(entity)
        for name in self._compared:
            if current is not None and name in entity.options and entity.options[name] != current[name]:
                raise InvalidOperationError(
                    f"config: {entity.location}: the {entity.kind} {entity.name} exists with {name}={current[name]}, "
                    f"fixed at creation, but the file has {entity.options[name]}; change the file, or delete the "
                    f"{entity.kind} first"
                )

    def _create_or_change(self, entity: DeclaredEntity) -> None:
        options = {name: value for name, value in entity.options.items() if name not in _FORWARDS}
        rules = entity.rules
        if self._find(entity) is not None:
            self._change(entity, {name: value for name, value in options.items() if name not in _FIXED})
        else:
            if rules:
                # Replaces `$Default`, which would select every message.
                options["rule"], rules = rules[0].rule, rules[1:]
            self._call("create", entity)(*entity.names, **options)
            self._undo.append(lambda: self._call("delete", entity)(*entity.names))
        for rule in rules:
            with _at(rule.location):
                self._create_or_change_rule(entity, rule)

    def _create_or_change_rule(self, entity: DeclaredEntity, declared: DeclaredRule) -> None:
        owner, rule = entity.names, declared.rule
        with suppress(MessagingEntityNotFoundError):
            before = self._admin.get_rule(*owner, rule.name)
            if (before.filter, before.action) != (rule.filter, rule.action):
                self._admin.update_rule(*owner, rule)
                self._undo.append(lambda: self._admin.update_rule(*owner, before))
            return
        self._admin.create_rule(*owner, rule.name, filter=rule.filter, action=rule.action)
        self._undo.append(lambda: self._admin.delete_rule(*owner, rule.name))

    def _change(self, entity: DeclaredEntity, options: dict[str, Any]) -> None:
        """Set the options in the file that differ from the current ones."""
        before = self._find(entity)
        different = {name: value for name, value in options.items() if (before[name] or "") != (value or "")}
        if not different:
            return
        after = self._find(entity)
        after.update(different)
        self._call("update", entity)(*entity.owner, after)
        # None would keep the new value; an empty string clears it.
        before.update({name: before[name] or "" for name in _FORWARDS if name in before})
        self._undo.append(lambda: self._call("update", entity)(*entity.owner, before))

    def _find(self, entity: DeclaredEntity) -> Any:
        """Return the options of an entity, or None if it does not exist."""
        with suppress(MessagingEntityNotFoundError):
            return self._call("get", entity)(*entity.names)
        return None

    def _call(self, verb: str, entity: DeclaredEntity) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(self._admin, f"{verb}_{entity.kind}")
        return call


@contextmanager
def _at(location: str) -> Iterator[None]:
    """Add the place in the file to every error."""
    try:
        yield
    except (ServiceBusError, ValueError) as error:
        if str(error).startswith("config: "):
            raise
        text = f"config: {location}: {error}"
        if isinstance(error, ServiceBusError):
            raise type(error)(text, condition=error.condition) from error
        raise ValueError(text) from error
