"""The rules of the kind CustomResourceDefinition itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError
from kube_embedded.base.resource import Column, Context
from kube_embedded.customresources.definition import (
    default_definition,
    validate_definition,
    validate_definition_update,
)
from kube_embedded.customresources.definition_status import stored_versions
from kube_embedded.schema.defaulting import copied
from kube_embedded.schema.validation.correlation import same


class DefinitionStrategy:
    """Validates definitions; accepting their names and serving what they define is the work of the server."""

    columns: Sequence[Column] = (Column("Name", "string", "name"), Column("Created At", "date"))

    def default(self, obj: Object) -> None:
        default_definition(obj)

    def prepare_create(self, obj: Object, context: Context) -> None:
        """Nothing is accepted yet; what will be stored first is known."""
        obj.pop("status", None)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored_versions({"spec": {"versions": _versions(obj)}}),
        }

    def prepare_update(self, obj: Object, old: Object, context: Context) -> None:
        obj["status"] = copied(old.get("status") or {})
        obj["status"]["storedVersions"] = stored_versions({"spec": {"versions": _versions(obj)}, **_status(obj)})

    def prepare_status_update(self, obj: Object, old: Object, context: Context) -> None:
        status = obj.get("status")
        managed = (obj.get("metadata") or {}).get("managedFields")
        obj.clear()
        obj.update({key: copied(value) for key, value in old.items() if key != "status"}, status=status or {})
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def generation_changes(self, obj: Object, old: Object) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def validate_create(self, obj: Object) -> list[FieldError]:
        return validate_definition(obj)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return validate_definition_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        return []

    def row(self, obj: Object, context: Context) -> list[Any]:
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]

    def selectable(self, obj: Object) -> dict[str, str]:
        return {}


def _versions(obj: Object) -> list[Object]:
    return list((obj.get("spec") or {}).get("versions") or ())


def _status(obj: Object) -> Object:
    return {"status": obj["status"]}
