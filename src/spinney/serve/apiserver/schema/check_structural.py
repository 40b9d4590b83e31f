"""Is a schema structural? Every value has a type, and junctors only restrict what is declared outside of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spinney.api.field_errors import FieldError, forbidden, invalid, required
from spinney.serve.apiserver.schema import regex
from spinney.serve.apiserver.schema.model import Raw

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY = {"type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"}
_UNDEFINED = {"default", "additionalProperties", "x-kubernetes-list-type", "x-kubernetes-map-type"}
_FALSE = {
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
}
_LEVELS = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}


def structural_errors(raw: Raw, path: str) -> list[FieldError]:
    """What keeps a schema from being structural, in the order of the text."""
    errors = [*_node(raw, path, "root"), *_incomplete(raw, raw, path, path)]
    return sorted(errors, key=str)


def _node(raw: Raw, path: str, level: str) -> Iterator[FieldError]:
    if raw.get("type") == "array" and raw.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(raw.get("items"), dict):
        yield from _node(raw["items"], f"{path}.items", "item")
    for name, child in raw.get("properties", {}).items():
        yield from _node(child, f"{path}.properties[{name}]", "field")
    additional = raw.get("additionalProperties")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _node(additional, f"{path}.additionalProperties", "field")
    yield from _extensions(raw, path)
    yield from _values(raw, path, _is_int_or_string(raw), _starts_with_int_or_string(raw))
    yield from _type(raw, path, level)
    yield from _metadata(raw, path, level)


def _extensions(raw: Raw, path: str) -> Iterator[FieldError]:
    if raw.get("x-kubernetes-int-or-string"):
        for other in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if raw.get(other):
                yield invalid(f"{path}.{other}", True, "must be false if x-kubernetes-int-or-string is true")


def _type(raw: Raw, path: str, level: str) -> Iterator[FieldError]:
    name, embedded = raw.get("type", ""), bool(raw.get("x-kubernetes-embedded-resource"))
    open_ended = raw.get("x-kubernetes-int-or-string") or raw.get("x-kubernetes-preserve-unknown-fields")
    if embedded and name != "object":
        words = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", name, words) if name else required(f"{path}.type", words)
    elif not name and not open_ended:
        yield required(f"{path}.type", f"must not be empty {_LEVELS[level]}")
    if embedded and raw.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if level == "root" and name and name != "object":
        yield invalid(f"{path}.type", name, "must be object at the root")
    if embedded and not raw.get("x-kubernetes-preserve-unknown-fields") and not raw.get("properties"):
        words = "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(f"{path}.properties", f"must not be empty if {words}")


def _metadata(raw: Raw, path: str, level: str) -> Iterator[FieldError]:
    """Of the metadata of an object only its name may be restricted."""
    properties = raw.get("properties", {})
    if level != "root" and not raw.get("x-kubernetes-embedded-resource"):
        return
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield invalid(f"{path}.properties[metadata].type", metadata.get("type", ""), "must be object")
    said = {key for key, value in metadata.items() if value and key not in ("type", "default", "properties")}
    if level == "root" and (said or not metadata.get("properties", {}).keys() <= {"name", "generateName"}):
        words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(f"{path}.properties[metadata]", words)


def _is_int_or_string(raw: Raw) -> bool:
    return raw.get("anyOf") == _INT_OR_STRING


def _starts_with_int_or_string(raw: Raw) -> bool:
    return bool(raw.get("allOf")) and raw["allOf"][0].get("anyOf") == _INT_OR_STRING


def _values(raw: Raw, path: str, skip_any: bool = False, skip_first: bool = False) -> Iterator[FieldError]:
    for junctor in ("anyOf", "allOf", "oneOf"):
        if junctor == "anyOf" and skip_any:
            continue
        for index, one in enumerate(raw.get(junctor) or ()):
            skip = junctor == "allOf" and index == 0 and skip_first
            yield from _nested(one, f"{path}.{junctor}[{index}]", skip)
    if raw.get("not") is not None:
        yield from _nested(raw["not"], f"{path}.not", False)
    if raw.get("pattern"):
        try:
            regex.matcher(raw["pattern"])
        except regex.BadPattern as error:
            words = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", raw["pattern"], words)


def _nested(raw: Raw, path: str, skip_any: bool) -> Iterator[FieldError]:
    """Below a junctor only conditions on values may stand."""
    yield from _values(raw, path, skip_any)
    if isinstance(raw.get("items"), dict):
        yield from _nested(raw["items"], f"{path}.items", False)
    for name, child in raw.get("properties", {}).items():
        yield from _nested(child, f"{path}.properties[{name}]", False)
    for keys, word in ((_EMPTY, "empty"), (_UNDEFINED, "undefined"), (_FALSE, "false")):
        for key in sorted(keys & raw.keys()):
            if _is_said(raw[key], word):
                yield forbidden(f"{path}.{key}", f"must be {word} to be structural")
    if "metadata" in raw.get("properties", {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _is_said(value: Any, word: str) -> bool:
    return value is not None and value is not False if word == "undefined" else bool(value)


def _incomplete(values: Raw, raw: Raw | None, path: str, where: str) -> Iterator[FieldError]:
    """What a junctor speaks of must be declared outside of it."""
    if raw is None:
        yield required(path, f"because it is defined in {where}")
        return
    if values.get("not") is not None:
        yield from _incomplete_nested(values["not"], raw, path, f"{where}.not")
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, one in enumerate(values.get(junctor) or ()):
            yield from _incomplete_nested(one, raw, path, f"{where}.{junctor}[{index}]")


def _incomplete_nested(values: Raw, raw: Raw | None, path: str, where: str) -> Iterator[FieldError]:
    if raw is None:
        yield required(path, f"because it is defined in {where}")
        return
    yield from _incomplete(values, raw, path, where)
    if isinstance(values.get("items"), dict):
        yield from _incomplete_nested(values["items"], raw.get("items"), f"{path}.items", f"{where}.items")
    for name, child in values.get("properties", {}).items():
        inner, place = raw.get("properties", {}).get(name), f"properties[{name}]"
        yield from _incomplete_nested(child, inner, f"{path}.{place}", f"{where}.{place}")
