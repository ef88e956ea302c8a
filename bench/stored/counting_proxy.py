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
import sys
import threading
from collections import Counter
from dataclasses import dataclass

from store_requests import Http

HOST = "127.0.0.1"
LINE_BYTES_MAX = 1 << 16


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
        from_store, to_store = await asyncio.open_connection(HOST, self.port, limit=LINE_BYTES_MAX)
        wire, loop = Http(), asyncio.get_running_loop()
        try:
            is_last = False
            while not is_last:
                request = await wire.request(reader)
                began = loop.time()
                head, _, body = request.content.partition(b"\r\n\r\n")
                self.counts[kind_of(head)] += 1
                self.counts["bytes_up"] += len(body)
                to_store.write(request.content)
                await to_store.drain()
                answer = await wire.answer(from_store, request)
                is_last = answer.is_last
                self.counts["bytes_down"] += len(answer.content.partition(b"\r\n\r\n")[2])
                if (left := began + self.delay - loop.time()) > 0:
                    await asyncio.sleep(left)
                writer.write(answer.content)
                await writer.drain()
        except (EOFError, ConnectionError):
            pass  # one side left
        finally:
            for one in (writer, to_store):
                one.close()


async def main() -> None:
    """Serve until the standard input ends."""
    proxy = Proxy(int(sys.argv[1]), float(sys.argv[2]), Counter())
    server = await asyncio.start_server(proxy.serve, HOST, 0, limit=LINE_BYTES_MAX)
    print(server.sockets[0].getsockname()[1], flush=True)

    def answer() -> None:
        for _ in sys.stdin:
            print(json.dumps(proxy.counts), flush=True)
        os._exit(0)

    threading.Thread(target=answer, daemon=True).start()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
