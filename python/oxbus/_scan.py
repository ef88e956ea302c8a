# SPDX-License-Identifier: Apache-2.0
"""`oxbus.scan`: the messages of an entity as an Arrow stream, for polars, pandas, DuckDB and others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from oxbus._connection import NamespaceUse, open_namespace, parse
from oxbus._oxbus import BulkClient, Namespace, _Browse, _browsed_columns, _page_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from oxbus._oxbus import ArrowTable

Source: TypeAlias = "Namespace | str | os.PathLike[str] | None"

_PropertiesForm: TypeAlias = Literal["map", "json", "variant"]

CONNECTION_VARIABLE: Final = "OXBUS_CONNECTION_STRING"

COLUMNS: Final = tuple(_browsed_columns())
"""The columns of a scan: those of received messages without the two of a lock."""

_PAGE_BYTES: Final = 2 << 20
_COUNTER_BITS: Final = 48


class _Pages(Protocol):
    """Pages of the partitions of an entity."""

    def bounds(self) -> list[tuple[int, int]]: ...
    def page(self, partition: int, lo: int, hi: int) -> tuple[ArrowTable, int | None]: ...


class Scan:
    """The messages of an entity as an Arrow stream; see `scan`."""

    def __init__(self, pages: _Pages, partition_ids: frozenset[int] | None) -> None:
        self._pages = pages
        self._partition_ids = partition_ids

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a new stream of the messages that are present now.

        Each stream reads the entity again, page by page as its reader asks for rows. An error in the middle ends the
        stream with its text.
        """
        del requested_schema  # the interface allows a producer to ignore it
        bounds = self._pages.bounds()
        for wanted in self._partition_ids or ():
            if wanted >= len(bounds):
                raise ValueError(f"partition_ids: the entity has partitions 0 to {len(bounds) - 1}: {wanted}")
        pages = self._read(bounds)
        # There is always a first page, which tells the columns.
        return _page_stream(next(pages), pages)

    def _read(self, bounds: Sequence[tuple[int, int]]) -> Iterator[ArrowTable]:
        is_first = True
        for partition in sorted(self._partition_ids or range(len(bounds))):
            start, end = bounds[partition]
            number: int | None = start
            while number is not None:
                page, number = self._pages.page(partition, number, end - 1)
                if len(page) or is_first:
                    yield page
                is_first = False


class _InProcess:
    """Pages of a namespace of this process."""

    def __init__(
        self, namespace: Namespace | NamespaceUse, entity: str, form: _PropertiesForm, columns: Sequence[str]
    ) -> None:
        self._namespace = namespace  # a use keeps it open
        self._browse = _Browse(namespace.namespace if isinstance(namespace, NamespaceUse) else namespace, entity)
        self._form: _PropertiesForm = form
        self._columns = columns

    def bounds(self) -> list[tuple[int, int]]:
        return self._browse.bounds()

    def page(self, partition: int, lo: int, hi: int) -> tuple[ArrowTable, int | None]:
        return self._browse.page(partition, lo, hi, _PAGE_BYTES, self._form, self._columns)


class _FromServer:
    """Pages of a server."""

    def __init__(self, client: BulkClient, entity: str, form: _PropertiesForm, columns: Sequence[str]) -> None:
        self._client = client
        self._entity = entity
        self._form: _PropertiesForm = form
        self._columns = columns

    def bounds(self) -> list[tuple[int, int]]:
        description = self._client.describe(self._entity)
        counters = zip(description["starts"], description["ends"], strict=True)
        firsts = (partition << _COUNTER_BITS for partition in range(description["partitions"]))
        return [(first + start, first + end) for first, (start, end) in zip(firsts, counters, strict=True)]

    def page(self, partition: int, lo: int, hi: int) -> tuple[ArrowTable, int | None]:
        return self._client.peek(
            self._entity,
            partition,
            lo,
            to_sequence_number=hi,
            max_bytes=_PAGE_BYTES,
            application_properties=self._form,
            columns=self._columns,
        )


def scan(
    entity: str,
    source: Source = None,
    *,
    columns: Sequence[str] | None = None,
    partition_ids: Iterable[int] | None = None,
    application_properties: _PropertiesForm = "map",
    ca_file: str | os.PathLike[str] | None = None,
) -> Scan:
    """Read the messages of an entity as an Arrow stream, without locking or settling any.

    The result has the Arrow C stream interface, so ``polars.DataFrame(oxbus.scan("orders"))`` is a frame. Messages come
    by partition, and in a partition by sequence number: active, deferred and scheduled ones. It needs no other package.

    Args:
        entity: ``"orders"``, ``"topic/Subscriptions/name"``, or one of these followed by ``"/$deadletterqueue"``.
        source: A `Namespace`, the directory of one, or a connection string. None: the connection string in the
            environment variable OXBUS_CONNECTION_STRING.
        columns: Names of the columns. None: all of `oxbus.scan`'s columns (docs/guide/without-spark.md).
        partition_ids: Only these partitions. None: all.
        application_properties: "map": a map of strings. "json": a JSON object as text, which keeps all types, some as
            tags. "variant": a variant of Spark.
        ca_file: The certificates to trust, for a server with TLS. None: the system's.

    Returns:
        The messages. Each stream that a reader asks for reads the entity again.

    Raises:
        MessagingEntityNotFoundError: The entity does not exist.
        NamespaceInUseError: Another process owns the directory.
        PartitionUnavailableError: A partition is out of service; name the others in `partition_ids`.
        ServiceBusConnectionError: The server cannot be reached.
        ServiceBusAuthenticationError: The server rejects the key.
        ValueError: An argument is malformed, or there is no source.
    """
    partitions = None if partition_ids is None else frozenset(partition_ids)
    if partitions is not None and (not partitions or min(partitions) < 0):
        raise ValueError("partition_ids must have one partition at least, and no negative ones; None means all")
    names = list(COLUMNS if columns is None else columns)
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or not names:
        wrong = f"unknown column `{unknown[0]}`" if unknown else "columns is empty"
        raise ValueError(f"{wrong}; a scan has {', '.join(COLUMNS)}")
    if application_properties not in {"map", "json", "variant"}:
        raise ValueError(f"application_properties must be map, json or variant: `{application_properties}`")
    pages: _Pages
    if isinstance(source, Namespace):
        pages = _InProcess(source, entity, application_properties, names)
    else:
        pages = _pages_of(_connection_string(source), entity, application_properties, names, ca_file)
    found = Scan(pages, partitions)
    pages.bounds()  # a missing entity is an error of this call
    return found


def _connection_string(source: str | os.PathLike[str] | None) -> str:
    if source is None:
        text = os.environ.get(CONNECTION_VARIABLE, "")
        if not text:
            raise ValueError(
                "there is no source: give a namespace, a directory or a connection string, or set "
                f"{CONNECTION_VARIABLE}"
            )
        return text
    if isinstance(source, str) and ("://" in source or "=" in source):
        return source
    from pathlib import Path  # noqa: PLC0415 -- `import oxbus` does without

    path = Path(source).absolute()
    if not path.exists():
        raise ValueError(f"there is no namespace in `{path}`; give its directory, or a connection string")
    return f"Endpoint={path.as_uri()}"


def _pages_of(
    text: str, entity: str, form: _PropertiesForm, columns: Sequence[str], ca_file: str | os.PathLike[str] | None
) -> _Pages:
    connection = parse(text)
    if connection.scheme == "sb":
        client = BulkClient(text, ca_file=None if ca_file is None else os.fspath(ca_file))
        return _FromServer(client, entity, form, columns)
    return _InProcess(open_namespace(connection), entity, form, columns)
