"""Tables, as `kubectl get` asks for them, and metadata-only objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spinney.serve.apiserver.resource import Context, Object, Resource


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
