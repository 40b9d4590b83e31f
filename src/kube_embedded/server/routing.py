"""From a request to the verb that answers it: who asks, for what, and may they?"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_apimachinery.selectors import SelectorError, parse_fields
from kube_embedded.access.attributes import is_local_request, on_path, on_resource
from kube_embedded.access.rbac import Authorizer
from kube_embedded.access.tokens import IMPERSONATES, Authentication, impersonated
from kube_embedded.base.errors import ApiError, NoSuchPath, bad_request, method_not_allowed, no_such_path
from kube_embedded.base.http import (
    JSON_TYPE,
    HttpReply,
    HttpRequest,
    Target,
    encode_json,
    error_reply,
    is_true,
    json_reply,
    parse_query,
    parse_target,
    pretty,
)
from kube_embedded.base.identity import Identity
from kube_embedded.base.resource import Resource
from kube_embedded.requests.bodies import check_kind, media_type, of_type, off_loop_if_long, read_object, read_patch
from kube_embedded.requests.deletion import delete, parse_options
from kube_embedded.requests.kernel import Call, Kernel, admit
from kube_embedded.requests.patching import patch, transformation
from kube_embedded.requests.pod_template_cache import CachedPod, PodTemplateCache, is_pod
from kube_embedded.requests.query_parameters import check_write
from kube_embedded.requests.reading import get, list_objects, object_reply, selection
from kube_embedded.requests.watching import watch
from kube_embedded.requests.writing import conform, create, create_from_template, update
from kube_embedded.server.discovery import NonResourcePaths
from kube_embedded.subresources.binding import BOUND, bind, bind_fast
from kube_embedded.subresources.eviction import evict
from kube_embedded.subresources.review_endpoints import ReviewEndpoints
from kube_embedded.subresources.scale import scale_of, set_scale

# Warnings as the Warning headers of an answer: each once, and never more than a client can be expected to read.

_TOTAL = 4 * 1024
_EACH = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    """The values of the headers, in order.

    All in full where they fit together, else the beginning of each until the room is used up. A text with control
    characters cannot be a header and is left out.
    """
    unique = [text for text in dict.fromkeys(texts) if text and not _has_control(text)]
    if sum(map(len, unique)) <= _TOTAL:
        return [_header(text) for text in unique]
    headers, used = [], 0
    for text in unique:
        if used >= _TOTAL:
            break
        headers.append(_header(text[:_EACH]))
        used += min(len(text), _EACH)
    return headers


def _has_control(text: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in text)


def _header(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


_WRITE_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_OVER_MANY = ("list", "watch", "deletecollection")
_READERS = ("curl", "Wget", "Mozilla/5.0")
_BOUND = encode_json(BOUND)
_TOKEN_REQUEST = "io.k8s.api.authentication.v1.TokenRequest"


class Router:
    """Knows every path; knows nothing of sockets."""

    def __init__(
        self,
        kernel: Kernel,
        authentication: Authentication,
        authorizer: Authorizer,
        templates: PodTemplateCache,
    ) -> None:
        self._kernel = kernel
        self._authenticator = authentication.callers
        self._authorizer = authorizer
        self._reviews = ReviewEndpoints(kernel, authorizer, authentication)
        self._nonresource = NonResourcePaths(kernel.registry)
        self._templates = templates
        self._quiet: set[tuple[str, str]] = set()

    async def route(self, request: HttpRequest) -> HttpReply:
        identity = self._identify(request)
        if request.path.endswith("/binding") and self._bind_fast(request, identity):
            return HttpReply(201, _BOUND)
        target = parse_target(request.path)
        if target is None:
            path = request.path.rstrip("/") or "/"
            if not identity.is_master:
                self._authorizer.check(identity, on_path(request.method, path))
            return self._nonresource.answer(request.method, path, request.headers.get("accept", ""))
        call = self._call(request, target, identity)
        verb = _verb(request.method, target, call.query)
        if not identity.is_master:
            self._authorize(call, verb)
        if call.resource.deprecated:
            call.warn(call.resource.deprecated)
        try:
            if verb in _WRITE_OPTIONS:
                check_write(call.query, _WRITE_OPTIONS[verb])
            reply = await self._answer(call, verb, request.body)
        except ApiError as error:
            reply = error_reply(error)
        if _for_people(call) and reply.content_type == JSON_TYPE and reply.stream is None:
            reply.body = pretty(reply.body)
        if call.warnings:
            reply.headers.extend(("Warning", text) for text in warning_headers(call.warnings))
        return reply

    def _call(self, request: HttpRequest, target: Target, identity: Identity) -> Call:
        """Raises ApiError 404 where nothing is served at this path."""
        resource = self._kernel.registry.find(target.group, target.version, target.plural)
        if resource is None:
            known = target.version in self._kernel.registry.groups().get(target.group, ())
            raise no_such_path() if known else NoSuchPath()
        agent, content_type, accept = (
            request.headers.get(name, "") for name in ("user-agent", "content-type", "accept")
        )
        call = Call(resource, target, parse_query(request.query), identity, agent, content_type, accept)
        self._check_scope(resource, target)
        return call

    def _bind_fast(self, request: HttpRequest, identity: Identity) -> bool:
        """Binding is the hottest of all writes: where nobody has to be asked, it is done here."""
        parts = request.path.split("/")
        if request.method != "POST" or request.query or len(parts) != 8:
            return False
        if (parts[1], parts[2], parts[3], parts[5]) != ("api", "v1", "namespaces", "pods"):
            return False
        if "json" not in request.headers.get("content-type", "json"):
            return False
        namespace, name = parts[4], parts[6]
        if (identity.name, namespace) not in self._quiet and not self._is_quiet(namespace, name, identity):
            return False
        asked = on_resource("create", "", "pods", "binding", namespace, name)
        if not identity.is_master and not self._authorizer.allowed(identity, asked)[0]:
            return False

        def passes(marks: Object) -> bool:
            return self._kernel.admission.is_idle(_bind_request(namespace, name, identity, {"metadata": marks}))

        return bind_fast(self._kernel, namespace, name, request.body, passes)

    def _is_quiet(self, namespace: str, name: str, identity: Identity) -> bool:
        """Whether nobody wants to see the binds of somebody in a namespace; remembered until that may change."""
        if not self._kernel.admission.is_idle(_bind_request(namespace, name, identity, None)):
            return False
        self._quiet.add((identity.name, namespace))
        return True

    def forget(self) -> None:
        """To be called when something changes that admission goes by."""
        self._quiet.clear()
        self._templates.forget()

    def _identify(self, request: HttpRequest) -> Identity:
        if request.identity is not None:
            if IMPERSONATES not in request.headers:
                return request.identity
            return impersonated(request.identity, request.headers, self._authorizer)
        loopback = request.loopback and is_local_request(request.headers)
        who = self._authenticator.identify(
            request.headers.get("authorization"), loopback=loopback, now_s=self._kernel.clock.now()
        )
        return impersonated(who, request.headers, self._authorizer)

    @staticmethod
    def _check_scope(resource: Resource, target: Target) -> None:
        if target.namespace and not resource.namespaced:
            raise no_such_path()
        if target.name and resource.namespaced and not target.namespace:
            raise no_such_path()
        if target.subresource and target.subresource not in resource.subresources:
            raise no_such_path()

    def _authorize(self, call: Call, verb: str) -> None:
        target = call.target
        name = target.name or (_selected_name(call) if verb in _OVER_MANY else "")
        asked = on_resource(verb, target.group, target.plural, target.subresource, target.namespace, name)
        self._authorizer.check(call.identity, asked)

    async def _answer(self, call: Call, verb: str, body: bytes) -> HttpReply:
        resource, target = call.resource, call.target
        if target.subresource:
            return await self._subresource(call, verb, body)
        if verb not in resource.verbs or (verb == "create" and resource.namespaced and not target.namespace):
            raise method_not_allowed()
        match verb:
            case "get":
                return get(self._kernel, call)
            case "list":
                return list_objects(self._kernel, call)
            case "watch":
                return watch(self._kernel, call)
            case "create":
                return await self._create(call, body)
            case "update":
                return await self._update(call, body, "")
            case "patch":
                obj, new = await patch(self._kernel, call, body, "")
                return self._stored_reply(call, obj, 201 if new else 200)
            case "delete":
                return await self._delete(call, body)
            case _:
                return await self._delete_collection(call, body)

    async def _create(self, call: Call, body: bytes) -> HttpReply:
        resource = call.resource
        known = self._templates.find(call, body) if is_pod(call) else None
        if isinstance(known, CachedPod):
            return object_reply(self._kernel, call, create_from_template(self._kernel, call, known), 201)
        obj = await off_loop_if_long(lambda: read_object(call, body), body, call.content_type)
        check_kind(call, obj, resource.group_version, resource.kind)
        if self._reviews.answers(resource):
            conform(call, obj)
            return json_reply(self._reviews.review(call, obj), 201)
        if resource.kind == "Binding" and not resource.group:
            return await self._bind(call, (obj.get("metadata") or {}).get("name", ""), obj)
        obj = await create(self._kernel, call, obj)
        if known is not None:
            self._templates.keep(call, known, obj)
        return self._stored_reply(call, obj, 201)

    async def _bind(self, call: Call, name: str, binding: Object) -> HttpReply:
        check_kind(call, binding, "v1", "Binding")
        _check_place(call, binding, name)
        binding = await admit(self._kernel, call, "Binding", binding)
        if call.resource.plural != "pods":
            pods = self._kernel.registry.find("", "v1", "pods")
            assert pods is not None, "pods are built in"
            call.resource = pods
        bind(self._kernel, call, name, binding)
        return HttpReply(201, _BOUND)

    async def _update(self, call: Call, body: bytes, subresource: str) -> HttpReply:
        resource = call.resource
        check_write(call.query, "UpdateOptions")
        obj = await off_loop_if_long(lambda: read_object(call, body), body, call.content_type)
        check_kind(call, obj, resource.group_version, resource.kind)
        if resource.create_on_update and not subresource and self._is_absent(call):
            _metadata(obj).pop("resourceVersion", None)
            return self._stored_reply(call, await create(self._kernel, call, obj), 201)
        # A body is used once; a lost race is the client's to repeat.
        return self._stored_reply(call, await update(self._kernel, call, lambda _: obj, subresource=subresource))

    def _stored_reply(self, call: Call, obj: Object, status: int = 200) -> HttpReply:
        """An object that was just written: its bytes are in the store already, unless nothing was stored."""
        meta = obj["metadata"]
        record = self._kernel.record(call.resource, meta.get("namespace", ""), meta["name"])
        if record is None or call.dry_run or str(record.revision) != meta.get("resourceVersion"):
            return object_reply(self._kernel, call, obj, status)
        return object_reply(self._kernel, call, record, status)

    def _is_absent(self, call: Call) -> bool:
        return self._kernel.record(call.resource, call.target.namespace, call.target.name) is None

    async def _delete(self, call: Call, body: bytes) -> HttpReply:
        options = parse_options(call.query, read_object(call, body, empty=True))
        obj, gone = await delete(self._kernel, call, options)
        if not gone or call.resource.returns_deleted:
            return object_reply(self._kernel, call, obj)
        return json_reply(_deleted(call, obj))

    async def _delete_collection(self, call: Call, body: bytes) -> HttpReply:
        options = parse_options(call.query, read_object(call, body, empty=True))
        chosen = selection(call)
        resource, target = call.resource, call.target
        records = [r for r in self._kernel.store.collection(resource.collection).after(None) if chosen.holds(r)]
        shown = []
        for record in records:
            one = Target(target.group, target.version, target.plural, record.namespace, record.name)
            try:
                obj, _ = await delete(self._kernel, Call(resource, one, call.query, call.identity), options)
            except ApiError as error:
                if error.code == 404:
                    continue
                raise
            shown.append(obj)
        kind = resource.list_kind or f"{resource.kind}List"
        meta = {"resourceVersion": str(self._kernel.store.revision)}
        return json_reply({"kind": kind, "apiVersion": resource.group_version, "metadata": meta, "items": shown})

    async def _subresource(self, call: Call, verb: str, body: bytes) -> HttpReply:
        kernel, target = self._kernel, call.target
        match target.subresource, verb:
            case "status", "get":
                return get(kernel, call)
            case "status" | "finalize" | "ephemeralcontainers" | "resize" | "approval", "update":
                return await self._update(call, body, target.subresource)
            case "status", "patch":
                obj, _ = await patch(kernel, call, body, "status")
                return self._stored_reply(call, obj)
            case "scale", _:
                return await self._scale(call, verb, body)
            case "binding", "create":
                return await self._bind(call, target.name, read_object(call, body))
            case "eviction", "create":
                eviction = read_object(call, body)
                _check_place(call, eviction, target.name, "name in URL does not match name in Eviction object")
                eviction = await admit(kernel, call, "Eviction", eviction)
                return json_reply(await evict(kernel, call, eviction), 201)
            case "token", "create":
                return json_reply(self._reviews.issue(call, of_type(read_object(call, body), _TOKEN_REQUEST)), 201)
            case "log", "get":
                return self._log(call)
            case _:
                raise method_not_allowed()

    async def _scale(self, call: Call, verb: str, body: bytes) -> HttpReply:
        kernel = self._kernel
        record = kernel.existing(call.resource, call.target.namespace, call.target.name)
        shown = scale_of(call, kernel.decode(record, call.resource))
        if verb == "get":
            return json_reply(shown)
        if verb == "update":
            return json_reply(await set_scale(kernel, call, read_object(call, body), retry=False))
        if verb == "patch":
            changed = transformation(call, media_type(call.content_type), read_patch(body))(shown)
            return json_reply(await set_scale(kernel, call, changed, retry=True))
        raise method_not_allowed()

    def _log(self, call: Call) -> HttpReply:
        """A simulated pod prints nothing; what it would have run is said instead."""
        pod = self._kernel.decode(
            self._kernel.existing(call.resource, call.target.namespace, call.target.name), call.resource
        )
        names = [one["name"] for one in pod["spec"].get("containers") or ()]
        wanted = call.query.get("container") or (names[0] if names else "")
        known = names + [one["name"] for one in pod["spec"].get("initContainers") or ()]
        if wanted not in known:
            raise bad_request(f"container {wanted} is not valid for pod {call.target.name}")
        node = pod["spec"].get("nodeName")
        if not node:
            return HttpReply(200, b"", content_type="text/plain")
        text = f"simulated container {wanted} of pod {call.target.name} on node {node}: it prints nothing\n"
        return HttpReply(200, text.encode(), content_type="text/plain")


def _selected_name(call: Call) -> str:
    """The one name that a list or watch is about, where its field selector says so."""
    try:
        return parse_fields(call.query.get("fieldSelector") or "").required("metadata.name") or ""
    except SelectorError:
        return ""


def _for_people(call: Call) -> bool:
    """Whether an answer is to have lines: by wish, else for the programs that people read with."""
    asked = call.query.get("pretty")
    return is_true(asked) if asked is not None else call.user_agent.startswith(_READERS)


def _verb(method: str, target: Target, query: dict[str, str]) -> str:
    match method:
        case "GET" | "HEAD":
            if is_true(query.get("watch")) and not target.subresource:
                return "watch"
            return "get" if target.name else "list"
        case "POST":
            if target.name and not target.subresource:
                raise method_not_allowed()
            return "create"
        case "PUT" if target.name:
            return "update"
        case "PATCH" if target.name:
            return "patch"
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case _:
            raise method_not_allowed()


def _check_place(call: Call, obj: Object, name: str, mismatch: str = "") -> None:
    """What is sent to a subresource of an object names that object, or nothing."""
    meta = _metadata(obj)
    meta["namespace"] = meta.get("namespace") or call.target.namespace
    if meta["namespace"] != call.target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["name"] = meta.get("name") or name
    if meta["name"] != name:
        words = f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        raise bad_request(mismatch or words)


def _metadata(obj: Object) -> dict[str, Any]:
    """The metadata of a body, made where there is none."""
    found = obj.get("metadata")
    if found is None:
        found = obj["metadata"] = {}
    if not isinstance(found, dict):
        raise bad_request(f"metadata: found {type(found).__name__}, expected an object")
    return found


def _deleted(call: Call, obj: Object) -> dict[str, Any]:
    meta = obj["metadata"]
    details = {"name": meta["name"], "kind": call.resource.plural, "uid": meta["uid"]}
    if call.resource.group:
        details["group"] = call.resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _bind_request(namespace: str, name: str, who: Identity, binding: Object | None) -> AdmissionRequest:
    return AdmissionRequest(
        *("", "CREATE", "", "v1", "Binding", "pods", "binding", namespace, name, who.name, who.groups), binding, None
    )
