"""JSON patch (RFC 6902) with the liberties, and the texts, of the real server, which clients read in its refusals.

They are why no library does this: replacing a member that is not there adds it, an absent value is null, a test of an
absent member against null holds, and negative indices count from the end. The document given is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any

import msgspec

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import ApiError, bad_request

_NESTED = (dict, list)


def copied(value: Any) -> Any:
    """A deep copy."""
    if type(value) is dict:
        return {name: copied(entry) if type(entry) in _NESTED else entry for name, entry in value.items()}
    return [copied(item) for item in value] if type(value) is list else value


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values, to which a number is never a boolean and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if type(left) is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def without_nulls(value: Any) -> Any:
    """The value without entries that are null, at any depth; nulls in lists stay."""
    if type(value) is dict:
        return {name: without_nulls(entry) for name, entry in value.items() if entry is not None}
    return [without_nulls(item) for item in value] if type(value) is list else value


def shown(value: Any) -> str:
    """A value as Go prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{shown(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(shown(item) for item in value) + "]"
        case _:
            return str(value)


def quoted(value: Any) -> str:
    """A value as Go writes it in source."""
    match value:
        case str():
            return str(encode_basestring(value))
        case dict():
            return (
                go_type(value)
                + "{"
                + ", ".join(f"{quoted(name)}:{quoted(value[name])}" for name in sorted(value))
                + "}"
            )
        case list():
            return go_type(value) + "{" + ", ".join(quoted(item) for item in value) + "}"
        case _:
            return shown(value)


def json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case _:
            return "number"


def go_type(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case str():
            return "string"
        case float():
            return "float64"
        case _:
            return "int64"


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


_MISSING = "missing value"
_BAD_INDEX = "invalid index referenced"


class PatchFailed(Exception):
    """The patch does not apply; the text is Kubernetes'."""


def apply_operations(document: Any, operations: Sequence[dict[str, Any]]) -> Any:
    """The patched document; all operations or none."""
    holder = {"": msgspec.json.decode(msgspec.json.encode(document))}
    for operation in operations:
        verb = _VERBS.get(operation.get("op", "unknown"))
        if verb is None:
            raise PatchFailed(f"Unexpected kind: {operation.get('op', 'unknown')}")
        verb(holder, operation)
    return holder[""]


def _add(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _path(operation, "path", f"add operation failed to decode path: {_MISSING}")
    found = _find(holder, path)
    if found is None:
        raise PatchFailed(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _within(f"error in add for path: '{path}'", _insert, *found, copied(operation.get("value")))


def _remove(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _path(operation, "path", f"remove operation failed to decode path: {_MISSING}")
    found = _find(holder, path)
    if found is None:
        raise PatchFailed(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _within(f"error in remove for path: '{path}'", _delete, *found)


def _replace(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _path(
        operation, "path", f"replace operation failed to decode path: operation missing path field: {_MISSING}"
    )
    if path == "":
        holder[""] = _whole(operation.get("value"))
        return
    found = _find(holder, path)
    if found is None:
        raise PatchFailed(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    container, key = found
    try:
        _get(container, key)
    except PatchFailed as error:
        raise PatchFailed(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from error
    _set(container, key, copied(operation.get("value")))


def _whole(value: Any) -> Any:
    if not isinstance(value, dict | list):
        raise PatchFailed("replace operation value must be object or array")
    return copied(value)


def _move(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    source = _path(
        operation, "from", f"move operation failed to decode from: operation, missing from field: {_MISSING}"
    )
    found = _find(holder, source)
    if found is None:
        raise PatchFailed(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    value = _within(f"error in move for path: '{found[1]}'", _get, *found)
    _within(f"error in move for path: '{found[1]}'", _delete, *found)
    path = _path(operation, "path", f"move operation failed to decode path: operation missing path field: {_MISSING}")
    destination = _find(holder, path)
    if destination is None:
        raise PatchFailed(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    _within(f"error in move for path: '{path}'", _insert, *destination, value)


def _copy(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    source = _path(
        operation, "from", f"copy operation failed to decode from: operation, missing from field: {_MISSING}"
    )
    found = _find(holder, source)
    if found is None:
        raise PatchFailed(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
    value = _within(f"error in copy for from: '{source}'", _get, *found)
    path = _path(operation, "path", f"copy operation failed to decode path: {_MISSING}")
    destination = _find(holder, path)
    if destination is None:
        raise PatchFailed(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    fresh = msgspec.json.decode(msgspec.json.encode(value))
    _within("error while adding value during copy", _insert, *destination, fresh)


def _test(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _path(operation, "path", f"test operation failed to decode path: operation missing path field: {_MISSING}")
    found = _find(holder, path)
    if path == "":
        value = holder[""]
    elif found is None:
        raise PatchFailed(f"test operation does not apply: is missing path: {path}: {_MISSING}")
    else:
        value = _within(f"error in test for path: '{path}'", _get, *found)
    if not same(value, operation.get("value")):
        raise PatchFailed(f"testing value {path} failed: test failed")


_VERBS: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _path(operation: dict[str, Any], field: str, complaint: str) -> str:
    path = operation.get(field)
    if not isinstance(path, str):
        raise PatchFailed(complaint)
    return path


def _find(holder: dict[str, Any], path: str) -> tuple[Any, str] | None:
    """The container that the last step of the path is in, and that step; None where a step before is missing.

    The whole document is in no container: it can be replaced and tested, nothing else.
    """
    if "/" not in path:
        return None
    container: Any = holder[""]
    *before, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]] or [""]
    for part in before:
        try:
            container = _get(container, part)
        except PatchFailed:
            return None
    return (container, last) if isinstance(container, dict | list) else None


def _get(container: Any, key: str) -> Any:
    if isinstance(container, list):
        return container[_index(key, len(container))]
    return container.get(key) if isinstance(container, dict) else None


def _set(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(key, len(container))] = value


def _insert(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1, adding=True), value)


def _delete(container: Any, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise PatchFailed(f"Unable to remove nonexistent key: {key}: {_MISSING}")


def _index(key: str, size: int, *, adding: bool = False) -> int:
    """A position in a list; negative ones count from the end, as the API server has it."""
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()):
        complaint = f'strconv.Atoi: parsing "{key}": invalid syntax'
        raise PatchFailed(f"value was not a proper array index: '{key}': {complaint}" if adding else complaint)
    index = int(key)
    if not -size <= index < size:
        raise PatchFailed(f"Unable to access invalid index: {index}: {_BAD_INDEX}")
    return index + size if index < 0 else index


def _within(context: str, step: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return step(*arguments)
    except PatchFailed as error:
        raise PatchFailed(f"{context}: {error}") from error
