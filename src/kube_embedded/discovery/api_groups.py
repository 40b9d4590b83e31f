"""Discovery: which groups, versions and resources there are, in the aggregated and in the older form."""

from __future__ import annotations

import re
from typing import Any

from kube_embedded.base.resource import Registry, Resource

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
