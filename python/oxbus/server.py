# SPDX-License-Identifier: Apache-2.0
"""A network server of a namespace for Azure Service Bus clients, Spark and `oxbus.bulk.BulkClient`.

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
    console: bool = False,
    console_hosts: Iterable[str] = (),
) -> Server:
    """Serve a namespace until the server is closed; use it in a ``with`` block.

    Every port speaks every protocol, with and without TLS; the ports differ only in what clients expect there.

    Args:
        namespace: The namespace to serve.
        host: The address to listen on.
        amqp_port: The port that stands for 5672 of the service; 0 for any free port, None for none.
        amqps_port: The port that stands for 5671 of the service.
        http_port: The port that stands for 5300 of the emulator.
        https_port: The port that stands for 443 of the service.
        rules: The authorization rules. Without any, the emulator's development key has all rights, on loopback only. A
            missing key is generated.
        certificate: A PEM file with the server's certificate chain. None: generate one for development.
        private_key: A PEM file with its private key.
        certificate_out: Where to write the certificate that clients have to trust, when one is generated.
        bulk_limits: Lower limits for bulk clients, by the names in docs/bulk.md.
        console: Whether people may open the console, at ``/$console`` of each port.
        console_hosts: Further host names under which browsers reach the server. Addresses, ``localhost`` and `host`
            always work.

    Raises:
        ValueError: `host` is reachable from other machines and there are no rules, a rule is invalid, a file is not
            valid PEM, or a limit is unknown or above its default.
        OSError: The server cannot listen there.

    Source: docs/server.md, docs/behaviour.md B-407 to B-465.
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
        list(console_hosts) if console else None,
        False,
    )


def _serve_view(namespace: Namespace, *, host: str = "127.0.0.1", port: int = 0) -> Server:
    """Serve the console of a view of a directory, and nothing else; `oxbus console` uses it.

    Args:
        namespace: A namespace of `Namespace._view`.
        host: The address to listen on; only loopback has the development key.
        port: The port; 0 for any free one.

    Raises:
        ValueError: `host` is reachable from other machines.
        OSError: The server cannot listen there.

    Source: docs/guide/console.md.
    """
    return namespace._serve(host, None, None, port, None, [], None, None, None, {}, [], True)


def authorization_rules(server: Server) -> list[AuthorizationRule]:
    """Return the authorization rules of a server, with the keys in clear text. Raises nothing.

    Args:
        server: The server.

    Source: docs/server.md.
    """
    return [_translation.to_authorization_rule(rule) for rule in server._rules()]


def replace_authorization_rules(server: Server, rules: Iterable[AuthorizationRule]) -> None:
    """Replace the authorization rules of a running server, for example to rotate keys without an outage.

    Args:
        server: The server.
        rules: All rules after the call. A missing key keeps its value in the rule of the same name, or is generated.

    Raises:
        ValueError: A rule has no right, a weak key, or a name that occurs twice.
        ServiceBusQuotaExceededError: There are more than 12 rules.

    Source: docs/server.md; docs/behaviour.md B-046.
    """
    server._replace_rules([asdict(rule) for rule in rules])
