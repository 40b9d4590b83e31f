"""Expressions of CEL over `object` and `oldObject`, as text: what API servers decide by themselves.

Absent fields are spelled out, for an expression that fails is a refusal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable


def words(found: Iterable[str]) -> str:
    """A list of strings, sorted."""
    return f"[{', '.join(json.dumps(one) for one in sorted(found))}]"


def user_in(names: Iterable[str]) -> str:
    """That whoever asks is one of these."""
    return f"request.userInfo.username in {words(names)}"


def none_of(*conditions: str) -> str:
    """That not all of these hold."""
    return f"!({' && '.join(conditions)})"


def entries(of: str, name: str) -> str:
    """The labels or annotations of an object that may be null; an empty map where there are none."""
    return f"({of} != null && has({of}.metadata) && has({of}.metadata.{name}) ? {of}.metadata.{name} : {{}})"


def same(parent: str, name: str) -> str:
    """That a field is what it was, or is still not there."""
    new, old = f"object.{parent}", f"oldObject.{parent}"
    return f"(has({new}.{name}) ? has({old}.{name}) && {new}.{name} == {old}.{name} : !has({old}.{name}))"


def same_entries(name: str, beside: Iterable[str]) -> str:
    """That labels or annotations are what they were, but for some keys."""
    new, old, some = entries("object", name), entries("oldObject", name), words(beside)
    kept = f"{new}.all(key, key in {some} || (key in {old} && {old}[key] == {new}[key]))"
    return f"{kept} && {old}.all(key, key in {some} || key in {new})"
