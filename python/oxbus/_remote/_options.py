# SPDX-License-Identifier: Apache-2.0
"""The options of a connection to a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict

from oxbus._options import unknown_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus._enums import TransportType
    from oxbus._remote._retry import RetryOptions


class CommonOptions(TypedDict, total=False):
    """Options of every connection to a server.

    Attributes:
        connection_verify: A file with the certificates to trust, in PEM format. Default: those of the system.
        custom_endpoint_address: Where to connect instead of the namespace, such as ``https://gateway:8443``; tokens
            still name the namespace.
        http_proxy: A proxy to connect through: a mapping with ``proxy_hostname``, ``proxy_port``, and optionally
            ``username`` and ``password``.
        retry_total: Retries after the first try. Default 3.
        retry_backoff_factor: Seconds before the first retry. Default 0.8.
        retry_backoff_max: Upper bound for the seconds between two retries, also where the server asks for more. Default
            120.
        retry_mode: ``"exponential"``, the default, doubles the seconds before each further retry; ``"fixed"`` keeps
            them.
        logging_enable: Taken for programs written for the SDK, and without effect: levels of the log are set as
            docs/logging.md says.

    Source: the keywords of `azure.servicebus.ServiceBusClient` and of `azure.core`.
    """

    connection_verify: str | os.PathLike[str] | None
    custom_endpoint_address: str | None
    http_proxy: Mapping[str, Any] | None
    retry_total: int
    retry_backoff_factor: float
    retry_backoff_max: float
    retry_mode: str
    logging_enable: bool


class ConnectionOptions(CommonOptions, total=False):
    """Options of a connection for administration. Without a connection they are checked and have no effect.

    Attributes:
        connection_timeout: Seconds to wait for a connection. Default 30.
        read_timeout: Seconds to wait for an answer. Default 60.

    Source: the keywords of `azure.core`.
    """

    connection_timeout: float
    read_timeout: float


class MessagingOptions(CommonOptions, total=False):
    """Options of a connection for messages. Without a connection they are checked and have no effect.

    Attributes:
        transport_type: How bytes travel: `TransportType.Amqp`, the default, or `TransportType.AmqpOverWebsocket`, as
            firewalls allow it. With `http_proxy` it is always the latter.
        socket_timeout: Seconds to connect and to open a link, more than 0. Default 60.
        try_timeout: Seconds for one try of a send, of a request, or of connecting and opening a link, more than 0.
            Default: no limit beside those of the call and of `socket_timeout`.
        user_agent: A name of the program, which the server sees.

    Source: the keywords of `azure.servicebus.ServiceBusClient`.
    """

    transport_type: TransportType | str
    socket_timeout: float | None
    try_timeout: float | None
    user_agent: str | None


def check_options(call: str, options: Mapping[str, object], known: type, *more: str) -> None:
    """Check the names of options.

    Args:
        call: The call that takes them, as written.
        options: The options.
        known: The class that names them.
        more: Further names to suggest.

    Raises:
        TypeError: A name is unknown.
    """
    names = [*more, *known.__annotations__]
    for name in options:
        if name not in names:
            raise unknown_option(call, name, names)


def retry_options(options: CommonOptions) -> RetryOptions:
    """Return the retry options.

    Raises:
        ValueError: One is out of its range.
    """
    from oxbus._remote._retry import RetryOptions  # noqa: PLC0415 (only a connection needs it)

    names = {"retry_total", "retry_backoff_factor", "retry_backoff_max", "retry_mode"}
    given: dict[str, Any] = {name.removeprefix("retry_"): value for name, value in options.items() if name in names}
    return RetryOptions(**given)


def certificate_file(connection_verify: object) -> str | None:
    """Return the path of the certificates to trust; None: those of the system.

    Raises:
        OSError: The file cannot be read; the text names it and the option.
        TypeError: It is not a path.
    """
    if connection_verify is None:
        return None
    if not isinstance(connection_verify, str | os.PathLike):
        raise TypeError(
            "connection_verify must be the path of a file with certificates, "
            f"not {type(connection_verify).__name__}: TLS is never used without verification"
        )
    path = os.fspath(connection_verify)
    try:
        with open(path, "rb"):  # noqa: PTH123 (a path as it was given)
            return path
    except OSError as error:
        text = f"connection_verify cannot be read ({error.strerror}); give the path of a PEM file with certificates"
        raise type(error)(error.errno, text, path) from error


def check_messaging_options(options: MessagingOptions) -> None:
    """Check the values of the options that have a range.

    Raises:
        ValueError: A value is out of its range.
    """
    retry_options(options)
    for name in ("socket_timeout", "try_timeout"):
        seconds: Any = options.get(name)
        if seconds is not None and seconds <= 0:
            raise ValueError(f"{name} must be more than 0 seconds: {name}={seconds}")
