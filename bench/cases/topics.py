# SPDX-License-Identifier: Apache-2.0
"""Messages through a topic, against a queue: one subscription, a hundred of which one selects, ten thousand rules."""

from __future__ import annotations

from functools import partial

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import CorrelationRuleFilter, ServiceBusAdministrationClient
from targets import BY_TOPIC, HUNDRED

from cases.bus import BATCH, QUEUE, Bus, bodies_of
from cases.case import Case, expect
from cases.peer_queues import ceiling_cycle, ceiling_sends

RULES = 10_000
WANTED = "wanted"


def _open(bodies: list[bytes], subscriptions: int) -> Bus:
    """A queue when there are no subscriptions; else a topic, whose first subscription is the one that gets messages."""
    namespace = Namespace()
    admin, client = ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)
    if not subscriptions:
        admin.create_queue(QUEUE, enable_partitioning=True)
        return Bus(namespace, client, client.get_queue_sender(QUEUE), client.get_queue_receiver(QUEUE), admin, bodies)
    admin.create_topic(QUEUE, enable_partitioning=True)
    for number in range(subscriptions):
        admin.create_subscription(QUEUE, f"s{number}")
        if subscriptions > 1:
            wanted = WANTED if number == 0 else f"other-{number}"
            admin.create_rule(QUEUE, f"s{number}", "rule", filter=CorrelationRuleFilter(label=wanted))
            admin.delete_rule(QUEUE, f"s{number}", "$Default")
    receiver = client.get_subscription_receiver(QUEUE, "s0")
    return Bus(namespace, client, client.get_topic_sender(QUEUE), receiver, admin, bodies)


def _open_rules(bodies: list[bytes]) -> Bus:
    """A topic with one subscription of ten thousand correlation rules."""
    bus = _open(bodies, 2)
    for number in range(RULES):
        bus.admin.create_rule(QUEUE, "s1", f"r{number}", filter=CorrelationRuleFilter(label=f"rule-{number}"))
    return bus


def _single(bus: Bus) -> int:
    send, receive, complete = bus.sender.send_messages, bus.receiver.receive_messages, bus.receiver.complete_message
    for body in bus.bodies:
        send(ServiceBusMessage(body, subject=WANTED))
    count = 0
    while messages := receive(max_wait_time=0):
        complete(messages[0])
        count += 1
    return count


def _by_hundred(bus: Bus) -> int:
    send, receive, complete = bus.sender.send_messages, bus.receiver.receive_messages, bus.receiver.complete_messages
    for start in range(0, len(bus.bodies), BATCH):
        send([ServiceBusMessage(body, subject=WANTED) for body in bus.bodies[start : start + BATCH]])
    count = 0
    while messages := receive(BATCH, max_wait_time=0):
        complete(messages)
        count += len(messages)
    return count


def _send_only(bus: Bus) -> int:
    send = bus.sender.send_messages
    for body in bus.bodies:
        send(ServiceBusMessage(body, subject=WANTED))
    return len(bus.bodies)


def _check(bus: Bus, count: int) -> None:
    expect("messages", count, len(bus.bodies))


def cases(messages: int = 10_000) -> list[Case]:
    """The cycle through a queue, one subscription, and a hundred; sends past ten thousand rules."""
    bodies = bodies_of(100, messages)
    found = []
    contenders = (
        ("with_subject", "oxbus", 0),
        ("with_subject", BY_TOPIC, 1),
        ("to_subscriptions", "oxbus", 1),
        ("to_subscriptions", HUNDRED, 100),
    )
    for shape, run in (("single", _single), ("batch_100", _by_hundred)):
        for ending, contender, subscriptions in contenders:
            ready = partial(_open, bodies, subscriptions)
            bench_id = f"send_receive_complete/100B/{shape}_{ending}"
            found.append(Case(bench_id, contender, len(bodies), ready, run, _check, Bus.close))
        for ending in ("with_subject", "to_subscriptions"):
            found += ceiling_cycle(f"send_receive_complete/100B/{shape}_{ending}", bodies, shape)
    rules = partial(_open_rules, bodies)
    found.append(Case("send/100B/single_10k_rules", "oxbus", len(bodies), rules, _send_only, _check, Bus.close))
    return [*found, *ceiling_sends("send/100B/single_10k_rules", bodies)]
