"""Does the metadata of a custom object, and of objects embedded in it, have the types that Kubernetes gives it?

Unknown fields are no concern here: they are pruned before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import invalid
from kube_embedded.builtins import decode
from kube_embedded.schema.defaulting import copied
from kube_embedded.schema.model import Schema
from kube_embedded.schema.objectmeta import has_embedded

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GO_NAMES: dict[type, str] = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}
_holds_objects = lru_cache(maxsize=1024)(has_embedded)


def metadata_error(obj: Object, schema: Schema, original: Object | None = None) -> str:
    """The first complaint of the decoder about metadata, or nothing. The object is not changed.

    `original`: a stored object some of whose parts it has; those need no second look.
    """
    if complaint := _complaint(_news(obj.get("metadata"), original)):
        return complaint
    return next(_embedded(obj, schema, ""), "") if _holds_objects(schema) else ""


def _news(metadata: Any, original: Object | None) -> Any:
    """Metadata without what it has from a stored object."""
    if original is None or not isinstance(metadata, dict):
        return metadata
    known = original["metadata"]
    return {key: value for key, value in metadata.items() if value is not known.get(key)}


def _complaint(metadata: Any) -> str:
    if metadata is None:
        return ""
    if not isinstance(metadata, dict):
        return f"json: cannot unmarshal {_GO_NAMES.get(type(metadata), 'object')} into Go value of type v1.ObjectMeta"
    errors = decode.conform(copied(metadata), _OBJECT_META).errors
    return errors[0] if errors else ""


def _embedded(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list) and schema.items is not None:
        for index, child in enumerate(value):
            yield from _embedded(child, schema.items, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    if schema.embedded:
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key, ""), str):
                yield str(invalid(f"{path}.{key}", value[key], "must be a string"))
        if complaint := _complaint(value.get("metadata")):
            yield str(invalid(f"{path}.metadata", value["metadata"], complaint))
    for key, child in value.items():
        if (known := schema.properties.get(key)) is not None:
            yield from _embedded(child, known, f"{path}.{key}" if path else key)
        elif schema.additional is not None:
            yield from _embedded(child, schema.additional, f"{path}[{key}]")
