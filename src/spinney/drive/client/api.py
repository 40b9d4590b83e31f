"""Reading from an API server: get, list in pages, watch; typed by Structs or as plain JSON values.

Never writes: all writes go through `spinney.drive.apply`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from kube_apimachinery.clock import Dice
from spinney.drive.client.codec import Broken, Codec, Page, codec_for, read_status
from spinney.drive.client.errors import ApiStatusError, Gone, NotFound, status_error
from spinney.drive.client.http.retries import Call, RetryPolicy, carry_out, retry_after_s
from spinney.drive.client.http.transport import Response, Stream, Transport
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.paths import Ref, ResourcePath

T = TypeVar("T")
Object = dict[str, Any]

_ACCEPT = {"accept": "application/json"}
_PAGE_LIMIT = 500
_LIST_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects of a resource: all, or those of a namespace and of selectors; whole, or their metadata alone."""

    resource: ResourcePath
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    @property
    def path(self) -> str:
        return self.resource.collection(self.namespace)

    def query(self) -> dict[str, str]:
        query = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in query.items() if value}

    def headers(self, form: str) -> Mapping[str, str]:
        """What a request accepts; `form` is the kind of the answer where it holds metadata alone."""
        return {"accept": f"application/json;as={form};g=meta.k8s.io;v=v1"} if self.metadata_only else _ACCEPT

    def __str__(self) -> str:
        parts = [str(self.resource), self.namespace, self.labels, self.fields]
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All selected objects at one version of the store; `broken` are those that cannot be decoded."""

    items: tuple[T, ...]
    version: str
    broken: tuple[Broken, ...] = ()


class ApiClient:
    """The read-only client over a transport. `unreadable` records objects that lists leave out."""

    def __init__(
        self,
        transport: Transport,
        dice: Dice,
        *,
        retry_policy: RetryPolicy | None = None,
        page_limit: int = _PAGE_LIMIT,
        unreadable: Unreadable | None = None,
    ) -> None:
        self.transport = transport
        self.unreadable = unreadable or Unreadable()
        self._dice = dice
        self._retry_policy = retry_policy or RetryPolicy()
        self._page_limit = page_limit

    @overload
    async def get(self, ref: Ref) -> Object: ...

    @overload
    async def get(self, ref: Ref, kind: type[T]) -> T: ...

    async def get(self, ref: Ref, kind: Any = dict) -> Any:
        """The current object. Raises `NotFound`, `Undecodable` and other `ClientError`s."""
        path = ref.path()
        body = await self.read(path)
        return codec_for(kind).one(body, f"GET {path}")

    async def look_up(self, ref: Ref, kind: type[T]) -> T | Broken | None:
        """An optional object: None if it does not exist; one that cannot be decoded is reported."""
        path = ref.path()
        try:
            found = codec_for(kind).one_or_broken(await self.read(path), f"GET {path}")
        except NotFound:
            return None
        if isinstance(found, Broken):
            self.unreadable.report(ref.resource, found)
        return found

    async def read(
        self, path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] = _ACCEPT
    ) -> bytes:
        """The body of any path that is not an object: `/version`, `/readyz`, discovery, logs."""
        call = Call("GET", path, query=query or {}, headers=headers, idempotent=True)
        response = await carry_out(self.transport, call, self._retry_policy, self._dice)
        return _accepted(response, str(call))

    @overload
    async def list(self, selection: Selection) -> Listing[Object]: ...

    @overload
    async def list(self, selection: Selection, kind: type[T]) -> Listing[T]: ...

    async def list(self, selection: Selection, kind: Any = dict) -> Listing[Any]:
        """All selected objects, in pages of one version. An object that cannot be decoded is left out and reported."""
        items: list[Any] = []
        broken: list[Broken] = []
        version = ""
        async for page in self.pages(selection, codec_for(kind)):
            if page.first:
                items.clear()
                broken.clear()
            items.extend(page.items)
            broken.extend(page.broken)
            version = page.version
        for thing in broken:
            self.unreadable.report(selection.resource, thing)
        return Listing(tuple(items), version, tuple(broken))

    async def pages(self, selection: Selection, codec: Codec[T]) -> AsyncIterator[Page[T]]:
        """The list page by page. When the continue token expires, the list starts again (`Page.first`)."""
        token, restarts = "", 0
        while True:
            try:
                page = await self._page(selection, codec, token)
            except Gone:
                if not token or restarts == _LIST_RESTARTS:
                    raise
                token, restarts = "", restarts + 1
                continue
            yield replace(page, first=not token)
            token = page.next_token
            if not token:
                return

    @asynccontextmanager
    async def watch(self, selection: Selection, version: str, timeout_s: int) -> AsyncIterator[Stream]:
        """Watch changes after a version, with bookmarks, for `timeout_s`. Raises `Gone` if the version is too old."""
        query = selection.query() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(timeout_s),
        }
        headers = selection.headers("PartialObjectMetadata")
        async with self.transport.stream(selection.path, query=query, headers=headers) as stream:
            if stream.status != 200:
                raise _refusal(Response(stream.status, stream.headers, await stream.read()), f"WATCH {selection.path}")
            yield stream

    async def _page(self, selection: Selection, codec: Codec[T], token: str) -> Page[T]:
        query = selection.query() | {"limit": str(self._page_limit)}
        if token:
            query["continue"] = token
        body = await self.read(selection.path, query, selection.headers("PartialObjectMetadataList"))
        return codec.page(body, f"LIST {selection.path}")


def _accepted(response: Response, about: str) -> bytes:
    if 200 <= response.status < 300:
        return response.body
    raise _refusal(response, about)


def _refusal(response: Response, about: str) -> ApiStatusError:
    status = read_status(response.status, response.body)
    return status_error(status, about=about, retry_after_s=retry_after_s(response))
