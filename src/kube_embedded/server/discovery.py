"""Paths that are no resources: which groups, versions and resources there are, schemas, health and version.

Discovery is answered in the aggregated and in the older form.
"""

from __future__ import annotations

import re
from typing import Any

from kube_embedded.base.errors import NoSuchPath, method_not_allowed, no_such_path
from kube_embedded.base.http import HttpReply, json_reply
from kube_embedded.base.resource import Registry, Resource
from kube_embedded.server.openapi import V2_PROTOBUF, Documents, document_v2, document_v2_protobuf

AGGREGATED_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SCALE = ("autoscaling", "v1", "Scale")
_SUBRESOURCE_KINDS: dict[str, tuple[str, str, str]] = {
    "scale": _SCALE,
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_SUBRESOURCE_VERBS: dict[str, tuple[str, ...]] = {
    "binding": ("create",),
    "eviction": ("create",),
    "token": ("create",),
    "log": ("get",),
    "finalize": ("update",),
}
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sorts the version that clients should use first to the front (with `reverse`): GA, then beta, then alpha."""
    match = _VERSION.match(version)
    if match is None:
        return (-1, 0, 0, version)
    return (_STABILITY[match[2]], int(match[1]), int(match[3] or 0), "")


def _versions(registry: Registry, group: str) -> list[str]:
    return sorted(registry.groups().get(group, []), key=version_priority, reverse=True)


def _of(registry: Registry, group: str, version: str) -> list[Resource]:
    found = [r for r in registry.all() if r.group == group and r.version == version]
    return sorted(found, key=lambda resource: resource.plural)


def api_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups(registry: Registry) -> dict[str, Any]:
    groups = [api_group(registry, name) for name in sorted(registry.groups()) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, group: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in _versions(registry, group)]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def api_resources(registry: Registry, group: str, version: str) -> dict[str, Any]:
    """The older form: one flat list with the subresources in it."""
    lines: list[dict[str, Any]] = []
    for resource in _of(registry, group, version):
        line: dict[str, Any] = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            line["shortNames"] = list(resource.short_names)
        if resource.categories:
            line["categories"] = list(resource.categories)
        lines.append(line)
        lines.extend(_subresource_line(resource, name) for name in resource.subresources)
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": lines}


def _subresource_line(resource: Resource, name: str) -> dict[str, Any]:
    line: dict[str, Any] = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(_SUBRESOURCE_VERBS.get(name, ("get", "patch", "update"))),
    }
    if name in _SUBRESOURCE_KINDS:
        line["group"], line["version"], line["kind"] = _SUBRESOURCE_KINDS[name]
        if not line["group"]:
            del line["group"], line["version"]
    return line


def aggregated(registry: Registry, core: bool) -> dict[str, Any]:
    """Everything below /api or /apis in one document."""
    names = [""] if core else sorted(name for name in registry.groups() if name)
    items = []
    for name in names:
        versions = [
            {
                "version": version,
                "resources": [_aggregated_line(resource) for resource in _of(registry, name, version)],
                "freshness": "Current",
            }
            for version in _versions(registry, name)
        ]
        meta: dict[str, Any] = {"creationTimestamp": None}
        if name:
            meta["name"] = name
        items.append({"metadata": meta, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_line(resource: Resource) -> dict[str, Any]:
    line: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        line["shortNames"] = list(resource.short_names)
    if resource.categories:
        line["categories"] = list(resource.categories)
    if resource.subresources:
        line["subresources"] = [
            {
                "subresource": name,
                "responseKind": _kind(*_SUBRESOURCE_KINDS.get(name, (resource.group, resource.version, resource.kind))),
                "verbs": list(_SUBRESOURCE_VERBS.get(name, ("get", "patch", "update"))),
            }
            for name in resource.subresources
        ]
    return line


VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+spinney",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "python",
}
_HEALTH = ("/healthz", "/livez", "/readyz")


class NonResourcePaths:
    """What the registry says about itself; whether somebody may read it is asked elsewhere."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents = Documents(registry)

    def answer(self, method: str, path: str, accept: str) -> HttpReply:
        """The page, or the refusal that a real server gives for a path that is none."""
        if method not in ("GET", "HEAD"):
            raise method_not_allowed() if self._document(path, "") is not None else NoSuchPath()
        if path in _HEALTH or path.startswith(tuple(f"{one}/" for one in _HEALTH)):
            return HttpReply(200, b"ok", content_type="text/plain; charset=utf-8")
        found = self._document(path, accept)
        if found is None:
            parts = path.split("/")
            known = len(parts) == 4 and parts[1] == "apis" and parts[2] in self._registry.groups()
            raise no_such_path() if known else NoSuchPath()
        return found

    def _document(self, path: str, accept: str) -> HttpReply | None:
        registry = self._registry
        if path in ("/api", "/apis"):
            core = path == "/api"
            if "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
                reply = json_reply(aggregated(registry, core))
                reply.content_type = AGGREGATED_V2
                return reply
            return json_reply(api_versions() if core else api_groups(registry))
        if path == "/version":
            return json_reply(VERSION)
        if path == "/openapi/v2":
            if "proto-openapi" in accept:
                return HttpReply(200, document_v2_protobuf(VERSION["gitVersion"]), content_type=V2_PROTOBUF)
            return json_reply(document_v2(VERSION["gitVersion"]))
        if path == "/openapi/v3":
            return json_reply(self._documents.index())
        if path.startswith("/openapi/v3/"):
            body = self._documents.document(path.removeprefix("/openapi/v3/"))
            return HttpReply(200, body) if body is not None else None
        return self._group(path)

    def _paths(self) -> list[str]:
        found = {"/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"}
        for group, versions in self._registry.groups().items():
            root = f"/apis/{group}" if group else "/api"
            found |= {root, *(f"{root}/{version}" for version in versions)}
        return sorted(found)

    def _group(self, path: str) -> HttpReply | None:
        registry = self._registry
        match path.split("/"):
            case ["", "api", version]:
                group = ""
            case ["", "apis", group]:
                known = group in registry.groups() and group
                return json_reply(api_group(registry, group)) if known else None
            case ["", "apis", group, version]:
                pass
            case ["", ""]:
                return json_reply({"paths": self._paths()})
            case _:
                return None
        if version not in registry.groups().get(group, ()):
            return None
        return json_reply(api_resources(registry, group, version))
