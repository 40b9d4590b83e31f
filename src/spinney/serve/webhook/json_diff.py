"""From one JSON value to another as a JSON patch (RFC 6902): members one by one, lists of another length as a whole."""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def differences(before: Any, after: Any) -> list[Operation]:
    """The operations, parents before children; none where both are the same."""
    found: list[Operation] = []
    _compare(before, after, "", found)
    return found


def _compare(before: Any, after: Any, path: str, found: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
        for key, value in after.items():
            where = f"{path}/{_escaped(key)}"
            if key not in before:
                found.append({"op": "add", "path": where, "value": value})
            else:
                _compare(before[key], value, where, found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, f"{path}/{index}", found)
    elif type(before) is not type(after) or before != after:
        found.append({"op": "replace", "path": path, "value": after})


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
