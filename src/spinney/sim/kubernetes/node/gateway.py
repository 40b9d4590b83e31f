"""What connects kube-apiserver, on the loopback interface, with nodes in a network namespace.

Run by path with the process whose network it is, a socket's path, the API server's port and an address. kube-apiserver
asks at the socket (HTTP CONNECT) for addresses of nodes, pods and Services; those of loopback are the host's own.
Nodes and pods reach the API server at the address. Never connects anything else, and never imports anything beyond
the standard library.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

CLONE_NEWNET = 0x40000000
CHUNK = 1 << 16
CONNECT_TIMEOUT_S = 30.0
OPEN, REFUSED = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 502 Bad Gateway\r\n\r\n"

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Inside:
    """A thread in the network of another process. Sockets stay in the network they were made in."""

    def __init__(self, pid: int) -> None:
        self._thread = ThreadPoolExecutor(1, initializer=_enter_network, initargs=(pid,))

    async def make(self, maker: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, maker)


def _enter_network(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net") as network:
        if libc.setns(network.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"network of process {pid}")


def listener(address: str, port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((address, port))
    return found


async def connect(inside: Inside, host: str, port: int) -> Streams:
    if host == "localhost" or ipaddress.ip_address(host).is_loopback:
        return await asyncio.open_connection(host, port)
    sock = await inside.make(socket.socket)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        return await asyncio.open_connection(sock=sock)
    except BaseException:
        sock.close()
        raise


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Until the source ends; its end is passed on."""
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
        target.write_eof()


async def join(one: Streams, other: Streams) -> None:
    try:
        await asyncio.gather(copy(one[0], other[1]), copy(other[0], one[1]))
    finally:
        other[1].close()


async def proxied(inside: Inside, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        request = await reader.readuntil(b"\r\n\r\n")
        host, _, port = request.split(b" ", 2)[1].decode().rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                found = await connect(inside, host.strip("[]"), int(port))
        except (OSError, ValueError):
            writer.write(REFUSED)
            await writer.drain()
            return
        writer.write(OPEN)
        await join((reader, writer), found)


async def main(pid: int, path: str, api_port: int, address: str) -> None:
    inside = Inside(pid)

    async def to_nodes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxied(inside, reader, writer)

    async def to_api(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await join((reader, writer), await asyncio.open_connection("127.0.0.1", api_port))

    of_nodes = await asyncio.start_server(to_api, sock=await inside.make(lambda: listener(address, api_port)))
    of_api = await asyncio.start_unix_server(to_nodes, path)
    await asyncio.gather(of_nodes.serve_forever(), of_api.serve_forever())


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
