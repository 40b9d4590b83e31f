"""Finds, for each part of a new object, the part of the old one that it continues.

Only paths through properties, maps and lists with keys can be followed; parts of other lists are unrelated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kube_embedded.schema.model import ListType, Schema, Shape


@dataclass(frozen=True, slots=True)
class Correlation:
    """The old value at this place, if there is one, and the schema by which its parts are found."""

    present: bool
    old: Any = None
    schema: Schema | None = None

    def unchanged(self, new: Any) -> bool:
        return self.present and same(new, self.old)

    def key(self, name: str) -> Correlation:
        schema = self.schema
        if not self.present or schema is None or not isinstance(self.old, dict) or name not in self.old:
            return UNRELATED
        child = schema.properties.get(name, schema.additional)
        return Correlation(True, self.old[name], child) if child is not None else UNRELATED

    def index(self, new: Any) -> Correlation:
        """The old item with the keys of the new one."""
        schema = self.schema
        if not self.present or schema is None or schema.items is None:
            return UNRELATED
        found = old_item(self.old, schema, new)
        return Correlation(True, found, schema.items) if found is not None else UNRELATED


UNRELATED = Correlation(False)


def old_item(old: Any, schema: Schema, new: Any) -> Any:
    """The item of a list with keys that continues as `new`; None when there is none, or none can be told."""
    if schema.shape is not Shape.LIST or schema.list_type is not ListType.MAP:
        return None
    if not isinstance(old, list) or not isinstance(new, dict):
        return None
    keys = [(key, new.get(key)) for key in schema.list_keys]
    for item in old:
        if isinstance(item, dict) and all(same(item.get(key), value) for key, value in keys):
            return item
    return None


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values; true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)
