"""Bytes to requests: what is joined, what is limited, and what is refused because it could be read in two ways."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kube_embedded.base.errors import ApiError
from kube_embedded.requests.bodies import MAX_BODY_BYTES
from kube_embedded.server import http_parser
from kube_embedded.server.http_parser import Bodies, HeadTooLargeError, Incoming, MalformedError, Receiver


class Heard:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.requests: list[Incoming] = []
        self.refusals: list[int] = []
        self.awaited = 0
        self.over = 0

    def request_came(self, incoming: Incoming) -> None:
        self.requests.append(incoming)

    def body_awaited(self) -> None:
        self.awaited += 1

    def body_refused(self, error: ApiError) -> None:
        self.refusals.append(error.code)

    def refused_body_ended(self) -> None:
        self.over += 1


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, "Host: localhost", *headers, "", ""]).encode("latin-1")


def received(*parts: bytes, bodies: Bodies | None = None) -> Heard:
    heard = Heard()
    receiver = Receiver(heard, bodies or Bodies(), loopback=True)
    for part in parts:
        receiver.feed(part)
    return heard


def paths(heard: Heard) -> Sequence[str]:
    return [incoming.request.path for incoming in heard.requests]


def test_a_request_is_given_with_everything_it_said() -> None:
    (incoming,) = received(head("POST /a%20b?c=d%26 HTTP/1.1", "X-One: 1", "Content-Length: 2") + b"{}").requests
    request = incoming.request
    assert (request.method, request.path, request.query, request.body) == ("POST", "/a%20b", "c=d%26", b"{}")
    assert request.headers == {"host": "localhost", "x-one": "1", "content-length": "2"}
    assert (request.identity, request.loopback) == (None, True)
    assert (incoming.keep_alive, incoming.chunked) == (True, True)


def test_a_request_may_come_byte_by_byte() -> None:
    whole = head("POST /a HTTP/1.1", "Content-Length: 3", "X-Long: value") + b"abc" + head("GET /b HTTP/1.1")
    heard = received(*(whole[i : i + 1] for i in range(len(whole))))
    assert paths(heard) == ["/a", "/b"]
    assert heard.requests[0].request.body == b"abc"
    assert heard.requests[0].request.headers["x-long"] == "value"


def test_a_header_sent_several_times_is_one_value() -> None:
    (incoming,) = received(head("GET / HTTP/1.1", "Accept: a", "ACCEPT: b", "accept: c")).requests
    assert incoming.request.headers["accept"] == "a,b,c"


def test_an_absolute_target_is_a_path() -> None:
    assert paths(received(head("GET http://elsewhere/a?b HTTP/1.1"))) == ["/a"]


def test_chunks_are_one_body() -> None:
    (incoming,) = received(
        head("POST / HTTP/1.1", "Transfer-Encoding: chunked"), b"3\r\nabc\r\n2;x=y\r\n", b"de\r\n0\r\n\r\n"
    ).requests
    assert incoming.request.body == b"abcde"


def test_trailers_are_not_headers() -> None:
    end = b"1\r\na\r\n0\r\nAuthorization: Bearer stolen\r\nHost: elsewhere\r\n\r\n"
    (incoming,) = received(head("POST / HTTP/1.1", "Transfer-Encoding: chunked") + end).requests
    assert incoming.request.headers == {"host": "localhost", "transfer-encoding": "chunked"}


def test_trailers_without_end_are_refused() -> None:
    begin = head("POST / HTTP/1.1", "Transfer-Encoding: chunked") + b"0\r\n"
    with pytest.raises(MalformedError):
        received(begin, *([b"A: " + b"b" * 60_000 + b"\r\n"] * 20))


TWO_WAYS = {
    "length and chunks": head("POST / HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunks and length": head("POST / HTTP/1.1", "Transfer-Encoding: chunked", "Content-Length: 5") + b"0\r\n\r\n",
    "two lengths": head("POST / HTTP/1.1", "Content-Length: 1", "Content-Length: 2") + b"ab",
    "the same length twice": head("POST / HTTP/1.1", "Content-Length: 1", "Content-Length: 1") + b"a",
    "a list of lengths": head("POST / HTTP/1.1", "Content-Length: 1, 1") + b"a",
    "a length with a sign": head("POST / HTTP/1.1", "Content-Length: +1") + b"a",
    "a length below nothing": head("POST / HTTP/1.1", "Content-Length: -1") + b"a",
    "a length that is no number": head("POST / HTTP/1.1", "Content-Length: 0x1") + b"a",
    "a length beyond numbers": head("POST / HTTP/1.1", "Content-Length: " + "9" * 30) + b"a",
    "no length": head("POST / HTTP/1.1", "Content-Length: ") + b"a",
    "an encoding after chunks": head("POST / HTTP/1.1", "Transfer-Encoding: chunked, identity") + b"0\r\n\r\n",
    "an unknown encoding": head("POST / HTTP/1.1", "Transfer-Encoding: cunning") + b"a",
    "an encoding that looks like chunks": head("POST / HTTP/1.1", "Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "a chunk that is no number": head("POST / HTTP/1.1", "Transfer-Encoding: chunked") + b"zz\r\n",
    "a chunk longer than it says": head("POST / HTTP/1.1", "Transfer-Encoding: chunked") + b"1\r\nabc\r\n0\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n",
    "a folded length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n 5\r\n\r\nabcde",
    "a space before the colon": head("POST / HTTP/1.1", "Content-Length : 1") + b"a",
    "a space in a name": head("GET / HTTP/1.1", "Bad Name: x"),
    "a header without a name": head("GET / HTTP/1.1", ": x"),
    "a header without a colon": head("GET / HTTP/1.1", "nothing"),
    "a null": head("GET / HTTP/1.1", "A: b\x00c"),
    "a lone carriage return": head("GET / HTTP/1.1", "A: b\rC: d"),
    "lone line feeds": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "a path that is not ASCII": b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no path": head("GET http://elsewhere HTTP/1.1"),
    "a tunnel": head("CONNECT example.com:443 HTTP/1.1"),
    "a version from elsewhere": head("GET / HTTP/2.0"),
    "a version from before": b"GET /\r\n\r\n",
    "another protocol with a body": head("POST / HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c", "Content-Length: 2")
    + b"{}",
    "another protocol with chunks": head(
        "POST / HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c", "Transfer-Encoding: chunked"
    )
    + b"0\r\n\r\n",
}


@pytest.mark.parametrize("name", TWO_WAYS)
def test_what_could_be_read_in_two_ways_is_refused(name: str) -> None:
    heard = Heard()
    with pytest.raises(MalformedError):
        Receiver(heard, Bodies(), loopback=True).feed(TWO_WAYS[name])
    assert not heard.requests


@pytest.mark.parametrize(
    ("version", "header", "keep_alive", "chunked"),
    [
        pytest.param("1.1", "X: y", True, True, id="kept by itself"),
        pytest.param("1.1", "Connection: close", False, True, id="asked to close"),
        pytest.param("1.1", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c", False, True, id="asked for another"),
        pytest.param("1.0", "X: y", False, False, id="old"),
        pytest.param("1.0", "Connection: keep-alive", False, False, id="old and asked to be kept"),
    ],
)
def test_how_an_answer_is_framed(version: str, header: str, keep_alive: bool, chunked: bool) -> None:
    (incoming,) = received(head(f"GET / HTTP/{version}", header)).requests
    assert (incoming.keep_alive, incoming.chunked) == (keep_alive, chunked)


@pytest.mark.parametrize("more", [head("GET /second HTTP/1.1"), b"\x00garbage"], ids=["a request", "garbage"])
def test_nothing_is_read_after_a_last_request(more: bytes) -> None:
    last = head("GET /first HTTP/1.1", "Connection: close")
    assert paths(received(last + more, more)) == ["/first"]


def test_a_head_without_end_is_cut() -> None:
    with pytest.raises(HeadTooLargeError):
        received(b"GET / HTTP/1.1\r\n", *([b"A: " + b"b" * 60_000 + b"\r\n"] * 20))


def test_line_ends_without_end_are_cut() -> None:
    with pytest.raises(HeadTooLargeError):
        received(*([b"\r\n" * 30_000] * 20))


def test_a_long_body_does_not_count_as_a_head() -> None:
    body = b" " * 2 * http_parser.MAX_HEAD_BYTES
    parts = [body[i : i + 65536] for i in range(0, len(body), 65536)]
    heard = received(head("POST /a HTTP/1.1", f"Content-Length: {len(body)}"), *parts, head("GET /b HTTP/1.1"))
    assert paths(heard) == ["/a", "/b"]


def test_a_body_that_is_announced_too_long_is_refused_before_it_comes() -> None:
    heard = received(head("POST / HTTP/1.1", f"Content-Length: {MAX_BODY_BYTES + 1}", "Expect: 100-continue"))
    assert (heard.refusals, heard.awaited, heard.over) == ([413], 0, 0)


def test_a_body_that_grows_too_long_is_refused_once_and_read_over() -> None:
    part = b"x" * 65536
    chunks = [b"%x\r\n%s\r\n" % (len(part), part)] * (MAX_BODY_BYTES // len(part) + 3)
    bodies = Bodies()
    heard = received(head("POST / HTTP/1.1", "Transfer-Encoding: chunked"), *chunks, bodies=bodies)
    assert (heard.refusals, heard.over, bodies.held_bytes) == ([413], 0, 0)
    heard = received(head("POST / HTTP/1.1", "Transfer-Encoding: chunked"), *chunks, b"0\r\n\r\n")
    assert (heard.refusals, heard.over, heard.requests) == ([413], 1, [])


def test_a_body_of_just_the_limit_is_read() -> None:
    body = b"x" * MAX_BODY_BYTES
    (incoming,) = received(head("POST / HTTP/1.1", f"Content-Length: {len(body)}"), body).requests
    assert len(incoming.request.body) == MAX_BODY_BYTES


def test_all_bodies_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, "MAX_BODIES_BYTES", 100)
    bodies = Bodies(held_bytes=90)
    heard = received(head("POST / HTTP/1.1", "Content-Length: 40"), b"x" * 20, b"x" * 20, bodies=bodies)
    assert (heard.refusals, bodies.held_bytes) == ([429], 90)


def test_a_body_counts_until_it_is_whole_or_its_client_is_gone() -> None:
    bodies = Bodies()
    one, other = (Receiver(Heard(), bodies, loopback=True) for _ in range(2))
    for receiver in (one, other):
        receiver.feed(head("POST / HTTP/1.1", "Content-Length: 4") + b"ab")
    assert bodies.held_bytes == 4
    one.feed(b"cd")
    assert bodies.held_bytes == 2
    other.close()
    assert bodies.held_bytes == 0


@pytest.mark.parametrize(("version", "awaited"), [("1.1", 1), ("1.0", 0)])
def test_a_client_may_wait_to_be_told_to_go_on(version: str, awaited: int) -> None:
    heard = received(head(f"POST / HTTP/{version}", "Content-Length: 2", "Expect: 100-Continue"))
    assert (heard.awaited, heard.requests) == (awaited, [])
