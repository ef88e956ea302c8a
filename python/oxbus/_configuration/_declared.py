# SPDX-License-Identifier: Apache-2.0
"""What a configuration file declares: entities with their options, each with its place in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxbus._oxbus import Namespace
    from oxbus.management._rules import RuleProperties


@dataclass(frozen=True, slots=True)
class Declared:
    """An entity or a rule of the file.

    Attributes:
        place: Where it is in the file.
        name: Its name.
    """

    place: str
    name: str


@dataclass(frozen=True, slots=True)
class DeclaredRule(Declared):
    """A rule of a subscription."""

    rule: RuleProperties


@dataclass(frozen=True, slots=True)
class DeclaredEntity(Declared):
    """An entity.

    Attributes:
        kind: ``"queue"``, ``"topic"`` or ``"subscription"``.
        options: The options that the file gives, with the names and types of the administration client.
        topic: The topic of a subscription.
        rules: The rules of a subscription.
    """

    kind: str
    options: dict[str, Any]
    topic: str | None = None
    rules: tuple[DeclaredRule, ...] = ()

    @property
    def owner(self) -> tuple[str, ...]:
        """What the calls of the administration client take before the name."""
        return () if self.topic is None else (self.topic,)

    @property
    def names(self) -> tuple[str, ...]:
        """What the calls of the administration client take to find it."""
        return (*self.owner, self.name)


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a file declares, topics before their subscriptions."""

    entities: tuple[DeclaredEntity, ...]

    def create_in(self, namespace: Namespace) -> None:
        """Create what the namespace lacks, and set what the file says of the rest; all of it or nothing.

        Raises:
            InvalidOperationError: An entity is there with another value of an option that is fixed at creation.
            ValueError: An option is out of its range.
        """
        from oxbus._configuration._setup import Setup  # noqa: PLC0415 -- it knows the administration client

        Setup(namespace).run(self)
