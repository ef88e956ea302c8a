# SPDX-License-Identifier: Apache-2.0
"""Paths of entities.

Source: docs/behaviour.md B-017, B-020.
"""

from __future__ import annotations


def subscription_path(topic_name: str, subscription_name: str) -> str:
    """Return the path of a subscription, ``topic/Subscriptions/subscription``.

    Raises:
        TypeError: A name is not a str.
        ValueError: The name of the subscription is empty or contains a slash, so the path would name another entity.
    """
    for parameter, name in (("topic_name", topic_name), ("subscription_name", subscription_name)):
        if not isinstance(name, str):
            raise TypeError(f"{parameter} must be a str, not {type(name).__name__}")
    if not subscription_name or "/" in subscription_name or "\\" in subscription_name:
        raise ValueError(
            "subscription_name must be the name of a subscription, without its topic and without slashes: "
            f"subscription_name=`{subscription_name}`"
        )
    return f"{topic_name}/Subscriptions/{subscription_name}"


def split_sub_queue(path: str) -> tuple[str, str | None]:
    """Split ``entity/$deadletterqueue`` into the entity and its sub-queue, which is None if the path names none."""
    entity, slash, last = path.rpartition("/")
    if slash and last.lower() in ("$deadletterqueue", "$transferdeadletterqueue"):
        return entity, "deadletter" if last.lower() == "$deadletterqueue" else "transferdeadletter"
    return path, None
