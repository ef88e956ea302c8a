# SPDX-License-Identifier: Apache-2.0
"""A namespace behind the network, for unmodified clients of Azure Service Bus, Spark and `oxbus.bulk.BulkClient`.

Source: docs/server.md.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from oxbus import _options
from oxbus._oxbus import Server
from oxbus.management import _translation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from oxbus._oxbus import Namespace
    from oxbus.management import AuthorizationRule

__all__ = ["Server", "authorization_rules", "replace_authorization_rules", "serve"]


@_options.explains
def serve(
    namespace: Namespace,
    *,
    host: str = "127.0.0.1",
    amqp_port: int | None = 0,
    amqps_port: int | None = None,
    http_port: int | None = None,
    https_port: int | None = None,
    rules: Iterable[AuthorizationRule] = (),
    certificate: str | PathLike[str] | None = None,
    private_key: str | PathLike[str] | None = None,
    certificate_out: str | PathLike[str] | None = None,
    bulk_limits: Mapping[str, int] | None = None,
) -> Server:
    """Serve a namespace until the server is closed; use it in a ``with`` block.

    Each port speaks every protocol, with TLS and without: they differ in what clients expect where.

    Args:
        namespace: What to serve.
        host: Where to listen.
        amqp_port: 5672 in the service; 0 for any that is free, None for none.
        amqps_port: 5671 in the service.
        http_port: 5300 in the emulator.
        https_port: 443 in the service.
        rules: Who may do what; without any, the emulator's development key may do everything, on loopback only.
            A key that is left out is made.
        certificate: A PEM file with the server's certificate and those of its issuers; None makes one for development.
        private_key: A PEM file with its private key.
        certificate_out: Where to write what clients have to trust, when a certificate is made.
        bulk_limits: Limits of bulk clients that are to be lower than they are, by the names in docs/bulk.md.

    Raises:
        ValueError: `host` can be reached from elsewhere and there are no rules, a rule is wrong, a file is none, or a
            limit is unknown or would be higher.
        OSError: The server cannot listen there.

    Source:
        docs/server.md, docs/behaviour.md B-407 to B-465.
    """
    return namespace._serve(
        host,
        amqp_port,
        amqps_port,
        http_port,
        https_port,
        [asdict(rule) for rule in rules],
        certificate,
        private_key,
        certificate_out,
        dict(bulk_limits or {}),
    )


def authorization_rules(server: Server) -> list[AuthorizationRule]:
    """Return who may do what with the namespace of a server, with the keys in clear."""
    return [_translation.to_authorization_rule(rule) for rule in server._rules()]


def replace_authorization_rules(server: Server, rules: Iterable[AuthorizationRule]) -> None:
    """Let other rules hold from now on, so that keys are replaced while clients go on.

    Args:
        server: The server.
        rules: All that are to hold. A key that is left out stays as it is in the rule of that name, or is made.

    Raises:
        ValueError: A rule gives no right, has a key that could be guessed, or a name that is there twice.
        ServiceBusQuotaExceededError: There are more than 12.
    """
    server._replace_rules([asdict(rule) for rule in rules])
