# SPDX-License-Identifier: Apache-2.0
"""The steps of a copy, in their order. Each can be repeated."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from oxbus._copy._dead_letters import copy_dead_letters
from oxbus._copy._entities import CopiedEntity, check_new, complete_topic, create_topic
from oxbus._copy._marks import Mark, mark_of
from oxbus._copy._messages import MessageCopier, RecentIds, pages
from oxbus._copy._progress import Counts
from oxbus._copy._session_states import copy_session_states
from oxbus.exceptions import InvalidOperationError, MessagingEntityNotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection

    from oxbus import ServiceBusClient, ServiceBusSender
    from oxbus._copy._progress import Progress
    from oxbus.management import QueueProperties, ServiceBusAdministrationClient


class Side:
    """The source or the target of a copy."""

    def __init__(self, admin: ServiceBusAdministrationClient, client: ServiceBusClient) -> None:
        self.admin = admin
        self.client = client


def copy_namespace(
    source: Side, target: Side, *, only: Collection[str] = (), progress: Progress = lambda _path, _counts: None
) -> dict[str, Counts]:
    """Copy entities with their messages; go on with a copy that was interrupted.

    Args:
        source: Where from. Nothing changes there.
        target: Where to. Nobody else may use the entities there until the call returns.
        only: The queues and topics to copy. Empty: all.
        progress: Is told about each step.

    Returns:
        What was copied, by the path of each queue and subscription.

    Raises:
        InvalidOperationError: The target has entities of the same names that no copy is working on.
        MessagingEntityNotFoundError: The source lacks one of `only`.
        SessionCannotBeLockedError: Somebody receives from a session of the source.
    """
    queues = [queue for queue in source.admin.list_queues() if not only or queue.name in only]
    topics = [topic.name for topic in source.admin.list_topics() if not only or topic.name in only]
    names = [*(queue.name for queue in queues), *topics]
    missing = sorted(set(only) - set(names))
    if missing:
        raise MessagingEntityNotFoundError(f"the source has no queue or topic `{missing[0]}`; check the name")
    marks = {entity.name: mark_of(entity.user_metadata) for entity in target.admin.list_queues()}
    marks |= {entity.name: mark_of(entity.user_metadata) for entity in target.admin.list_topics()}
    check_new(names, marks)
    entities = _create(source, target, queues, topics, marks)
    _check_one_copy(entities)
    for entity in entities:
        if entity.mark in (Mark.DEAD_LETTERS, Mark.MESSAGES):
            entity.take_messages(False)
    recent = {name: RecentIds(goes_on=marks.get(name) is not None) for name in names}
    done = {entity.path: _copy(entity, source, target, recent[entity.sends_to], progress) for entity in entities}
    # Until here nobody could receive. An entity may forward to others, so all are complete before that.
    for entity in entities:
        if entity.mark is not None:
            entity.complete()
    for topic in topics:
        if mark_of(target.admin.get_topic(topic).user_metadata) is not None:
            complete_topic(source.admin, target.admin, topic)
        waiting = source.admin.get_topic_runtime_properties(topic).scheduled_message_count or 0
        if waiting:
            done[topic] = Counts(left=waiting)
    return done


def _check_one_copy(entities: list[CopiedEntity]) -> None:
    """Refuse entities that the source got after the others were copied: their topic delivers by its own rules again."""
    marks = {entity.path: entity.mark for entity in entities}
    late = [path for path, mark in marks.items() if mark in (Mark.DEAD_LETTERS, Mark.MESSAGES)]
    if late and None in marks.values():
        raise InvalidOperationError(
            f"the source got `{late[0]}` after other entities were complete; delete it in the target, then copy its "
            "queue or topic with --entity"
        )


def _create(
    source: Side, target: Side, queues: list[QueueProperties], topics: list[str], marks: Collection[str]
) -> list[CopiedEntity]:
    """Create the entities that the target lacks. Return all."""
    entities = [CopiedEntity(source.admin, target.admin, queue) for queue in queues]
    for entity in entities:
        if entity.name not in marks:
            entity.create()
    for topic in topics:
        if topic not in marks:
            create_topic(source.admin, target.admin, topic)
        existing = {subscription.name for subscription in target.admin.list_subscriptions(topic)}
        for subscription in source.admin.list_subscriptions(topic):
            entity = CopiedEntity(source.admin, target.admin, subscription, topic)
            if entity.name not in existing:
                entity.create()
            entities.append(entity)
    return entities


def _copy(entity: CopiedEntity, source: Side, target: Side, recent: RecentIds, progress: Progress) -> Counts:
    """Copy what an entity contains, from the step on that its mark names."""
    counts = Counts()
    tell = partial(progress, entity.path, counts)
    tell()
    if entity.mark in (None, Mark.COPIED):
        return counts
    owner: Any = entity.properties if entity.topic is None else source.admin.get_topic(entity.topic)
    ids = recent if owner.requires_duplicate_detection else None
    with _sender(target.client, entity) as sender:

        def make_copier(sub_queue: str | None) -> MessageCopier:
            with target.client.get_queue_receiver(entity.path, sub_queue=sub_queue) as stored:
                return MessageCopier(sender, one_key=bool(owner.enable_partitioning), stored=pages(stored), ids=ids)

        entity.take_messages(True)
        if entity.mark is Mark.DEAD_LETTERS:
            if entity.requires_session:
                copy_session_states(entity, source.client, target.client, counts)
            copy_dead_letters(entity, source.client, target.client, make_copier, counts)
            entity.set_mark(Mark.MESSAGES)
        tell()
        copier = make_copier(None)
        with source.client.get_queue_receiver(entity.path) as receiver:
            for page in pages(receiver):
                copier.copy(page, counts)
                tell()
        entity.take_messages(False)
        entity.set_mark(Mark.COPIED)
    with source.client.get_queue_receiver(entity.path, sub_queue="transferdeadletter") as receiver:
        counts.left = sum(map(len, pages(receiver)))
    return counts


def _sender(client: ServiceBusClient, entity: CopiedEntity) -> ServiceBusSender:
    if entity.topic is None:
        return client.get_queue_sender(entity.sends_to)
    return client.get_topic_sender(entity.sends_to)
