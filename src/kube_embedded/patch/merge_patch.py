"""JSON merge patch (RFC 7386): maps are merged, null deletes, everything else replaces."""

from __future__ import annotations

from typing import Any

from kube_embedded.base.errors import bad_request
from kube_embedded.patch.go_wording import json_type
from kube_embedded.patch.json_values import without_nulls

Object = dict[str, Any]


def merge_patch(obj: Object, patch: Any) -> Object:
    """A patched copy, which shares with the object what the patch does not touch.

    Raises ApiError 400 for a patch that is no object.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if type(patch) is not dict:
        found = json_type(patch)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return _merged(obj, patch)


def _merged(target: Object, patch: Object) -> Object:
    merged = dict(target)
    for name, value in patch.items():
        before = target.get(name)
        if value is None:
            merged.pop(name, None)
        elif type(value) is dict and type(before) is dict:
            merged[name] = _merged(before, value)
        else:
            merged[name] = without_nulls(value)
    return merged
