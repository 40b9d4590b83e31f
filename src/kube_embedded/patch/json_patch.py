"""JSON patch as a request to change an object: checked, limited, and refused in the words of the real server."""

from __future__ import annotations

from typing import Any

from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.patch.go_wording import json_type
from kube_embedded.patch.operations import PatchFailed, apply_operations

Object = dict[str, Any]

MAX_OPERATIONS = 10_000
_OPERATION = "handlers.jsonPatchOp"


def json_patch(obj: Object, operations: Any) -> Any:
    """A patched copy of the object; may be any JSON value where the patch replaces the whole of it.

    Raises ApiError: 400 for a malformed patch, 413 for one that is too long, 422 for one that does not apply.
    """
    _check(operations)
    try:
        return apply_operations(obj, operations or ())
    except PatchFailed:
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, {}) from None


def _check(operations: Any) -> None:
    if operations is not None and type(operations) is not list:
        raise _undecodable(operations, f"value of type []{_OPERATION}")
    for operation in operations or ():
        if type(operation) is not dict:
            raise _undecodable(operation, f"value of type {_OPERATION}")
        for name in ("op", "path", "from"):
            if name in operation and type(operation[name]) not in (str, type(None)):
                raise _undecodable(operation[name], f"struct field jsonPatchOp.{name} of type string")
    count = len(operations or ())
    if count > MAX_OPERATIONS:
        why = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def _undecodable(value: Any, target: str) -> ApiError:
    return bad_request(f"error decoding patch: json: cannot unmarshal {json_type(value)} into Go {target}")
