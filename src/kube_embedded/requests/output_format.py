"""Which form of an answer a client wants, and objects in that form: an object, a table, only metadata; JSON or YAML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import not_acceptable
from kube_embedded.base.resource import Context, Resource

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
