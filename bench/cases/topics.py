# SPDX-License-Identifier: Apache-2.0
"""Messages through a topic, against a queue: one subscription, a hundred of which one selects, ten thousand rules."""

from __future__ import annotations

from functools import partial

from bodies import bodies_of
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import CorrelationRuleFilter, ServiceBusAdministrationClient
from plan import WHOLE, Plan
from targets import BY_TOPIC, HUNDRED

from cases.bus import BATCH, QUEUE, Bus, drain
from cases.case import Case, expect
from cases.peer_queues import ceiling_cycle, ceiling_sends

MESSAGES = 10_000
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


def _open_rules(bodies: list[bytes], rules: int) -> Bus:
    """Open a topic with one subscription of `rules` correlation rules."""
    bus = _open(bodies, 2)
    for number in range(rules):
        bus.admin.create_rule(QUEUE, "s1", f"r{number}", filter=CorrelationRuleFilter(label=f"rule-{number}"))
    return bus


def _send(bus: Bus, at_once: int) -> int:
    send, bodies = bus.sender.send_messages, bus.bodies
    if at_once == 1:
        for body in bodies:
            send(ServiceBusMessage(body, subject=WANTED))
    else:
        for start in range(0, len(bodies), at_once):
            send([ServiceBusMessage(body, subject=WANTED) for body in bodies[start : start + at_once]])
    return len(bodies)


def _cycle(bus: Bus, at_once: int) -> int:
    _send(bus, at_once)
    return drain(bus.receiver, at_once, bus.body_bytes)


def _check(bus: Bus, count: int) -> None:
    expect("messages", count, len(bus.bodies))


def cases(plan: Plan = WHOLE) -> list[Case]:
    """The cycle through a queue, one subscription, and a hundred; sends past ten thousand rules."""
    bodies = bodies_of(100, plan.of(MESSAGES, 2 * BATCH))
    found = []
    contenders = (
        ("with_subject", "oxbus", 0),
        ("with_subject", BY_TOPIC, 1),
        ("to_subscriptions", "oxbus", 1),
        ("to_subscriptions", HUNDRED, 100),
    )
    for shape, at_once in (("single", 1), ("batch_100", BATCH)):
        run = partial(_cycle, at_once=at_once)
        for ending, contender, subscriptions in contenders:
            ready = partial(_open, bodies, subscriptions)
            bench_id = f"send_receive_complete/100B/{shape}_{ending}"
            found.append(Case(bench_id, contender, len(bodies), ready, run, _check, Bus.close))
        for ending in ("with_subject", "to_subscriptions"):
            found += ceiling_cycle(f"send_receive_complete/100B/{shape}_{ending}", bodies, at_once)
    rules = partial(_open_rules, bodies, plan.of(RULES))
    found.append(
        Case("send/100B/single_10k_rules", "oxbus", len(bodies), rules, partial(_send, at_once=1), _check, Bus.close)
    )
    return [*found, *ceiling_sends("send/100B/single_10k_rules", bodies)]
