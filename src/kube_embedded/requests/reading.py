"""Get and list: bytes from the store where they can be passed on, other forms where a client asks for them."""

from __future__ import annotations

import base64
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from kube_apimachinery.admission import Object
from kube_apimachinery.selectors import SelectorError, parse_fields, parse_labels
from kube_embedded.base.errors import ApiError, bad_request, not_acceptable
from kube_embedded.base.http import HttpReply, decode_json, encode_json, json_reply
from kube_embedded.base.resource import Context, Resource
from kube_embedded.base.store import Expired, Key, Record
from kube_embedded.requests.kernel import Call, Kernel
from kube_embedded.requests.query_parameters import check_list, is_version, parse_int

# Which form of an answer a client wants, and objects in that form: an object, a table, only metadata; JSON or YAML.

_SUPPORTED = "application/json, application/yaml"


class Form(Enum):
    OBJECT = "object"
    TABLE = "table"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Wanted:
    form: Form = Form.OBJECT
    yaml: bool = False
    version: str = "v1"


@lru_cache(maxsize=512)
def negotiate(accept: str) -> Wanted:
    """The first form in the client's list that we can give; protobuf is passed over in favour of what follows it."""
    if not accept:
        return Wanted()
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        yaml = media == "application/yaml"
        if media not in ("application/json", "application/yaml", "*/*"):
            continue
        wanted = _form(options.get("as", ""), options.get("g", ""), options.get("v", ""), yaml)
        if wanted is not None:
            return wanted
    raise not_acceptable(f"only the following media types are accepted: {_SUPPORTED}")


def _form(kind: str, group: str, version: str, yaml: bool) -> Wanted | None:
    if not kind:
        return Wanted(Form.OBJECT, yaml)
    if group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if kind == "Table":
        return Wanted(Form.TABLE, yaml, version)
    if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return Wanted(Form.METADATA, yaml, version)
    return None


def column_definitions(resource: Resource) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in resource.strategy.columns
    ]


def metadata_only(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def row(resource: Resource, obj: Object, include: str, context: Context) -> dict[str, Any]:
    """One row; `include` is what the client wants beside the cells: None, Metadata or Object."""
    line: dict[str, Any] = {"cells": resource.strategy.row(obj, context)}
    conditions = _row_conditions(obj)
    if conditions:
        line["conditions"] = conditions
    if include == "Object":
        line["object"] = obj
    elif include != "None":
        line["object"] = metadata_only(obj)
    return line


def _row_conditions(obj: Object) -> list[dict[str, str]]:
    """A pod that has ended is marked, so that a client may hide it."""
    if obj.get("kind") != "Pod" or obj.get("apiVersion") != "v1":
        return []
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded":
        message = "The pod has completed successfully."
    elif phase == "Failed":
        message = "The pod failed."
    else:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def table(
    resource: Resource,
    objects: Iterable[Object],
    include: str,
    context: Context,
    meta: dict[str, Any],
    columns: bool = True,
) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": column_definitions(resource) if columns else None,
        "rows": [row(resource, obj, include, context) for obj in objects],
    }


NOW = -1
"""In a continue token: whatever the version is when it is used."""

Predicate = Callable[[Record], bool]

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)


def get(kernel: Kernel, call: Call) -> HttpReply:
    asked = call.query.get("resourceVersion", "")
    if is_version(asked) and int(asked) > kernel.store.revision:
        raise _too_large(int(asked), kernel.store.revision)
    record = kernel.existing(call.resource, call.target.namespace, call.target.name)
    return object_reply(kernel, call, record)


def object_reply(kernel: Kernel, call: Call, source: Record | Object, status: int = 200) -> HttpReply:
    """One object in the form the client wants."""
    wanted = negotiate(call.accept)
    resource = call.resource
    if isinstance(source, Record) and wanted.form is Form.OBJECT and not wanted.yaml and resource.is_stored:
        return HttpReply(status, source.body)
    obj = kernel.decode(source, resource) if isinstance(source, Record) else source
    if wanted.form is Form.TABLE and obj.get("kind") == resource.kind:
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        include = call.query.get("includeObject", "Metadata")
        return render(table(resource, [obj], include, kernel.context(), meta), wanted, status)
    if wanted.form is Form.METADATA:
        return render(metadata_only(obj), wanted, status)
    return render(obj, wanted, status)


def render(value: Any, wanted: Wanted, status: int = 200) -> HttpReply:
    if wanted.yaml:
        text = yaml.safe_dump(msgspec.json.decode(msgspec.json.encode(value)), sort_keys=False)
        return HttpReply(status, text.encode(), content_type="application/yaml")
    return json_reply(value, status)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection a list or watch is about."""

    namespace: str
    matches: Predicate | None
    """None: everything in the namespace."""

    def holds(self, record: Record) -> bool:
        if self.namespace and record.namespace != self.namespace:
            return False
        return self.matches is None or self.matches(record)


def selection(call: Call) -> Selection:
    """From the path and the two selectors of the query; a name in the path is a selector too."""
    tests: list[Predicate] = []
    try:
        labels = parse_labels(call.query.get("labelSelector") or "")
        fields = parse_fields(call.query.get("fieldSelector") or "")
    except SelectorError as error:
        raise bad_request(str(error)) from None
    if call.query.get("labelSelector"):
        tests.append(lambda record: labels.matches(record.labels))
    if call.query.get("fieldSelector"):
        _check_fields(call, fields.fields)
        tests.append(
            lambda record: fields.matches(
                {**record.fields, "metadata.name": record.name, "metadata.namespace": record.namespace}
            )
        )
    if call.target.name:
        name = call.target.name
        tests.append(lambda record: record.name == name)
    if not tests:
        return Selection(call.target.namespace, None)
    if len(tests) == 1:
        return Selection(call.target.namespace, tests[0])
    return Selection(call.target.namespace, lambda record: all(test(record) for test in tests))


def _check_fields(call: Call, names: Iterable[str]) -> None:
    resource = call.resource
    own = resource.strategy.selectable(defaultdict(dict))
    for name in names:
        if name in ("metadata.name", "metadata.namespace") or name in own:
            continue
        if not own and resource.builtin:
            known = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{name}" is not a known field selector: only {known}')
        if resource.kind == "Job":
            raise bad_request(f'field label "{name}" not supported for Job')
        raise bad_request(f"field label not supported: {name}")


def list_objects(kernel: Kernel, call: Call) -> HttpReply:
    """A page, or all, of the selected objects, at one version."""
    check_list(call.query)
    limit = _limit(call)
    records, version, remaining, last = _page(kernel, call, selection(call), limit)
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if last is not None:
        meta["continue"] = _continue_token(version, last)
        if remaining and not call.query.get("labelSelector") and not call.query.get("fieldSelector"):
            meta["remainingItemCount"] = remaining
    return _list_reply(kernel, call, records, meta)


def _list_reply(kernel: Kernel, call: Call, records: list[Record], meta: dict[str, Any]) -> HttpReply:
    resource, wanted = call.resource, negotiate(call.accept)
    if wanted.form is Form.OBJECT and not wanted.yaml and resource.is_stored:
        head = encode_json({"kind": resource.list_kind or f"{resource.kind}List", "apiVersion": resource.group_version})
        body = b"".join(
            (
                head[:-1],
                b',"metadata":',
                encode_json(meta),
                b',"items":[',
                b",".join(_items(resource, records)),
                b"]}",
            )
        )
        return HttpReply(200, body)
    objects: Iterable[Object] = (kernel.decode(record, resource) for record in records)
    if wanted.form is Form.TABLE:
        include = call.query.get("includeObject", "Metadata")
        return render(table(resource, objects, include, kernel.context(), meta), wanted)
    if wanted.form is Form.METADATA:
        items = [metadata_only(obj) for obj in objects]
        kind = "PartialObjectMetadataList"
        return render({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items}, wanted)
    kind = resource.list_kind or f"{resource.kind}List"
    if resource.builtin:
        objects = ({key: obj[key] for key in obj if key not in ("apiVersion", "kind")} for obj in objects)
    listed = {"kind": kind, "apiVersion": resource.group_version, "metadata": meta, "items": list(objects)}
    return render(listed, wanted)


def _items(resource: Resource, records: list[Record]) -> list[bytes]:
    """Items of a list do not repeat kind and version, except those of custom kinds."""
    if not resource.builtin:
        return [record.body for record in records]
    skipped = len(encode_json({"apiVersion": resource.group_version, "kind": resource.kind}))
    return [b"{" + record.body[skipped:] for record in records]


def _page(kernel: Kernel, call: Call, chosen: Selection, limit: int) -> tuple[list[Record], int, int, Key | None]:
    """Records, their version, how many are left, and the key to go on behind."""
    collection = kernel.store.collection(call.resource.collection)
    version, start = _start(kernel, call)
    try:
        if version == kernel.store.revision:
            source: Iterator[Record] = collection.after(start)
        else:
            source = (r for r in list(collection.at(version)) if start is None or r.key > start)
            source = iter(list(source))
    except Expired:
        raise _expired(start) from None
    held = (record for record in source if chosen.holds(record))
    if not limit:
        return list(held), version, 0, None
    page = list(itertools.islice(held, limit))
    rest = sum(1 for _ in held)
    return page, version, rest, page[-1].key if rest else None


def _expired(start: Key | None) -> ApiError:
    """A list of a forgotten moment; one that was begun may go on at the present one."""
    if start is None:
        return ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")
    error = ApiError(410, "Expired", _CONTINUE_EXPIRED)
    error.metadata = {"continue": _continue_token(NOW, start)}
    return error


def _start(kernel: Kernel, call: Call) -> tuple[int, Key | None]:
    token = call.query.get("continue")
    asked = call.query.get("resourceVersion")
    match = call.query.get("resourceVersionMatch")
    if token:
        if asked and asked != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _parse_token(token)
        return (kernel.store.revision if version == NOW else version), start
    if not asked:
        return kernel.store.revision, None
    if not is_version(asked):
        raise bad_request(f'Invalid value: "{asked}": strconv.ParseUint: parsing "{asked}": invalid syntax')
    version = int(asked)
    if version > kernel.store.revision:
        raise _too_large(version, kernel.store.revision)
    exact = match == "Exact" or (not match and _limit(call) and version > 0)
    return (version if exact else kernel.store.revision), None


def _too_large(asked: int, current: int) -> ApiError:
    message = f"Too large resource version: {asked}, current: {current}"
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", f"Timeout: {message}", details, (("Retry-After", "1"),))


def _limit(call: Call) -> int:
    return max(0, parse_int(call.query.get("limit")))


def _continue_token(version: int, key: Key) -> str:
    return base64.urlsafe_b64encode(encode_json({"v": "spinney/v1", "rv": version, "start": key})).rstrip(b"=").decode()


def _parse_token(token: str) -> tuple[int, Key]:
    try:
        value = decode_json(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = value["start"]
        return int(value["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("continue key is not valid: the token was not made by this server") from None
