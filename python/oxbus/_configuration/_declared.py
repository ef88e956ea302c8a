# SPDX-License-Identifier: Apache-2.0
"""The declarations of a configuration file: entities with their options, each with its place in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxbus._oxbus import Namespace
    from oxbus.management._rules import RuleProperties


@dataclass(frozen=True, slots=True)
class Declaration:
    """An entity or a rule in the file.

    Attributes:
        location: Where the file declares it.
        name: Its name.
    """

    location: str
    name: str


@dataclass(frozen=True, slots=True)
class DeclaredRule(Declaration):
    """A rule of a subscription."""

    rule: RuleProperties


@dataclass(frozen=True, slots=True)
class DeclaredEntity(Declaration):
    """An entity in the file.

    Attributes:
        kind: ``"queue"``, ``"topic"`` or ``"subscription"``.
        options: The options in the file, with the names and types of the administration client.
        topic: The topic of a subscription.
        rules: The rules of a subscription.
    """

    kind: str
    options: dict[str, Any]
    topic: str | None = None
    rules: tuple[DeclaredRule, ...] = ()

    @property
    def owner(self) -> tuple[str, ...]:
        """The arguments of administration calls before the name."""
        return () if self.topic is None else (self.topic,)

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments by which administration calls find the entity."""
        return (*self.owner, self.name)


@dataclass(frozen=True, slots=True)
class Configuration:
    """All declarations of a file, topics before their subscriptions."""

    entities: tuple[DeclaredEntity, ...]

    def create_in(self, namespace: Namespace) -> None:
        """Create missing entities and set the options of existing ones: all of it, or nothing.

        Raises:
            InvalidOperationError: An entity exists with another value of an option that is fixed at creation.
            ValueError: An option is out of its range.
        """
        from oxbus._configuration._setup import Setup  # noqa: PLC0415 -- it imports the administration client

        Setup(namespace).run(self)
