"""JSON patch (RFC 6902) with the liberties that the real server takes.

They are why no library does this: replacing a member that is not there adds it, an absent value is null, a test of an
absent member against null holds, and negative indices count from the end.
"""

from __future__ import annotations

from typing import Any

from spinney.serve.apiserver.errors import ApiError, bad_request
from spinney.serve.apiserver.patch.values import copied, same
from spinney.serve.apiserver.patch.wording import json_type

Object = dict[str, Any]
Container = dict[str, Any] | list[Any]

MAX_OPERATIONS = 10_000
_OPERATION = "handlers.jsonPatchOp"


class _Inapplicable(Exception):
    """An operation that does not fit the document."""


def json_patch(obj: Object, operations: Any) -> Any:
    """A patched copy of the object; may be any JSON value where the patch replaces the whole of it.

    Raises ApiError: 400 for a malformed patch, 413 for one that is too long, 422 for one that does not apply.
    """
    _check(operations)
    document: Any = copied(obj)
    try:
        for operation in operations or ():
            document = _applied(document, operation)
    except _Inapplicable:
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, {}) from None
    return document


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


def _applied(document: Any, operation: Object) -> Any:
    path = operation.get("path")
    if path is None:
        raise _Inapplicable
    value = operation.get("value")
    match operation.get("op"):
        case "add":
            _add(*_locate(document, path), copied(value))
        case "remove":
            _remove(*_locate(document, path))
        case "replace" if path == "":
            return _replaced_whole(value)
        case "replace":
            _set(*_locate(document, path), copied(value))
        case "move":
            container, key = _locate(document, operation.get("from"))
            moved = _get(container, key)
            _remove(container, key)
            _add(*_locate(document, path), moved)
        case "copy":
            source = _get(*_locate(document, operation.get("from")))
            _add(*_locate(document, path), copied(source))
        case "test":
            found = document if path == "" else _get(*_locate(document, path))
            if not same(found, value):
                raise _Inapplicable
        case _:
            raise _Inapplicable
    return document


def _replaced_whole(value: Any) -> Any:
    if type(value) not in (dict, list):
        raise _Inapplicable
    return copied(value)


def _locate(document: Any, pointer: str | None) -> tuple[Container, str]:
    """The container that a pointer leads to, and the key in it."""
    tokens = (pointer or "").split("/")
    if len(tokens) < 2:
        raise _Inapplicable
    node = document
    for token in tokens[1:-1]:
        node = _get(node, _unescaped(token))
        if type(node) not in (dict, list):
            raise _Inapplicable
    return node, _unescaped(tokens[-1])


def _unescaped(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _index(key: str, length: int) -> int:
    """An index into a list of that length; negative ones count from its end."""
    try:
        index = int(key)
    except ValueError:
        raise _Inapplicable from None
    if not -length <= index < length:
        raise _Inapplicable
    return index if index >= 0 else index + length


def _get(container: Container, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _set(container: Container, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(key, len(container))] = value


def _add(container: Container, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.insert(len(container) if key == "-" else _index(key, len(container) + 1), value)


def _remove(container: Container, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _Inapplicable
