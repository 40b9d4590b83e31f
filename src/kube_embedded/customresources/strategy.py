"""The rules of a custom kind, made from one version of its definition.

Metadata is the server's: it is neither checked nor stamped here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, invalid
from kube_embedded.base.resource import Column, Context
from kube_embedded.customresources.columns import Table
from kube_embedded.customresources.jsonpath import BadPath, JsonPath, parse, text_of
from kube_embedded.customresources.scale import Scale
from kube_embedded.schema.cel.rules import Rules
from kube_embedded.schema.defaulting import Defaulter, copied
from kube_embedded.schema.model import Raw, Schema
from kube_embedded.schema.objectmeta import has_embedded, validate_embedded
from kube_embedded.schema.structural import compile_structural
from kube_embedded.schema.validation.correlation import Correlation, same
from kube_embedded.schema.validation.listtype import UniqueLists
from kube_embedded.schema.validation.validate import Validator

_BLOCKING = {
    ErrorType.NOT_SUPPORTED,
    ErrorType.REQUIRED,
    ErrorType.TOO_LONG,
    ErrorType.TOO_MANY,
    ErrorType.TYPE_INVALID,
}
_UNCHECKED = invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CustomStrategy:
    """Defaulting, validation and printing of the objects of one version."""

    def __init__(self, group: str, kind: str, version: Mapping[str, Any]) -> None:
        raw: Raw = (version.get("schema") or {}).get("openAPIV3Schema") or _ANY_OBJECT
        subresources = version.get("subresources") or {}
        self.schema: Schema = compile_structural(raw)
        self._api_version = f"{group}/{version['name']}"
        self._kind = kind
        self._has_status = subresources.get("status") is not None
        self._scale = Scale.of(subresources.get("scale"))
        self._table = Table(version.get("additionalPrinterColumns") or ())
        self.columns: Sequence[Column] = self._table.columns
        self._validator = Validator(raw)
        status = raw.get("properties", {}).get("status")
        self._status_validator = Validator(status, "status") if status is not None else None
        self._defaulter = Defaulter(self.schema)
        self._lists = UniqueLists(self.schema)
        self._embedded = has_embedded(self.schema)
        self._rules = Rules.of(raw, self.schema)
        self._selectable = _selectable_paths(version.get("selectableFields") or ())

    def default(self, obj: Object) -> None:
        self._defaulter.apply(obj)

    def prepare_create(self, obj: Object, context: Context) -> None:
        if self._has_status:
            obj.pop("status", None)

    def prepare_update(self, obj: Object, old: Object, context: Context) -> None:
        if not self._has_status:
            return
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = copied(old["status"])

    def prepare_status_update(self, obj: Object, old: Object, context: Context) -> None:
        """Everything of the old object stays but the status, and who manages which field."""
        changed = {"status": obj["status"]} if "status" in obj else {}
        managed = (obj.get("metadata") or {}).get("managedFields")
        obj.clear()
        obj.update({key: copied(value) for key, value in old.items() if key != "status"}, **changed)
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def generation_changes(self, obj: Object, old: Object) -> bool:
        keys = (obj.keys() | old.keys()) - {"metadata", "apiVersion", "kind"}
        if self._has_status:
            keys.discard("status")
        return any(not same(obj.get(key), old.get(key)) or (key in obj) != (key in old) for key in keys)

    def validate_create(self, obj: Object) -> list[FieldError]:
        if errors := self._type_errors(obj):
            return errors
        errors = self._validator.validate(obj) + self._scale_errors(obj)
        if self._embedded:
            errors += validate_embedded(obj, self.schema)
        errors += self._lists.validate(obj)
        return errors + self._rule_errors(obj, None, errors)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if errors := self._type_errors(obj):
            return errors
        errors = self._validator.validate_update(obj, old, self.schema) + self._scale_errors(obj)
        if self._embedded:
            errors += validate_embedded(obj, self.schema)
        errors += self._list_errors(obj, old)
        return errors + self._rule_errors(obj, old, errors)

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        if errors := self._type_errors(obj):
            return errors
        if self._status_validator is not None and "status" in obj:
            status = self.schema.properties["status"]
            errors = self._status_validator.validate_update(obj["status"], old.get("status"), status)
        if self._scale is not None:
            errors += self._scale.status_errors(obj)
        errors += self._list_errors(obj, old)
        return errors + self._rule_errors(obj, old, errors)

    def row(self, obj: Object, context: Context) -> list[Any]:
        return self._table.row(obj, context)

    def selectable(self, obj: Object) -> dict[str, str]:
        found = {name: path.find(obj) for name, path in self._selectable}
        return {name: text_of(values[0]) if values and values[0] is not None else "" for name, values in found.items()}

    def _type_errors(self, obj: Object) -> list[FieldError]:
        wanted = (("kind", self._kind), ("apiVersion", self._api_version))
        return [invalid(key, obj.get(key, ""), f"must be {value}") for key, value in wanted if obj.get(key) != value]

    def _scale_errors(self, obj: Object) -> list[FieldError]:
        return self._scale.errors(obj) if self._scale is not None else []

    def _list_errors(self, obj: Object, old: Object) -> list[FieldError]:
        """Duplicates are refused unless there were some before."""
        errors = self._lists.validate(obj)
        return errors if errors and not self._lists.validate(old) else []

    def _rule_errors(self, obj: Object, old: Object | None, errors: list[FieldError]) -> list[FieldError]:
        if self._rules is None:
            return []
        if any(error.type in _BLOCKING for error in errors):
            return [_UNCHECKED]
        related = Correlation(old is not None, old, self.schema)
        return self._rules.validate(obj, old, related)


_ANY_OBJECT: Raw = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _selectable_paths(fields: Sequence[Mapping[str, str]]) -> tuple[tuple[str, JsonPath], ...]:
    paths = []
    for field in fields:
        try:
            paths.append((field["jsonPath"].removeprefix("."), parse(field["jsonPath"])))
        except BadPath:
            continue
    return tuple(paths)
