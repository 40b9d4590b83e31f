"""Expressions of CEL over `object` and `oldObject`, as text: what API servers decide by themselves.

Absent fields are spelled out, for an expression that fails is a refusal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping


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


def quoted(word: str) -> str:
    return json.dumps(word)


def lists(found: Mapping[str, Iterable[str]]) -> str:
    """A map from strings to lists of strings, sorted."""
    pairs = (f"{quoted(key)}: {words(value)}" for key, value in sorted(found.items()))
    return f"{{{', '.join(pairs)}}}"


def is_trusted(group: str, users: Iterable[str]) -> str:
    """That whoever asks is in a group, or one of some users."""
    return f"((has(request.userInfo.groups) && {quoted(group)} in request.userInfo.groups) || {user_in(users)})"


def changed(new: str, old: str, prefix: str, free: Iterable[str], free_prefixes: Iterable[str]) -> str:
    """The keys under a prefix, but for free ones, that two maps do not have in common."""
    spared = "".join(f" && !key.startsWith({quoted(one)})" for one in sorted(free_prefixes))
    ours = f"key.startsWith({quoted(prefix)}) && !(key in {words(free)}){spared}"
    set_or_changed = f"{new}.filter(key, {ours} && !(key in {old} && {old}[key] == {new}[key]))"
    return f"({set_or_changed} + {old}.filter(key, {ours} && !(key in {new})))"
