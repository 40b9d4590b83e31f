"""OpenAPI v3 documents, one per group and version, for clients that validate or explain."""

from __future__ import annotations

import hashlib
from typing import Any

from kube_embedded.base.http import encode_json
from kube_embedded.base.resource import Registry, Resource
from kube_embedded.builtins import snapshot

_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def document_v2(version: str) -> dict[str, Any]:
    """OpenAPI v2 without any kind: clients that look one up find none, and go on as with a kind they do not know.

    kubectl asks for it where v3 has no answer: for kinds that are not served, and for a `kind: List`.
    """
    return {"swagger": "2.0", "info": {"title": "Kubernetes", "version": version}, "paths": {}, "definitions": {}}


def document_v2_protobuf(version: str) -> bytes:
    """The same as a message: 1 is the version of OpenAPI, 2 the title and the version of the server, 8 no paths."""
    info = _text(1, "Kubernetes") + _text(2, version)
    return _text(1, "2.0") + bytes((2 << 3 | 2, len(info))) + info + bytes((8 << 3 | 2, 0))


def _text(number: int, text: str) -> bytes:
    raw = text.encode()
    return bytes((number << 3 | 2, len(raw))) + raw


class Documents:
    """Built on demand and kept until the registry changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._bodies: dict[str, bytes] = {}

    def index(self) -> dict[str, Any]:
        paths = {}
        for group, versions in sorted(self._registry.groups().items()):
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path)}"}
        return {"paths": paths}

    def document(self, path: str) -> bytes | None:
        """The document of `api/v1` or `apis/GROUP/VERSION`, or None."""
        if self._generation != self._registry.generation:
            self._bodies.clear()
            self._generation = self._registry.generation
        found = self._bodies.get(path)
        if found is None:
            resources = self._resources(path)
            if not resources:
                return None
            found = self._bodies[path] = encode_json(_document(resources))
        return found

    def _hash(self, path: str) -> str:
        return hashlib.sha256(self.document(path) or b"").hexdigest()[:32].upper()

    def _resources(self, path: str) -> list[Resource]:
        parts = path.split("/")
        group = parts[1] if len(parts) == 3 and parts[0] == "apis" else ""
        if not group and not (len(parts) == 2 and parts[0] == "api"):
            return []
        return [r for r in self._registry.all() if r.group == group and r.version == parts[-1]]


def schema_name(resource: Resource) -> str:
    """The component under which a kind stands: reversed group, version, kind."""
    if resource.schema_name:
        return resource.schema_name
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _document(resources: list[Resource]) -> dict[str, Any]:
    names = [schema_name(resource) for resource in resources if resource.builtin]
    schemas = _closure([*names, _META])
    paths: dict[str, Any] = {}
    for resource in resources:
        name = schema_name(resource)
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schema = dict(schemas.get(name, resource.schema.raw))
        if not resource.builtin:
            schema = _with_metadata(schema)
        schema["x-kubernetes-group-version-kind"] = [kind]
        schemas[name] = schema
        paths.update(_paths(resource, name, kind))
    first = resources[0]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": first.group_version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _closure(names: list[str]) -> dict[str, Any]:
    """The named components and all that they refer to."""
    known = snapshot.components()
    found: dict[str, Any] = {}
    due = list(names)
    while due:
        name = due.pop()
        if name in found or name not in known:
            continue
        found[name] = known[name]
        due.extend(_references(known[name]))
    return dict(sorted(found.items()))


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [str(value["$ref"]).removeprefix(_REF)] if isinstance(value.get("$ref"), str) else []
        return own + [name for child in value.values() for name in _references(child)]
    if isinstance(value, list):
        return [name for child in value for name in _references(child)]
    return []


def _with_metadata(schema: dict[str, Any]) -> dict[str, Any]:
    properties = dict(schema.get("properties", {}))
    properties.setdefault("apiVersion", {"type": "string", "description": "Version of the schema of this object."})
    properties.setdefault("kind", {"type": "string", "description": "Kind of this object."})
    properties["metadata"] = {"allOf": [{"$ref": f"#/components/schemas/{_META}"}], "description": "Standard metadata."}
    return {**schema, "type": "object", "properties": properties}


def _paths(resource: Resource, name: str, kind: dict[str, str]) -> dict[str, Any]:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    space = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{base}{space}/{resource.plural}"
    reference = {"$ref": f"#/components/schemas/{name}"}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}
    parameters = [{"name": key, "in": "query", "schema": {"type": "string"}} for key in _QUERY]

    def operation(action: str, with_body: bool) -> dict[str, Any]:
        made: dict[str, Any] = {
            "operationId": f"{action}{kind['group'].replace('.', '')}{kind['version']}{kind['kind']}",
            "responses": answer,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        }
        if with_body:
            made["parameters"] = parameters
            made["requestBody"] = {"content": {"application/json": {"schema": reference}}, "required": True}
        return made

    paths: dict[str, Any] = {}
    if "list" in resource.verbs or "create" in resource.verbs:
        paths[collection] = {"get": operation("list", False), "post": operation("post", True)}
    if "get" in resource.verbs:
        paths[collection + "/{name}"] = {
            "get": operation("get", False),
            "put": operation("put", True),
            "patch": operation("patch", True),
            "delete": operation("delete", False),
        }
    return paths
