# SPDX-License-Identifier: Apache-2.0
"""The administration of a server: the calls of `AdministrationTransport` as requests.

Source: docs/behaviour.md B-456 to B-459; `azure.servicebus.management.ServiceBusAdministrationClient`.
"""

from __future__ import annotations

import time
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote

from oxbus.exceptions import InvalidOperationError, InvalidRequestError, MessagingEntityNotFoundError
from oxbus.management._atom._descriptions import (
    ATOM,
    FIRST_RULE,
    FORWARDING,
    INSTANCE,
    QUEUE,
    SERVICE_BUS,
    SUBSCRIPTION,
    TOPIC,
    EntityDescription,
    forward_address,
    read_entity,
    read_namespace,
    write_options,
)
from oxbus.management._atom._errors import AtomCall, not_found, unusable
from oxbus.management._atom._rules import read_rule, write_rule
from oxbus.management._atom._xml import Element, MalformedXmlError, XmlWriter, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from oxbus._remote._http import HttpAnswer
    from oxbus.management._atom._requests import AtomRequests
    from oxbus.management._transport import Selection

PAGE: Final = 100
"""Entities per page: the most that the service returns (B-457)."""

PAGES_MAX: Final = 10_000
"""A list has no more pages; a server that never ends a list would otherwise keep the caller forever."""

_FORWARD_HEADERS: Final = dict(
    zip(FORWARDING, ("ServiceBusSupplementaryAuthorization", "ServiceBusDlqSupplementaryAuthorization"), strict=True)
)
_INSTEAD: Final = {
    "purge_messages": "receive and complete the messages",
    "resubmit_dead_letters": "receive the dead letters, send them again and complete them",
    "list_reservations": "use a BulkClient for the reservations of its consumer",
    "cancel_reservation": "use a BulkClient for the reservations of its consumer",
    "list_stages": "stages expire by themselves",
    "discard_stage": "stages expire by themselves",
}
"""What to do instead of the calls that a server lacks."""


class AtomTransport:
    """Administers the namespace of a server."""

    _may_wait: Final = True

    def __init__(self, requests: AtomRequests, authority: str) -> None:
        """Create it.

        Args:
            requests: Sends requests.
            authority: Host and port of the namespace.
        """
        self._requests = requests
        self._namespace = f"sb://{authority}"

    def close(self) -> None:
        """Close the idle connections."""
        self._requests.close()

    # Queues

    def create_queue(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._put_entity("create", QUEUE, (name,), options)

    def get_queue(self, name: str) -> dict[str, Any]:
        return self._get_entity(QUEUE, (name,))

    def update_queue(self, name: str, options: Mapping[str, Any]) -> None:
        self._put_entity("update", QUEUE, (name,), options)

    def delete_queue(self, name: str) -> None:
        # Queues and topics share their paths, and this must not delete a topic.
        self._get_entity(QUEUE, (name,))
        self._delete((name,))

    def list_queues(self) -> Iterator[dict[str, Any]]:
        return self._list_entities(QUEUE, ("$Resources", "queues"))

    def queue_runtime(self, name: str) -> dict[str, Any]:
        return self._get_entity(QUEUE, (name,))

    def list_queues_runtime(self) -> Iterator[dict[str, Any]]:
        return self.list_queues()

    # Topics

    def create_topic(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._put_entity("create", TOPIC, (name,), options)

    def get_topic(self, name: str) -> dict[str, Any]:
        return self._get_entity(TOPIC, (name,))

    def update_topic(self, name: str, options: Mapping[str, Any]) -> None:
        self._put_entity("update", TOPIC, (name,), options)

    def delete_topic(self, name: str) -> None:
        self._get_entity(TOPIC, (name,))
        self._delete((name,))

    def list_topics(self) -> Iterator[dict[str, Any]]:
        return self._list_entities(TOPIC, ("$Resources", "topics"))

    def topic_runtime(self, name: str) -> dict[str, Any]:
        return self._get_entity(TOPIC, (name,))

    def list_topics_runtime(self) -> Iterator[dict[str, Any]]:
        return self.list_topics()

    # Subscriptions

    def create_subscription(
        self, topic: str, name: str, options: Mapping[str, Any], rule: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        with_rule = {**options, FIRST_RULE: rule}
        made = self._put_entity("create", SUBSCRIPTION, (topic, "subscriptions", name), with_rule)
        return made | {"topic_name": topic}

    def get_subscription(self, topic: str, name: str) -> dict[str, Any]:
        return self._get_entity(SUBSCRIPTION, (topic, "subscriptions", name)) | {"topic_name": topic}

    def update_subscription(self, topic: str, name: str, options: Mapping[str, Any]) -> None:
        self._put_entity("update", SUBSCRIPTION, (topic, "subscriptions", name), options)

    def delete_subscription(self, topic: str, name: str) -> None:
        self._delete((topic, "subscriptions", name))

    def list_subscriptions(self, topic: str) -> Iterator[dict[str, Any]]:
        for found in self._list_entities(SUBSCRIPTION, (topic, "subscriptions")):
            yield found | {"topic_name": topic}

    def subscription_runtime(self, topic: str, name: str) -> dict[str, Any]:
        return self.get_subscription(topic, name)

    def list_subscriptions_runtime(self, topic: str) -> Iterator[dict[str, Any]]:
        return self.list_subscriptions(topic)

    # Rules

    def create_rule(self, topic: str, subscription: str, rule: Mapping[str, Any]) -> dict[str, Any]:
        return self._put_rule("create", topic, subscription, rule)

    def get_rule(self, topic: str, subscription: str, name: str) -> dict[str, Any]:
        call, target = _call("get", (topic, "subscriptions", subscription, "rules", name))
        return self._entry(call, self._requests.send(call, target), "RuleDescription", read_rule)

    def update_rule(self, topic: str, subscription: str, rule: Mapping[str, Any]) -> None:
        self._put_rule("update", topic, subscription, rule)

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        self._delete((topic, "subscriptions", subscription, "rules", name))

    def list_rules(self, topic: str, subscription: str) -> Iterator[dict[str, Any]]:
        return self._list((topic, "subscriptions", subscription, "rules"), "RuleDescription", read_rule)

    # Messages

    def purge(self, entity: str, sub_queue: str | None, selection: Selection) -> int:
        return self._selected("purge", entity, "" if sub_queue is None else f"&sub-queue={sub_queue}", selection)

    def resubmit(self, entity: str, selection: Selection) -> int:
        return self._selected("resubmit", entity, "", selection)

    def dead_letter_count(self, entity: str) -> int:
        count: int = self._receivable(entity)["dead_letter_message_count"]
        return count

    def clock_ms(self) -> int:
        return int(time.monotonic() * 1000)

    def _receivable(self, path: str) -> dict[str, Any]:
        """Return a queue, or the subscription of a path."""
        topic, found, subscription = path.lower().partition("/subscriptions/")
        if found:
            return self.get_subscription(path[: len(topic)], path[-len(subscription) :])
        return self.get_queue(path)

    def _selected(self, verb: str, entity: str, query: str, selection: Selection) -> int:
        """Call an extension of our server. Others lack it."""
        call = AtomCall(verb=verb, path=entity, is_rule=True)
        target = f"/{quote(entity, safe='/$')}/${verb}"
        expression, parameters, before, limit = selection
        body = None if expression is None else _selection(expression, parameters)
        if before is not None:
            moment = before if before.tzinfo is not None else before.replace(tzinfo=UTC)
            query += f"&before={int(moment.timestamp() * 1000)}"
        if limit is not None:
            query += f"&limit={limit}"
        try:
            return int(self._requests.send(call, target, query=query, body=body).body)
        except (MessagingEntityNotFoundError, InvalidRequestError):
            # Another server takes the whole path for the name of an entity.
            self._receivable(entity)
            self.namespace_for("purge_messages" if verb == "purge" else "resubmit_dead_letters")

    # The namespace

    def namespace_properties(self) -> dict[str, Any]:
        call, target = _call("get", ("$namespaceinfo",))
        return self._entry(call, self._requests.send(call, target), "NamespaceInfo", read_namespace)

    def namespace_for(self, call: str) -> NoReturn:
        """Raise an error: the administration protocol does not have the call."""
        raise InvalidOperationError(
            f"{call} cannot be called over a connection, because the administration protocol of Service Bus does not "
            f"have it: {_INSTEAD[call]}, or use a client of the namespace in its own process",
            condition="amqp:not-implemented",
        )

    # Requests

    def _put_entity(
        self, verb: str, kind: EntityDescription, path: tuple[str, ...], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        call, target = _call(verb, path)
        out = XmlWriter()
        _open_entry(kind.element, out)
        write_options(kind, options, self._namespace, out)
        _close_entry(kind.element, out)
        headers = {
            header: self._requests.token(forward_address(self._namespace, options[option]))
            for option, header in _FORWARD_HEADERS.items()
            if options.get(option)
        }
        answer = self._requests.send(call, target, body=out.finish(), headers=headers)
        return self._entity(call, answer, kind)

    def _get_entity(self, kind: EntityDescription, path: tuple[str, ...]) -> dict[str, Any]:
        call, target = _call("get", path)
        return self._entity(call, self._requests.send(call, target, query="&enrich=true"), kind)

    def _put_rule(self, verb: str, topic: str, subscription: str, rule: Mapping[str, Any]) -> dict[str, Any]:
        call, target = _call(verb, (topic, "subscriptions", subscription, "rules", rule["name"]), is_rule=True)
        out = XmlWriter()
        _open_entry("RuleDescription", out)
        write_rule(rule, out)
        _close_entry("RuleDescription", out)
        answer = self._requests.send(call, target, body=out.finish())
        return self._entry(call, answer, "RuleDescription", read_rule)

    def _delete(self, path: tuple[str, ...]) -> None:
        self._requests.send(*_call("delete", path))

    def _list_entities(self, kind: EntityDescription, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        return self._list(path, kind.element, lambda name, description: read_entity(kind, name, description))

    def _list(
        self, path: tuple[str, ...], element: str, read: Callable[[str, Element], dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the resources of a list, page by page."""
        call, target = _call("get", path)
        skip = 0
        for _ in range(PAGES_MAX):
            query = f"&enrich=true&$skip={skip}&$top={PAGE}"
            feed = self._document(call, self._requests.send(call, target, query=query))
            if feed.name != "feed":
                raise unusable(call, self._requests.shown, f"the element `{feed.name}` is no list")
            entries = list(feed.all("entry"))
            for entry in entries:
                yield self._read(call, entry, element, read)
            skip += len(entries)
            has_next = any(link.attributes.get("rel") == "next" for link in feed.all("link"))
            if not entries or (len(entries) < PAGE and not has_next):
                return
        raise unusable(call, self._requests.shown, f"the list has more than {PAGES_MAX:,} pages")

    def _entity(self, call: AtomCall, answer: HttpAnswer, kind: EntityDescription) -> dict[str, Any]:
        return self._entry(call, answer, kind.element, lambda name, description: read_entity(kind, name, description))

    def _entry(
        self, call: AtomCall, answer: HttpAnswer, element: str, read: Callable[[str, Element], dict[str, Any]]
    ) -> dict[str, Any]:
        entry = self._document(call, answer)
        if entry.name == "feed":
            # The service's answer for a missing entity (B-459).
            raise not_found(call, self._requests.shown)
        return self._read(call, entry, element, read)

    def _document(self, call: AtomCall, answer: HttpAnswer) -> Element:
        try:
            return parse(answer.body)
        except MalformedXmlError as error:
            raise unusable(call, self._requests.shown, error) from error

    def _read(
        self, call: AtomCall, entry: Element, element: str, read: Callable[[str, Element], dict[str, Any]]
    ) -> dict[str, Any]:
        content = entry.child("content")
        if entry.name != "entry" or content is None or not content.children:
            raise unusable(call, self._requests.shown, f"the element `{entry.name}` is no entry with a description")
        description = content.child(element)
        if description is None:
            found = content.children[0].name
            raise not_found(call, self._requests.shown, f"the path names a {found}, not a {element}; check the name")
        try:
            return read(entry.text_of("title") or "", description)
        except ValueError as error:
            raise unusable(call, self._requests.shown, error) from error


def _call(verb: str, path: tuple[str, ...], *, is_rule: bool = False) -> tuple[AtomCall, str]:
    """Return what a request is for, and the escaped path.

    Raises:
        MessagingEntityNotFoundError: A name is empty, or has a slash where it cannot have one: the path would be that
            of another resource.
        ValueError: The same, when creating.
    """
    call = AtomCall(verb=verb, path="/".join(path), is_rule=is_rule)
    # Only names of queues and topics have slashes, inside.
    if "" in path[0].split("/") or any(not name or "/" in name for name in path[2::2]):
        if verb == "create":
            raise ValueError(f"a name must not be empty, begin or end with a slash, or have a wrong one: `{call.path}`")
        raise not_found(call, "", "no entity has such a name; check it")
    target = "/".join(quote(part, safe="/$") for part in path)
    return call, f"/{target}"


def _selection(expression: str, parameters: Mapping[str, Any]) -> bytes:
    """Return a rule whose filter selects messages."""
    out = XmlWriter()
    _open_entry("RuleDescription", out)
    sql = {"kind": "sql", "expression": expression, "parameters": parameters}
    write_rule({"name": "selection", "filter": sql, "action": None}, out)
    _close_entry("RuleDescription", out)
    return out.finish()


def _open_entry(element: str, out: XmlWriter) -> None:
    out.open("entry", f'xmlns="{ATOM}"')
    out.open("content", 'type="application/xml"')
    out.open(element, f'xmlns="{SERVICE_BUS}" xmlns:i="{INSTANCE}"')


def _close_entry(element: str, out: XmlWriter) -> None:
    for name in (element, "content", "entry"):
        out.close(name)
