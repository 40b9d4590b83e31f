"""From a definition to what the server serves: one resource for each served version, and conversion between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.resource import Resource
from kube_embedded.customresources.scale import Scale
from kube_embedded.customresources.strategy import CustomStrategy

Converter = Callable[[Object, str], Object]
"""An object and the apiVersion it shall have, to the object in that version. It must not change the one given."""


def resources(crd: Mapping[str, Any]) -> list[Resource]:
    """The served resources of an established definition, in the order of its versions."""
    spec = crd["spec"]
    storage = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    return [_resource(spec, version, storage) for version in spec["versions"] if version.get("served")]


def converter(crd: Mapping[str, Any], converters: Mapping[tuple[str, str], Converter]) -> Converter:
    """How objects of this definition change their version: by the converter of its group and kind, or by name only."""
    spec = crd["spec"]
    return converters.get((spec["group"], spec["names"]["kind"]), rename)


def rename(obj: Object, api_version: str) -> Object:
    """The conversion `None`: the fields stay as they are."""
    return {**obj, "apiVersion": api_version}


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> Resource:
    group, names, name = spec["group"], spec["names"], version["name"]
    subresources = version.get("subresources") or {}
    scale = Scale.of(subresources.get("scale"))
    strategy = _strategy(group, names["kind"], version)
    return Resource(
        group=group,
        version=name,
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        schema=strategy.schema,
        strategy=strategy,
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(key for key in ("status", "scale") if subresources.get(key) is not None),
        scale=scale.paths() if scale is not None else None,
        schema_name=_component(group, name, names["kind"]),
        storage_version=storage,
        builtin=False,
        plain_metadata=True,
        unconditional_update=False,
        deprecated=_deprecation(spec, version),
    )


def _strategy(group: str, kind: str, version: Mapping[str, Any]) -> CustomStrategy:
    """Equal definitions have one strategy in a process: to make one compiles the schema and its rules."""
    return _compiled(json.dumps([group, kind, version]))


@lru_cache(maxsize=64)
def _compiled(content: str) -> CustomStrategy:
    return CustomStrategy(*json.loads(content))


def _component(group: str, version: str, kind: str) -> str:
    """The name in the OpenAPI document: the group reversed, as Java writes packages."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    given = version.get("deprecationWarning")
    return given or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
