"""The table of a custom resource: its name, then the columns of its definition, or else its age."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.printing import human_duration, seconds
from kube_embedded.customresources.jsonpath import BadPath, JsonPath, parse, text_of

_NAME = Column(
    "Name",
    "string",
    "name",
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_AGE: dict[str, Any] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "CreationTimestamp is a timestamp representing the server time when this object was created. It is "
    "not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It "
    "is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
}


class Table:
    """Columns and rows. A column whose path cannot be read ends the table, as it does in Kubernetes."""

    def __init__(self, definitions: Sequence[dict[str, Any]]) -> None:
        columns, paths = [_NAME], []
        for definition in definitions or [_AGE]:
            try:
                paths.append(parse(definition["jsonPath"]))
            except BadPath:
                break
            columns.append(_column(definition))
        self.columns: tuple[Column, ...] = tuple(columns)
        self._paths: tuple[JsonPath, ...] = tuple(paths)

    def row(self, obj: Object, context: Context) -> list[Any]:
        cells: list[Any] = [obj["metadata"]["name"]]
        for column, path in zip(self.columns[1:], self._paths, strict=True):
            found = path.find(obj)
            cells.append(_cell(column.type, found[0], context) if found else None)
        return cells


def _column(definition: dict[str, Any]) -> Column:
    path = definition["jsonPath"]
    described = definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    kind, form = definition.get("type", "string"), definition.get("format", "")
    return Column(definition["name"], kind, form, described, definition.get("priority", 0))


def _cell(kind: str, value: Any, context: Context) -> Any:
    match kind:
        case "string":
            return text_of(value)
        case "integer" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _age(value, context)
        case _:
            return None


def _age(stamp: str, context: Context) -> str:
    if not stamp or stamp == "null":
        return "<unknown>"
    try:
        return human_duration(context.now_s - seconds(stamp))
    except ValueError:
        return "<invalid>"
