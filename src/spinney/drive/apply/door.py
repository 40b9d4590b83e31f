"""All writes pass through the door: nothing else in Spinney changes anything on an API server.

Never writes without a stated precondition (or an explicit ANY), never repeats a write that may have happened unless
twice is the same as once, and never forgets an own write: caches are told what they have to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kube_apimachinery.clock import Dice
from spinney.drive.apply.outcome import Deleted, Outcome, Refused, RetryLater, Stale, Unknown, Written, read_outcome
from spinney.drive.apply.write import (
    ANY,
    Given,
    Object,
    Precondition,
    Verb,
    Write,
    delete_options,
    with_metadata,
)
from spinney.drive.client.errors import NotSent, TransportError
from spinney.drive.client.http.retries import Call, RetryPolicy, carry_out
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import Expectations, OwnWrites
from spinney.drive.client.paths import Key, Ref, ResourcePath
from spinney.drive.process_metrics import WRITES

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_NOTHING: Mapping[str, str] = {}


class Door:
    """Writes for one field manager. `may_write` is called before each write and raises when leadership is lost."""

    def __init__(
        self,
        transport: Transport,
        dice: Dice,
        *,
        field_manager: str,
        own_writes: OwnWrites | None = None,
        retry_policy: RetryPolicy | None = None,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.own_writes = own_writes or OwnWrites()
        self._transport = transport
        self._dice = dice
        self._field_manager = field_manager
        self._retry_policy = retry_policy or RetryPolicy()
        self._may_write = may_write

    async def create(self, ref: Ref, body: Object, *, dry_run: bool = False) -> Outcome:
        """Create the object. The precondition is that no object of its name exists: `Exists` otherwise.

        A reference without a name stands for `generateName` in the body; such a create of unknown fate leaves no trace.
        """
        write = Write(Verb.CREATE, ref, ANY, dry_run=dry_run)
        path = _parent(ref).collection(ref.namespace)
        return await self._post(write, path, with_metadata(body, ref, ANY))

    async def apply(
        self, ref: Ref, body: Object, given: Given, *, subresource: str = "", force: bool = True, dry_run: bool = False
    ) -> Outcome:
        """Server-side apply: we own the fields of the body from now on and give up those that it no longer holds.

        With ANY it creates what is not there. A version alone would not prevent that: a precondition names the uid.
        """
        if isinstance(given, Precondition) and not given.uid:
            raise ValueError(f"apply {ref}: found a precondition without uid, expected one with it")
        write = Write(Verb.APPLY, ref, given, subresource, dry_run)
        asked = {"force": "true" if force else "false"}
        return await self._patch(write, with_metadata(body, ref, given), _APPLY, asked)

    async def json_patch(
        self, ref: Ref, operations: Sequence[Object], given: Given, *, subresource: str = "", dry_run: bool = False
    ) -> Outcome:
        """JSON patch (RFC 6902): operations in order, all or none."""
        write = Write(Verb.JSON_PATCH, ref, given, subresource, dry_run)
        guards = [{"op": "replace", "path": f"/metadata/{k}", "value": v} for k, v in given.metadata().items()]
        return await self._patch(write, [*guards, *operations], _JSON_PATCH)

    async def merge_patch(
        self, ref: Ref, body: Object, given: Given, *, subresource: str = "", dry_run: bool = False
    ) -> Outcome:
        """Merge patch (RFC 7386): the fields of the body replace those of the object, null removes a field."""
        write = Write(Verb.MERGE_PATCH, ref, given, subresource, dry_run)
        guarded = {**body, "metadata": {**body.get("metadata", {}), **given.metadata()}} if given.metadata() else body
        return await self._patch(write, guarded, _MERGE_PATCH)

    async def status(self, ref: Ref, status: Object, given: Given, *, dry_run: bool = False) -> Outcome:
        """Merge patch of the status subresource."""
        return await self.merge_patch(ref, {"status": status}, given, subresource="status", dry_run=dry_run)

    async def scale(self, ref: Ref, replicas: int, given: Given, *, dry_run: bool = False) -> Outcome:
        """Set the number of replicas through the scale subresource; the answer is a `Scale`."""
        body = {"spec": {"replicas": replicas}}
        return await self.merge_patch(ref, body, given, subresource="scale", dry_run=dry_run)

    async def bind(
        self,
        ref: Ref,
        node: str,
        given: Precondition,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Bind a pod to a node, which is final. The uid is a precondition, so that a recreated pod is not bound.

        Without a version the pod has to be read before the next decision: the server does not tell the new one.
        """
        write = Write(Verb.BIND, ref, given, "binding", dry_run)
        body: Object = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                key: dict(values) for key, values in (("annotations", annotations), ("labels", labels)) if values
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self._post(write, ref.path("binding"), with_metadata(body, ref, given))

    async def evict(
        self, ref: Ref, given: Precondition, *, grace_s: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Evict a pod if its disruption budgets allow it: `RetryLater` otherwise."""
        write = Write(Verb.EVICT, ref, given, "eviction", dry_run)
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "deleteOptions": delete_options(given, grace_s=grace_s),
        }
        return await self._post(write, ref.path("eviction"), with_metadata(body, ref, ANY))

    async def delete(
        self,
        ref: Ref,
        given: Given,
        *,
        propagation: str | None = None,
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """`Deleted` if it is gone, `Written` if finalizers or its grace period keep it, `Gone` if it did not exist."""
        write = Write(Verb.DELETE, ref, given, dry_run=dry_run)
        options = delete_options(given, propagation=propagation, grace_s=grace_s)
        return await self._send(write, self._call(write, "DELETE", ref.path(), options, _JSON))

    async def _post(self, write: Write, path: str, content: Object) -> Outcome:
        return await self._send(write, self._call(write, "POST", path, content, _JSON))

    async def _patch(
        self, write: Write, content: Object | list[Object], media_type: str, query: Mapping[str, str] = _NOTHING
    ) -> Outcome:
        path = write.ref.path(write.subresource)
        return await self._send(write, self._call(write, "PATCH", path, content, media_type, query))

    def _call(
        self,
        write: Write,
        method: str,
        path: str,
        content: Object | list[Object],
        media_type: str,
        query: Mapping[str, str] = _NOTHING,
    ) -> Call:
        asked = dict(query)
        if method != "DELETE" and write.verb is not Verb.BIND:  # a bind has no field manager
            asked["fieldManager"] = self._field_manager
        if write.dry_run:
            asked["dryRun"] = "All"
        return Call(
            method,
            path,
            query=asked,
            headers={"accept": _JSON, "content-type": media_type},
            body=msgspec.json.encode(content),
            idempotent=_twice_is_once(write),
            wait_when_busy=write.verb is not Verb.EVICT,
        )

    async def _send(self, write: Write, call: Call) -> Outcome:
        self._may_write()
        try:
            outcome = await self._carry_out(write, call)
        except BaseException:
            self._record(write, None)
            raise
        self._record(write, outcome)
        return outcome

    async def _carry_out(self, write: Write, call: Call) -> Outcome:
        try:
            response = await carry_out(self._transport, call, self._retry_policy, self._dice)
        except NotSent as error:
            return RetryLater(error)
        except TransportError as error:
            return Unknown(error)
        return _in_the_words_of(write, read_outcome(response))

    def _record(self, write: Write, outcome: Outcome | None) -> None:
        """Count the write, and record what caches have to show. Outcome None: interrupted, its effect is unknown."""
        if not write.dry_run:
            outcome_name = type(outcome).__name__ if outcome is not None else "Unknown"
            resource = str(write.ref.resource) + (f"/{write.subresource}" if write.subresource else "")
            WRITES.values[self._field_manager, resource, write.verb.value, outcome_name] += 1
        key = write.ref.key
        if not write.ref.name and isinstance(outcome, Written):
            key = (write.ref.namespace, outcome.name)
        if write.dry_run or not key[1]:
            return
        for expectations in self.own_writes.concerned(write.ref):
            _enter(expectations, key, write, outcome)


def _enter(expectations: Expectations, key: Key, write: Write, outcome: Outcome | None) -> None:
    match outcome:
        case Written(version=version) if version:
            expectations.wrote(key, version)
        case Written() if write.verb is Verb.BIND and write.resource_version:
            expectations.wrote_after(key, write.resource_version)  # a bind always changes the pod; an eviction may not
        case Deleted(uid) if uid:
            expectations.removed(key, uid)
        case Written() | Deleted() | Unknown() | None:
            expectations.unsure(key)
        case _:
            pass


def _parent(ref: Ref) -> ResourcePath:
    if ref.resource.namespaced and not ref.namespace:
        raise ValueError(f"{ref}: found no namespace, expected one: the resource is namespaced")
    return ref.resource


def _twice_is_once(write: Write) -> bool:
    """Whether the write is idempotent: repeating it after a lost answer gives the same state and a correct answer."""
    if write.dry_run or write.verb is Verb.DELETE:
        return True
    return write.verb in (Verb.APPLY, Verb.MERGE_PATCH) and not write.resource_version


def _in_the_words_of(write: Write, outcome: Outcome) -> Outcome:
    """Correct outcomes whose meaning depends on the kind of write."""
    match outcome:
        case Written(uid=uid, lingers=False) if write.verb is Verb.DELETE:
            return Deleted(uid or write.uid)
        case Refused(status) if write.uid and status.is_about("metadata.uid"):
            return Stale(status)  # a patch with another object's uid is refused as an attempt to change it
        case _:
            return outcome
