"""The life of a built-in kind, as a strategy put together from the functions of its module.

Only what differs between kinds is written per kind; dropping and keeping the status, bumping the generation and
checking the metadata are the same for all and live here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins import decode
from kube_embedded.builtins.common import metadata
from kube_embedded.builtins.common.printing import Table

Check = Callable[[Object], list[FieldError]]
CheckChange = Callable[[Object, Object], list[FieldError]]
Changed = Callable[[Object, Object], bool]

_IDENTITY = frozenset({"apiVersion", "kind", "metadata", "status"})


@dataclass(slots=True, eq=False)
class Rules:
    """A `Strategy` made of functions; what a kind does not need stays None."""

    component: str
    table: Table
    naming: metadata.Naming = metadata.SUBDOMAIN
    namespaced: bool = True
    defaults: Callable[[Object], None] | None = None
    on_create: Callable[[Object, Context], None] | None = None
    on_update: Callable[[Object, Object, Context], None] | None = None
    on_status_update: Callable[[Object, Object, Context], None] | None = None
    check: Check | None = None
    check_create: Check | None = None
    check_update: CheckChange | None = None
    check_status: CheckChange | None = None
    fields: Callable[[Object], dict[str, str]] | None = None
    bumps: Changed | None = None  # what raises metadata.generation; None: the kind has no generation
    has_status: bool = False
    wipes_status: bool = True  # a client may not bring a status when it creates
    updates_checked: bool = True  # an update must satisfy `check` as well

    @property
    def columns(self) -> Sequence[Column]:
        return self.table.columns

    def default(self, obj: Object) -> None:
        if self.defaults is not None:
            self.defaults(obj)

    def prepare_create(self, obj: Object, context: Context) -> None:
        if self.has_status and self.wipes_status:
            obj["status"] = empty_status(self.component)
        if self.bumps is not None:
            obj["metadata"]["generation"] = 1
        if self.on_create is not None:
            self.on_create(obj, context)

    def prepare_update(self, obj: Object, old: Object, context: Context) -> None:
        if self.has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        if self.on_update is not None:
            self.on_update(obj, old, context)

    def prepare_status_update(self, obj: Object, old: Object, context: Context) -> None:
        for key in obj.keys() - _IDENTITY:
            del obj[key]
        obj.update((key, value) for key, value in old.items() if key not in _IDENTITY)
        if self.on_status_update is not None:
            self.on_status_update(obj, old, context)

    def generation_changes(self, obj: Object, old: Object) -> bool:
        return self.bumps is not None and self.bumps(obj, old)

    def validate_create(self, obj: Object) -> list[FieldError]:
        errors = metadata.validate_metadata(obj, self.namespaced, self.naming)
        if self.check is not None:
            errors += self.check(obj)
        if self.check_create is not None:
            errors += self.check_create(obj)
        return errors

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        errors = metadata.validate_metadata_update(obj, old, self.namespaced, self.naming)
        if self.check is not None and self.updates_checked:
            errors += self.check(obj)
        if self.check_update is not None:
            errors += self.check_update(obj, old)
        return errors

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        errors = metadata.validate_metadata_update(obj, old, self.namespaced, self.naming)
        if self.check_status is not None:
            errors += self.check_status(obj, old)
        return errors

    def row(self, obj: Object, context: Context) -> list[Any]:
        return self.table.row(obj, context)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {} if self.fields is None else self.fields(obj)


@cache
def _status_node(component: str) -> decode.Node:
    return decode.node_of(component).fields["status"].node


def empty_status(component: str) -> Any:
    """The status that Go writes for an object nobody has reported on yet."""
    return _status_node(component).zero()


def spec_changed(obj: Object, old: Object) -> bool:
    return bool(obj.get("spec") != old.get("spec"))


def keep_metadata(obj: Object, old: Object, *names: str) -> None:
    """Take these metadata fields from the old object, as some status updates must."""
    new_meta, old_meta = obj["metadata"], old["metadata"]
    for name in names:
        if name in old_meta:
            new_meta[name] = old_meta[name]
        else:
            new_meta.pop(name, None)
