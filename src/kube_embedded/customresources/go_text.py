"""Parts of a definition as kube-apiserver prints them in a refusal: as JSON of its internal structures."""

from __future__ import annotations

import json
from typing import Any

from kube_embedded.schema.model import Raw

_RULE = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
_TEXT = {"id", "$schema", "description", "type", "format", "title", "pattern", "rule", "message", "fieldPath"}
_FLAGS = {
    *("nullable", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
}
_SCHEMA = (
    *("id", "$schema", "$ref", "description", "type", "nullable", "format", "title", "default", "maximum"),
    *("exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
    *("uniqueItems", "multipleOf", "enum", "maxProperties", "minProperties", "required", "items", "allOf", "oneOf"),
    *("anyOf", "not", "properties", "additionalProperties", "patternProperties", "dependencies", "additionalItems"),
    *("definitions", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"),
)
_NAMES = {"id": "ID", "$schema": "Schema", "$ref": "Ref"}


class GoText:
    """A value that is shown as this text, without quotes."""

    def __init__(self, value: Any) -> None:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for char in "&<>":
            text = text.replace(char, f"\\u{ord(char):04x}")
        self._text = text

    def __str__(self) -> str:
        return self._text


def rule_text(rule: dict[str, Any]) -> GoText:
    return GoText(_rule(rule))


def schema_text(raw: Raw) -> GoText:
    return GoText(_schema(raw))


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    texts = ("rule", "message", "messageExpression", "fieldPath")
    return {key[0].upper() + key[1:]: rule.get(key, "" if key in texts else None) for key in _RULE}


def _name(key: str) -> str:
    if key.startswith("x-kubernetes-"):
        return "X" + "".join(part.capitalize() for part in key.removeprefix("x-kubernetes-").split("-"))
    return _NAMES.get(key, key[0].upper() + key[1:])


def _schema(raw: Raw) -> dict[str, Any]:
    return {_name(key): _member(key, raw.get(key)) for key in _SCHEMA}


def _member(key: str, value: Any) -> Any:
    if value is None:
        return "" if key in _TEXT else False if key in _FLAGS else None
    match key:
        case "properties" | "patternProperties" | "definitions":
            return {name: _schema(child) for name, child in value.items()}
        case "allOf" | "anyOf" | "oneOf":
            return [_schema(child) for child in value]
        case "not":
            return _schema(value)
        case "additionalProperties" | "additionalItems":
            return {"Allows": value is not False, "Schema": _schema(value) if isinstance(value, dict) else None}
        case "items":
            return {"Schema": _schema(value), "JSONSchemas": None}
        case "x-kubernetes-validations":
            return [_rule(one) for one in value]
        case _:
            return value
