"""Connections that are many, slow, silent, deaf, or speak something else than HTTP."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from abuse.conftest import Target

MAPS = "/api/v1/namespaces/default/configmaps"
UNHARMED_S = 10.0
"""Who has to wait longer than this for an answer is blocked; less is the machine's other work."""


def requests(head: str, *headers: str) -> bytes:
    return "\r\n".join([head, "Host: localhost", *headers, "", ""]).encode("latin-1")


@contextlib.contextmanager
def many(target: Target, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            sock = stack.enter_context(target.connect())
            if first:
                sock.sendall(first)
            found.append(sock)
        yield found


def test_five_hundred_idle_connections_harm_nobody(target: Target) -> None:
    with many(target, 500), target.good_client() as good:
        time.sleep(0.05)
    print(f"500 idle connections: good client {good.median * 1000:.1f} ms, worst {good.worst * 1000:.1f} ms")
    assert good.worst < UNHARMED_S


@pytest.mark.parametrize(
    ("name", "first", "drop"),
    [
        ("head", b"GET /api/v1/nodes HTTP/1.1\r\nX-Slow: ", b"a"),
        ("body", requests(f"POST {MAPS} HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000"), b" "),
        ("chunks", requests(f"POST {MAPS} HTTP/1.1", "Transfer-Encoding: chunked"), b"1\r\n \r\n"),
    ],
)
def test_clients_that_send_drop_by_drop_block_nobody(target: Target, name: str, first: bytes, drop: bytes) -> None:
    with many(target, 200, first) as slow, target.good_client() as good:
        for _ in range(20):
            for sock in slow:
                sock.sendall(drop)
            time.sleep(0.02)
    print(f"200 slow senders of a {name}: good client {good.median * 1000:.1f} ms, worst {good.worst * 1000:.1f} ms")
    assert good.worst < UNHARMED_S


def test_a_thousand_watches_that_read_nothing_cost_little(target: Target) -> None:
    """Every one of them is sent more than its buffers hold."""
    watch = requests(f"GET {MAPS}?watch=true HTTP/1.1")
    filling = "x" * 100_000
    body = json.dumps({"metadata": {"name": "seen-by-nobody"}, "data": {"a": filling}}).encode()
    before = target.stack.resident_mib()
    with ExitStack() as stack:
        for _ in range(1000):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(target.address)
            sock.sendall(watch)
        with target.good_client() as good:
            assert target.ask("POST", MAPS, body, "application/json")[0] == 201
            for number in range(20):
                changed = json.dumps({"data": {"a": filling, "n": str(number)}}).encode()
                path = f"{MAPS}/seen-by-nobody"
                assert target.ask("PATCH", path, changed, "application/merge-patch+json")[0] == 200
        held = target.stack.resident_mib() - before
        print(f"1000 deaf watches, 20 changes of 100 KB: {held:.0f} MiB, good client worst {good.worst * 1000:.0f} ms")
    assert held < 400
    assert good.worst_computed < 4
    assert target.ask("DELETE", f"{MAPS}/seen-by-nobody")[0] == 200


def test_watches_that_are_gone_leave_nothing_behind(target: Target) -> None:
    watch = requests(f"GET {MAPS}?watch=true HTTP/1.1")
    with many(target, 100, watch) as socks:
        for sock in socks:
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
    before = target.stack.resident_mib()
    for _ in range(5):
        with many(target, 200, watch) as socks:
            for sock in socks:
                assert sock.recv(100).startswith(b"HTTP/1.1 200")
    time.sleep(0.05)
    grown = target.stack.resident_mib() - before
    print(f"1000 watches opened and dropped: {grown:.1f} MiB more")
    assert grown < 30


MALFORMED = {
    "nothing-like-http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "binary": bytes(range(256)) * 10,
    "no-version": b"GET /\r\n\r\n",
    "bad-version": b"GET / HTTP/9.9\r\n\r\n",
    "http2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown-method": requests("FROBNICATE / HTTP/1.1"),
    "no-path": b"GET  HTTP/1.1\r\n\r\n",
    "not-a-path": requests("GET nodes HTTP/1.1"),
    "connect": requests("CONNECT example.com:443 HTTP/1.1"),
    "negative-length": requests("POST /api/v1/nodes HTTP/1.1", "Content-Length: -1"),
    "text-length": requests("POST /api/v1/nodes HTTP/1.1", "Content-Length: many"),
    "two-lengths": requests("POST /api/v1/nodes HTTP/1.1", "Content-Length: 1", "Content-Length: 2") + b"x",
    "length-and-chunked": requests("POST / HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "bad-chunk": requests("POST /api/v1/nodes HTTP/1.1", "Transfer-Encoding: chunked") + b"zz\r\n",
    "unknown-encoding": requests("POST /api/v1/nodes HTTP/1.1", "Transfer-Encoding: cunning") + b"x",
    "space-in-header-name": requests("GET / HTTP/1.1", "Bad Name: x"),
    "null-in-header": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\x00c\r\n\r\n",
    "folded-header": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n",
    "not-ascii-path": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "null-in-path": b"GET /api\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_http_is_refused(target: Target, name: str) -> None:
    answer = target.raw(MALFORMED[name])
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 505")), answer[:200]


LONG = {
    "url": b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "query": b"GET /api/v1/nodes?labelSelector=" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "header": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 2_000_000 + b"\r\n\r\n",
    "headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 300_000 + b"\r\n",
    "trailers": requests("POST / HTTP/1.1", "Transfer-Encoding: chunked") + b"0\r\n" + b"A: b\r\n" * 300_000 + b"\r\n",
}


@pytest.mark.parametrize("name", LONG)
def test_heads_without_end_are_cut(target: Target, name: str) -> None:
    begun = time.monotonic()
    answer = target.raw(LONG[name])
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4",)), answer[:200]
    assert time.monotonic() - begun < 30


def test_a_head_that_never_ends_is_cut_at_the_limit(target: Target) -> None:
    sent = 0
    with target.connect() as sock, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        sock.sendall(b"GET / HTTP/1.1\r\n")
        while sent < 50_000_000:
            sock.sendall(b"A: " + b"b" * 65_000 + b"\r\n")
            sent += 65_000
    assert sent < 20_000_000


def test_a_long_url_and_many_headers_within_the_limit_are_served(target: Target) -> None:
    selector = quote(",".join(f"key{n}!=value{n}" for n in range(2000)))
    assert target.ask("GET", f"/api/v1/nodes?labelSelector={selector}")[0] == 200


def test_thousands_of_pipelined_bad_requests_are_answered_or_dropped(target: Target) -> None:
    bad = requests("POST /api/v1/namespaces/default/pods HTTP/1.1", "Content-Length: 2") + b"[]"
    before = target.stack.resident_mib()
    answered = 0
    with target.good_client() as good, target.connect() as sock:
        feeder = threading.Thread(target=_feed, args=(sock, bad * 20_000), daemon=True)
        feeder.start()
        until = time.monotonic() + 4
        while time.monotonic() < until and select.select([sock], [], [], 1)[0]:
            try:
                data = sock.recv(1 << 20)
            except ConnectionResetError:
                break
            if not data:
                break
            answered += data.count(b"HTTP/1.1 4")
        sock.close()
        feeder.join(10)
    grown = target.stack.resident_mib() - before
    print(f"20000 pipelined: {answered} answered, {grown:.0f} MiB more, good client worst {good.worst * 1000:.0f} ms")
    assert grown < 60
    assert good.worst < UNHARMED_S


def _feed(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)


def test_pipelined_requests_are_answered_in_order(target: Target) -> None:
    paths = ["/readyz", "/api/v1/namespaces/default", "/nothing", "/version"] * 10
    with target.connect() as sock:
        sock.sendall(b"".join(requests(f"GET {path} HTTP/1.1") for path in paths))
        data = b""
        while data.count(b"HTTP/1.1 ") < len(paths):
            data += sock.recv(65536)
    codes = [part[:3] for part in data.split(b"HTTP/1.1 ")[1:]]
    assert codes == [b"200", b"200", b"404", b"200"] * 10


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
        "/api/v1/namespaces/../../../etc/passwd",
        "/api/v1/namespaces/%2e%2e/pods",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/a%00b",
        "/api/v1/namespaces/default/configmaps/%",
        "/api/v1/namespaces/default/configmaps/%zz",
        "/api/v1/nodes?labelSelector=%ff%fe",
        "/api/v1/nodes?labelSelector=%00",
        "/api/v1/nodes?fieldSelector=metadata.name%3D%ff",
        "/api/v1/nodes?limit=99999999999999999999999999",
        "/api/v1/nodes?limit=-1",
        "/api/v1/nodes?continue=%ff",
        "/api/v1/nodes?continue=e30",
        "/api/v1/nodes?continue=W10",
        "/api/v1/nodes?resourceVersion=99999999999999999999999999999999",
        "/api/v1/nodes?resourceVersion=" + "9" * 5000,
        "/api/v1/nodes?resourceVersion=%D9%A1",
        "/api/v1/nodes?watch=true&resourceVersion=" + "9" * 5000,
        "/api/v1/nodes?watch=true&resourceVersion=%D9%A1",
        "/api/v1/nodes?watch=true&timeoutSeconds=" + "9" * 5000,
        "/api/v1/nodes?watch=true&timeoutSeconds=-1",
        "/api/v1/nodes?resourceVersionMatch=nonsense",
        "/openapi/v3/../../etc/passwd",
        "/openapi/v3/apis/%2e%2e",
        "/apis//",
        "//",
        "/apis/" + "a/" * 5000,
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "POST", "OPTIONS", "HEAD"])
def test_strange_paths_are_refused_or_found_empty(target: Target, method: str, path: str) -> None:
    """Nothing is our own fault, whatever the method; some of these are lists that a real server answers too."""
    if method == "DELETE" and "/nodes" in path:
        path = path.replace("/nodes", "/configmaps")
    with target.connect() as sock:
        sock.sendall(requests(f"{method} {path} HTTP/1.1", "Content-Length: 2", "Connection: close") + b"{}")
        answer = sock.recv(65536)
    assert answer.startswith(b"HTTP/1.1 "), answer[:300]
    assert b"its log says why" not in answer


def test_a_client_that_leaves_in_the_middle_of_an_answer_harms_nobody(target: Target) -> None:
    ask = requests("GET /openapi/v3/api/v1 HTTP/1.1")
    for _ in range(50):
        with target.connect() as sock:
            sock.sendall(ask)
    with target.good_client() as good:
        time.sleep(0.05)
    assert good.worst < UNHARMED_S
