"""The numbers behind the scale subresource of a custom resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid
from kube_embedded.base.resource import ScalePaths

_MAX_REPLICAS = 2**31 - 1
_GO_TYPES: dict[type, str] = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", int: "int64"}


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths as the definition spells them."""

    spec: str
    status: str
    selector: str = ""

    @staticmethod
    def of(definition: Mapping[str, str] | None) -> Scale | None:
        if definition is None:
            return None
        selector = definition.get("labelSelectorPath") or ""
        return Scale(definition["specReplicasPath"], definition["statusReplicasPath"], selector)

    def paths(self) -> ScalePaths:
        return ScalePaths(_keys(self.spec), _keys(self.status), _keys(self.selector) if self.selector else None)

    def errors(self, obj: Object) -> list[FieldError]:
        return _number_errors(obj, self.spec) + self.status_errors(obj)

    def status_errors(self, obj: Object) -> list[FieldError]:
        errors = _number_errors(obj, self.status)
        if self.selector:
            found = _at(obj, self.selector)
            if found is not None and not isinstance(found, str):
                errors.append(invalid(self.selector, "", _type_error(self.selector, found, "string")))
        return errors


def _keys(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _at(obj: Any, path: str) -> Any:
    for key in _keys(path):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def _number_errors(obj: Object, path: str) -> list[FieldError]:
    found = _at(obj, path)
    if found is None:
        return []
    if not isinstance(found, int) or isinstance(found, bool):
        return [invalid(path, 0, _type_error(path, found, "int64"))]
    if found < 0:
        return [invalid(path, found, "should be a non-negative integer")]
    if found > _MAX_REPLICAS:
        return [invalid(path, found, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _type_error(path: str, found: Any, expected: str) -> str:
    kind = _GO_TYPES.get(type(found), "map[string]interface {}")
    return f"{path} accessor error: {found} is of the type {kind}, expected {expected}"
