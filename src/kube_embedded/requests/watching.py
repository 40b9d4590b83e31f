"""Watch: a stream of changes from a version on, in order, none twice and none left out.

A watcher that cannot be served from history is told 410 and must list again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from kube_embedded.base.errors import expired
from kube_embedded.base.http import HttpReply, encode_json, is_true
from kube_embedded.base.store import Event, Expired, Record, Watcher
from kube_embedded.requests.kernel import Call, Kernel
from kube_embedded.requests.query_parameters import check_watch
from kube_embedded.requests.reading import Form, Selection, metadata_only, negotiate, selection, table

BOOKMARK_INTERVAL_S = 60.0
DEFAULT_TIMEOUT_S = 3600.0
_MAX_BATCH = 500
_MAX_BATCH_BYTES = 128 * 1024
"""What is made ready for one client at a time; a thousand that do not read must not cost a gigabyte."""
_INITIAL_END = "k8s.io/initial-events-end"


def watch(kernel: Kernel, call: Call) -> HttpReply:
    """Check the request now, stream later: a refusal is a plain answer and not an event."""
    chosen = selection(call)
    initial = is_true(call.query.get("sendInitialEvents"))
    check_watch(call.query)
    start = int(call.query.get("resourceVersion") or 0)
    declined = call.query.get("sendInitialEvents") is not None and not initial
    session = _Session(kernel, call, chosen)
    return HttpReply(200, stream=session.run(start or None, initial or (start == 0 and not declined)))


class _Session:
    """One watch from its first event to its end."""

    def __init__(self, kernel: Kernel, call: Call, chosen: Selection) -> None:
        self._kernel = kernel
        self._call = call
        self._chosen = chosen
        self._collection = call.resource.collection
        self._bookmarks = is_true(call.query.get("allowWatchBookmarks"))
        wanted = negotiate(call.accept)
        self._form = wanted.form
        self._plain = wanted.form is Form.OBJECT and call.resource.is_stored
        self._columns_due = True
        self._sent = 0

    async def run(self, start: int | None, initial: bool) -> AsyncIterator[bytes]:
        """From a version on (None: from now), or from the beginning with all that is there."""
        store = self._kernel.store
        try:
            watcher = store.watch(self._collection, None if initial else start)
        except Expired:
            yield self._error(f"too old resource version: {start} ({store.revision})")
            return
        try:
            if initial:
                self._sent = store.revision
                for chunk in self._initial():
                    yield chunk
            else:
                self._sent = store.revision if start is None else start
            async for chunk in self._follow(watcher):
                yield chunk
        finally:
            store.unwatch(self._collection, watcher)

    def _initial(self) -> Iterator[bytes]:
        """What is there now. The records are taken at once, their bytes only as fast as the client reads."""
        collection = self._kernel.store.collection(self._collection)
        records = [record for record in collection.after(None) if self._chosen.holds(record)]
        lines, size = [], 0
        for record in records:
            lines.append(self._line("ADDED", record))
            size += len(lines[-1])
            if size > _MAX_BATCH_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
        if self._bookmarks and is_true(self._call.query.get("sendInitialEvents")):
            lines.append(self._bookmark({_INITIAL_END: "true"}))
        if lines:
            yield b"".join(lines)

    async def _follow(self, watcher: Watcher) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s()
        next_bookmark = loop.time() + BOOKMARK_INTERVAL_S
        while True:
            until = min(deadline, next_bookmark) if self._bookmarks else deadline
            if not watcher.pending and not await _wait(watcher, until - loop.time()):
                if until == deadline:  # the loop's own time may be a hair short of it
                    if self._bookmarks:
                        yield self._bookmark({})
                    return
                next_bookmark = loop.time() + BOOKMARK_INTERVAL_S
                yield self._bookmark({})
                continue
            if watcher.overflow:
                yield self._error("the watch fell too far behind")
                return
            chunk = self._drain(watcher)
            if chunk:
                yield chunk
            if watcher.closed and not watcher.pending:
                return

    def _drain(self, watcher: Watcher) -> bytes:
        lines: list[bytes] = []
        size = 0
        pending = watcher.pending
        while pending and len(lines) < _MAX_BATCH and size < _MAX_BATCH_BYTES:
            event = pending.popleft()
            if event.revision <= self._sent:
                continue
            self._sent = event.revision
            line = self._event(event)
            if line:
                lines.append(line)
                size += len(line)
        if not pending:
            watcher.wake.clear()
            if watcher.closed:
                watcher.wake.set()
        return b"".join(lines)

    def _event(self, event: Event) -> bytes:
        """What a change is to this watcher: an object may enter or leave its selection."""
        before = event.old is not None and self._chosen.holds(event.old)
        after = event.new is not None and self._chosen.holds(event.new)
        match before, after:
            case False, False:
                return b""
            case False, True:
                return self._line("ADDED", event.new)
            case True, True:
                return self._line("MODIFIED", event.new)
            case _:
                return self._line("DELETED", event.last or self._left(event))

    def _left(self, event: Event) -> Record | None:
        """An object that left the selection is shown as it was, at the version at which it left."""
        if event.old is None:
            return None
        obj = self._kernel.decode(event.old, self._call.resource)
        obj["metadata"]["resourceVersion"] = str(event.revision)
        old = event.old
        return Record(encode_json(obj), event.revision, old.uid, old.namespace, old.name, old.labels, old.fields)

    def _line(self, kind: str, record: Record | None) -> bytes:
        if record is None:
            return b""
        if self._plain:
            return b'{"type":"%s","object":%s}\n' % (kind.encode(), record.body)
        resource = self._call.resource
        obj = self._kernel.decode(record, resource)
        shown: Any = obj
        if self._form is Form.TABLE:
            include = self._call.query.get("includeObject", "Metadata")
            meta = {"resourceVersion": str(record.revision)}
            shown = table(resource, [obj], include, self._kernel.context(), meta, self._columns_due)
            self._columns_due = False
        elif self._form is Form.METADATA:
            shown = metadata_only(obj)
        return encode_json({"type": kind, "object": shown}) + b"\n"

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        resource = self._call.resource
        meta: dict[str, Any] = {
            "resourceVersion": str(max(self._sent, self._kernel.store.revision)),
            "creationTimestamp": None,
        }
        if annotations:
            meta["annotations"] = annotations
        shown: dict[str, Any] = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": meta}
        if self._form is Form.TABLE:
            shown = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "columnDefinitions": None,
                "rows": None,
            }
        return encode_json({"type": "BOOKMARK", "object": shown}) + b"\n"

    def _error(self, message: str) -> bytes:
        return encode_json({"type": "ERROR", "object": expired(message).status()}) + b"\n"

    def _timeout_s(self) -> float:
        text = self._call.query.get("timeoutSeconds", "")
        return float(text) if text.isdigit() and text != "0" else DEFAULT_TIMEOUT_S


async def _wait(watcher: Watcher, timeout_s: float) -> bool:
    """Whether something happened in time; what happens at the very end of it counts."""
    if timeout_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await watcher.wake.wait()
    return watcher.wake.is_set()
