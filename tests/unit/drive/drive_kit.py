"""What the tests of drive share: a scripted transport, a server of one resource, a loop that skips waiting."""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.retries import RetryPolicy
from spinney.drive.client.http.transport import Response, TransportError
from spinney.drive.client.paths import ResourcePath

THINGS = ResourcePath("test.dev", "v1", "things")
PODS = ResourcePath("", "v1", "pods")
NODES = ResourcePath("", "v1", "nodes", namespaced=False)
HASTY = RetryPolicy(attempts=3, backoff=Backoff(base_s=0.001, cap_s=0.001))


class Meta(msgspec.Struct, gc=False, rename="camel", frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct, gc=False, frozen=True):
    metadata: Meta
    color: str = ""


def thing(name: str, version: int, *, color: str = "", uid: str = "", namespace: str = "ns") -> Thing:
    return Thing(Meta(name, namespace, uid or f"uid-{name}", str(version)), color)


def as_json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, headers or {}, as_json(value))


def refusal(
    code: int, reason: str = "", message: str = "no", headers: Mapping[str, str] | None = None, **details: Any
) -> Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return reply(body | ({"details": details} if details else {}), code, headers)


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Chunks:
    """A stream: chunks, then its end or an error."""

    chunks: list[bytes] = field(default_factory=list)
    end: Exception | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stays_open: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        if self.end is not None:
            raise self.end
        if self.stays_open:
            await asyncio.Event().wait()

    async def read(self) -> bytes:
        return b"".join(self.chunks)


class Scripted:
    """Answers from prepared lists, in order; notes what it was asked."""

    def __init__(self, *answers: Response | Exception, streams: list[Chunks | Exception] | None = None) -> None:
        self.answers = list(answers)
        self.streams = streams or []
        self.asked: list[Asked] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        self.asked.append(
            Asked(method, path, dict(query or {}), dict(headers or {}), json.loads(body) if body else None)
        )
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Chunks]:
        self.asked.append(Asked("WATCH", path, dict(query or {}), dict(headers or {}), None))
        stream = self.streams.pop(0) if self.streams else Chunks(stays_open=True)
        if isinstance(stream, Exception):
            raise stream
        yield stream

    async def close(self) -> None:
        pass


def reader(transport: Any, page_limit: int = 500) -> ApiClient:
    return ApiClient(transport, random.Random(1), retry_policy=HASTY, page_limit=page_limit)


class ThingServer:
    """One resource with versions, pages and a history that can be forgotten; breaks when its dice say so."""

    def __init__(self, dice: random.Random, fault_rate: float = 0.0) -> None:
        self.things: dict[tuple[str, str], Thing] = {}
        self.version = 1
        self.oldest = 0
        self.fault_rate = fault_rate
        self._dice = dice
        self._events: list[tuple[int, bytes]] = []
        self._born = 0
        self._snapshots: dict[int, list[tuple[tuple[str, str], Thing]]] = {}
        self._news = asyncio.Event()

    def put(self, name: str, color: str) -> None:
        key = ("ns", name)
        self.version += 1
        known = self.things.get(key)
        if known is None:
            self._born += 1
        uid = known.metadata.uid if known else f"uid-{self._born}"
        self.things[key] = thing(name, self.version, color=color, uid=uid)
        self._tell("MODIFIED" if known else "ADDED", self.things[key])

    def delete(self, name: str) -> None:
        gone = self.things.pop(("ns", name), None)
        if gone is not None:
            self.version += 1
            self._tell("DELETED", thing(name, self.version, color=gone.color, uid=gone.metadata.uid))

    def forget_history(self) -> None:
        self.oldest = self.version
        self._events.clear()

    def cut_watches(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any) -> Response:
        await asyncio.sleep(0)
        asked = dict(query or {})
        if self._dice.random() < self.fault_rate:
            raise TransportError("broken")
        token = asked.get("continue", "")
        version, start = (int(part) for part in token.split(":")) if token else (self.version, 0)
        if version < self.oldest or (token and self._dice.random() < self.fault_rate):
            return refusal(410, "Expired")
        everything = self._snapshots.setdefault(version, sorted(self.things.items()))
        end = start + int(asked["limit"])
        following = f"{version}:{end}" if end < len(everything) else ""
        meta = {"resourceVersion": str(version), "continue": following}
        return reply({"metadata": meta, "items": [item for _, item in everything[start:end]]})

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None, **_: Any) -> AsyncIterator[Any]:
        since = int(dict(query or {})["resourceVersion"])
        if since < self.oldest:
            yield Chunks([refusal(410, "Expired").body], status=410)
            return
        yield _Watch(self, since)

    async def close(self) -> None:
        pass

    def _tell(self, kind: str, item: Thing) -> None:
        self._events.append((self.version, as_json({"type": kind, "object": item}) + b"\n"))
        self._news.set()
        self._news = asyncio.Event()


class _Watch:
    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, server: ThingServer, since: int) -> None:
        self._server = server
        self._since = since

    async def __aiter__(self) -> AsyncIterator[bytes]:
        server = self._server
        while True:
            news = server._news
            if self._since < server.oldest:
                yield as_json({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}) + b"\n"
                return
            lines = b"".join(line for version, line in server._events if version > self._since)
            self._since = server.version
            if server._dice.random() < server.fault_rate:
                yield lines[: len(lines) // 2]
                raise TransportError("cut in the middle")
            if lines:
                cut = server._dice.randrange(len(lines))
                yield lines[:cut]
                yield lines[cut:]
            if server._dice.random() < 0.2:
                head = {"metadata": {"resourceVersion": str(self._since)}}
                yield as_json({"type": "BOOKMARK", "object": head}) + b"\n"
            await news.wait()

    async def read(self) -> bytes:
        return b""


class SkippingLoop(asyncio.SelectorEventLoop):
    """Time stands still while there is work and jumps to the next timer when there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 1000.0

    def time(self) -> float:
        return self._at

    def _run_once(self) -> None:
        pending = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if not self._ready and pending:  # type: ignore[attr-defined]
            self._at = max(self._at, min(pending))
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """The time of the running loop."""

    def now(self) -> float:
        return 1_700_000_000 + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def in_skipped_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test in a loop that never really waits."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=SkippingLoop) as runner:
            runner.run(test(*args, **kwargs))  # type: ignore[arg-type]

    return run
