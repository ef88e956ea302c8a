# SPDX-License-Identifier: Apache-2.0
"""The entity that a command sends to or receives from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._entity_path import subscription_path

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options


def add_receivable(parser: ArgumentParser) -> None:
    """Add the options that name a queue or a subscription."""
    parser.add_argument("entity", metavar="ENTITY", help="a queue, or a subscription as TOPIC/Subscriptions/NAME")
    parser.add_argument("--subscription", metavar="NAME", help="the subscription, when ENTITY is a topic")


def receivable(options: Options) -> str:
    """Return the path of the named entity.

    Raises:
        ValueError: The name of the subscription is invalid.
    """
    entity: str = options.entity
    return entity if options.subscription is None else subscription_path(entity, options.subscription)
