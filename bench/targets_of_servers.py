# SPDX-License-Identifier: Apache-2.0
"""The speed the project wants to reach over the network, beside other brokers and work queues."""

from __future__ import annotations

from itertools import starmap

from metrics import P50, P99
from targets import AZURE, BEANSTALKD, BEST, REDIS, Target, alone_at_most, over, rate

_AMQP = "amqp_cycle/1KiB"


def _beside_brokers(level: str, name: str) -> tuple[Target, ...]:
    """Throughput, and how long the slowest hundredth takes, beside the best of the others at the same durability."""
    return (
        over(BEST, f"{_AMQP}/{level}_told", f"AMQP, {name}, 1 KiB / best other broker", 1.0, 2.0),
        *(
            Target(
                case=f"amqp_{case}/1KiB/{level}",
                text=f"AMQP, {name}, p99 {when} / best other broker",
                wanted=1.0,
                peer=BEST,
                at_least=False,
                metric=P99,
            )
            for case, when in (("paced", "at an even pace"), ("ping", "of one at a time"))
        ),
    )


_PING = "AMQP, p50 from a send until it is received, in memory, µs"
_IDLE = "AMQP, 1,000 idle connections with a receiver each, MiB"
_SHARE = "AMQP, the server's share of the processor time with {}"
AMQP_TARGETS = (
    rate(f"{_AMQP}/memory_confirmed", "AMQP, compiled client, 1 KiB, settlements confirmed, msg/s", 5.0e4),
    *_beside_brokers("memory", "in memory"),
    *_beside_brokers("fsync", "fsync"),
    *starmap(
        alone_at_most,
        (
            ("amqp_ping/1KiB/memory", _PING, 300, P50),
            ("amqp_idle/0B/1000_connections", _IDLE, 100, "resident_mib"),
            (f"{_AMQP}/memory_proton", _SHARE.format("python-qpid-proton"), 0.25, "server_share"),
            (f"{_AMQP}/memory_azure", _SHARE.format("azure-servicebus"), 0.25, "server_share"),
            ("amqp_start/0B/serve", "`oxbus serve` is ready after, ms", 300, "ready_ms"),
        ),
    ),
)
"""Targets of the server beside other brokers that speak AMQP 1.0."""

NETWORK_SINGLE, NETWORK_BATCH = "network_cycle/1KiB/single", "network_cycle/1KiB/batch_100"
_PROCESSOR = "AMQP, processor of client and server for a single cycle, 1 KiB, µs"
NETWORK_TARGETS = (
    over(BEANSTALKD, NETWORK_SINGLE, "AMQP, single cycle, 1 KiB / beanstalkd", 1.5),
    over(REDIS, NETWORK_BATCH, "AMQP, cycle by 100, 1 KiB / Redis", 2.0),
    alone_at_most(NETWORK_SINGLE, _PROCESSOR, 40, "processor_us_per_message"),
)
"""Targets of the server beside work queues that speak other protocols."""

_CLIENT = "client_{}/1KiB/memory"
CLIENT_TARGETS = (
    over(AZURE, _CLIENT.format("single"), "client, one at a time / azure-servicebus", 2.5),
    over(AZURE, _CLIENT.format("lists"), "client, lists of 100 / azure-servicebus", 12.0, 25.0),
    over(AZURE, _CLIENT.format("tasks"), "client, 64 receivers of asyncio / azure-servicebus", 5.0),
    Target(
        case=_CLIENT.format("lists"),
        text="client, processor per message in lists of 100 / azure-servicebus",
        wanted=0.1,
        peer=AZURE,
        at_least=False,
        metric="client_us_per_message",
    ),
    Target(
        case=_CLIENT.format("latency"),
        text="client, p50 from a send until another thread has the body / azure-servicebus",
        wanted=0.5,
        peer=AZURE,
        at_least=False,
        metric=P50,
    ),
    rate(_CLIENT.format("arrow"), "client, Arrow in and out through AMQP, rows/s", 1.0e5),
)
"""Targets of the client beside the SDK, on the same server."""
