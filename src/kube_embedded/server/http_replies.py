"""Replies as they stand on the wire. Never lets a header through that would begin another one."""

from __future__ import annotations

import re
from functools import lru_cache
from http import HTTPStatus

from kube_embedded.base.http import HttpReply

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


def head_of(reply: HttpReply, keep_alive: bool) -> bytes:
    """The head of a reply that is here as a whole; most are alike but for their length."""
    start = _start(reply.status, reply.content_type)
    if keep_alive and not reply.headers:
        return b"%scontent-length: %d\r\n\r\n" % (start, len(reply.body))
    end = b"" if keep_alive else _CLOSE
    return b"%scontent-length: %d\r\n%s%s\r\n" % (start, len(reply.body), _own(reply), end)


def stream_head(reply: HttpReply, keep_alive: bool, chunked: bool) -> bytes:
    """The head of a reply whose length nobody knows: it ends with the last chunk, or with the connection."""
    end = (b"" if keep_alive else _CLOSE) + (b"transfer-encoding: chunked\r\n" if chunked else b"")
    return b"%s%s%s\r\n" % (_start(reply.status, reply.content_type), _own(reply), end)


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(part), part)


def final_reply(status: HTTPStatus, text: str = "") -> bytes:
    """A whole answer to what was no request, after which the connection ends."""
    kind = b"content-type: text/plain; charset=utf-8\r\n" if text else b""
    return b"%s%s%scontent-length: %d\r\n\r\n%s" % (
        _status_line(status),
        kind,
        _CLOSE,
        len(text.encode()),
        text.encode(),
    )


@lru_cache(maxsize=256)
def _start(status: int, content_type: str) -> bytes:
    kind = _header("content-type", content_type)
    return _status_line(status) + kind + b"cache-control: no-cache, private\r\n"


def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode("ascii")


def _own(reply: HttpReply) -> bytes:
    return b"".join([_header(name, value) for name, value in reply.headers])


def _header(name: str, value: str) -> bytes:
    raw_name, raw_value = name.lower().encode("latin-1"), value.encode("utf-8")
    if not _NAME.fullmatch(raw_name) or not _VALUE.fullmatch(raw_value):
        raise ValueError(f"header {name!r}: found {value!r}, expected text without control characters")
    return b"%s: %s\r\n" % (raw_name, raw_value)
