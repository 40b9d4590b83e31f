"""Copies and comparison of JSON values."""

from __future__ import annotations

from typing import Any

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
