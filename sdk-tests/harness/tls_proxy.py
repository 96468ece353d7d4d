"""Accepts TLS connections and forwards their bytes to the server under test. Some clients open
WebSockets over TLS only.

Usage: tls_proxy.py HOST:PORT CERTIFICATE KEY. Prints its own port, and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import ssl
import sys


async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copies bytes until either side closes its connection."""
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


async def main(target: str, certificate: str, key: str) -> None:
    host, _, port = target.rpartition(":")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(forward(reader, upstream_writer), forward(upstream_reader, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
