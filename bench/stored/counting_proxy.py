# SPDX-License-Identifier: Apache-2.0
"""Counts the HTTP requests to a store on their way, in its own process: `python counting_proxy.py PORT SECONDS`.

It passes each request on as it is, and its answer once SECONDS have passed since the request: an engine on loopback
answers in two milliseconds, a region in tens of them, and the number of objects depends on that.
It prints its port, and then the counts for each line that it reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections import Counter
from dataclasses import dataclass

HOST = "127.0.0.1"
PART_BYTES = 1 << 16
HEAD_BYTES_MAX = 1 << 16
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)


def kind_of(head: bytes) -> str:
    """The kind of a request, by its first line and its conditions."""
    method, _, rest = head.partition(b" ")
    target = rest.partition(b" ")[0]
    lower = head.lower()
    if method == b"PUT":
        if b"\r\nif-none-match:" in lower:
            return "creates"
        return "swaps" if b"\r\nif-match:" in lower else "other_puts"
    if method == b"GET":
        return "lists" if b"comp=list" in target or b"list-type=2" in target else "reads"
    if method == b"POST" and b"comp=batch" in target:
        return "batches"  # how objects are deleted in Azure: one in each
    return {b"HEAD": "reads", b"DELETE": "deletes"}.get(method, "others")


@dataclass
class Proxy:
    """Connections to one port, and what was asked through them."""

    port: int
    delay: float
    counts: Counter[str]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a client asks over one connection, one request after the other."""
        from_store, to_store = await asyncio.open_connection(HOST, self.port, limit=HEAD_BYTES_MAX)
        loop = asyncio.get_running_loop()
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                began = loop.time()
                self.counts[kind_of(head)] += 1
                to_store.write(head)
                self.counts["bytes_up"] += await _pass_on(head, reader, to_store)
                answer = await from_store.readuntil(b"\r\n\r\n")
                if (left := began + self.delay - loop.time()) > 0:
                    await asyncio.sleep(left)
                writer.write(answer)
                if not head.startswith(b"HEAD"):
                    self.counts["bytes_down"] += await _pass_on(answer, from_store, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for one in (writer, to_store):
                one.close()


async def _pass_on(head: bytes, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> int:
    """Pass on the body that belongs to a head; return its bytes."""
    length = _LENGTH.search(head)
    if length is not None:
        return await _exactly(int(length[1]), source, target)
    if not _CHUNKED.search(head):
        return 0
    passed = 0
    while True:
        line = await source.readuntil(b"\r\n")
        target.write(line)
        size = int(line.partition(b";")[0], 16)
        passed += size
        await _exactly(size + 2, source, target)
        if size == 0:
            return passed


async def _exactly(count: int, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> int:
    left = count
    while left:
        part = await source.read(min(left, PART_BYTES))
        if not part:
            raise ConnectionError
        target.write(part)
        left -= len(part)
        await target.drain()
    return count


async def main() -> None:
    """Serve until the standard input ends."""
    proxy = Proxy(int(sys.argv[1]), float(sys.argv[2]), Counter())
    server = await asyncio.start_server(proxy.serve, HOST, 0, limit=HEAD_BYTES_MAX)
    print(server.sockets[0].getsockname()[1], flush=True)

    def answer() -> None:
        for _ in sys.stdin:
            print(json.dumps(proxy.counts), flush=True)
        os._exit(0)

    threading.Thread(target=answer, daemon=True).start()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
