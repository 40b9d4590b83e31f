"""May this schema define a custom resource? Everything kube-apiserver asks of it, in its words.

A schema must be structural (every value has a type, and junctors only restrict what is declared outside of them), and
its defaults must be values that it would accept, with nothing more than it knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from kube_apimachinery.field_errors import ErrorType, FieldError, forbidden, invalid, not_supported, required
from kube_embedded.schema import formats
from kube_embedded.schema.cel.program import CelError
from kube_embedded.schema.cel.rules import Rules, compile_message, compile_program
from kube_embedded.schema.cel.types import declared
from kube_embedded.schema.model import BadFieldPath, Compiler, Raw, complete, resolve, validate_embedded
from kube_embedded.schema.shaping import copied, prune
from kube_embedded.schema.validate import explain, same

# Parts of a definition as kube-apiserver prints them in a refusal: as JSON of its internal structures.

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
            formats.matcher(raw["pattern"])
        except formats.BadPattern as error:
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


def default_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    """Every default that does not fit; values of maps have none."""
    if raw.get("default") is not None:
        yield from _errors(raw, raw["default"], f"{path}.default")
    if isinstance(raw.get("items"), dict):
        yield from default_errors(raw["items"], f"{path}.items")
    for name, child in raw.get("properties", {}).items():
        yield from default_errors(child, f"{path}.properties[{name}]")


def _errors(raw: Raw, value: Any, path: str) -> Iterator[FieldError]:
    schema = complete(Compiler().compile(raw))
    pruned = copied(value)
    prune(pruned, schema)
    if not same(pruned, value):
        yield invalid(path, value, "must not have unknown fields")
    errors = validate_embedded(value, schema, path) or explain(value, raw, root=path)
    if errors:
        yield from errors
        return
    try:
        rules = Rules.of(raw, schema, root=False)
    except CelError:
        return  # said where the rules are checked
    if rules is not None:
        yield from rules.validate(value, value, path=path) or rules.validate(value, None, path=path)


_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META = ("metadata", "kind", "apiVersion")
_AT_ROOT = {
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items"),
    *("properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
}
_AT_ROOT_WORDS = (
    "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
)


def check_schema(raw: Raw, path: str, has_status: bool) -> list[FieldError]:
    """All errors of the schema of a custom resource; `path` is where it stands. What was checked is remembered."""
    return list(_errors_of_content(json.dumps(raw), path, has_status))


@lru_cache(maxsize=64)
def _errors_of_content(content: str, path: str, has_status: bool) -> tuple[FieldError, ...]:
    return tuple(_errors_of(json.loads(content), path, has_status))


def _errors_of(raw: Raw, path: str, has_status: bool) -> list[FieldError]:
    errors = [*_root_errors(raw, path, has_status)]
    structural = structural_errors(raw, path) if not _is_unsupported(raw) else []
    if not structural and not _is_unsupported(raw):
        structural = list(default_errors(raw, path))
    walk = _Walk(check_rules=not structural)
    schema_errors, rule_errors = walk.check(raw, path, _Here(root=True))
    return errors + structural + schema_errors + rule_errors


def _root_errors(raw: Raw, path: str, has_status: bool) -> Iterator[FieldError]:
    if has_status:
        if raw.get("type", "object") != "object":
            words = (
                'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            )
            yield invalid(f"{path}.type", raw["type"], words)
        elif any(value not in (None, False, "") for key, value in raw.items() if key not in _AT_ROOT):
            yield invalid(path, schema_text(raw), _AT_ROOT_WORDS)
    if raw.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _is_unsupported(raw: Any) -> bool:
    """Whether there is something in it that no structural schema can hold."""
    if isinstance(raw, list):
        return any(_is_unsupported(one) for one in raw)
    if not isinstance(raw, dict):
        return False
    for key in ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"):
        if raw.get(key):
            return True
    if isinstance(raw.get("items"), list) or raw.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    nested = [raw.get(key) for key in ("items", "not", "additionalProperties", "allOf", "anyOf", "oneOf")]
    return any(_is_unsupported(one) for one in (*nested, *(raw.get("properties") or {}).values()))


@dataclass(frozen=True, slots=True)
class _Here:
    """What holds at a place of the schema."""

    root: bool = False
    in_meta: bool = False
    no_defaults: str = ""  # why there may be none
    unrelated: str = ""  # the part above in which old values cannot be told
    in_junctor: bool = False


_Found = tuple[list[FieldError], list[FieldError]]


@dataclass(frozen=True, slots=True)
class _Walk:
    check_rules: bool

    def check(self, raw: Raw, path: str, here: _Here) -> _Found:
        """Errors of the schema, and errors of its rules, which count only where the schema is right."""
        errors, rule_errors = [*_node_errors(raw, path, here)], list[FieldError]()
        for child, place, there in _children(raw, path, replace(here, root=False), here.root):
            found, broken = self.check(child, place, there)
            errors += found
            rule_errors += broken
        errors += _list_errors(raw, path)
        errors += _rule_form_errors(raw, path)
        if not errors and self.check_rules and not here.in_junctor:
            rule_errors += _rule_errors(raw, path, here)
        return errors, rule_errors


def _children(raw: Raw, path: str, below: _Here, root: bool) -> Iterator[tuple[Raw, str, _Here]]:
    additional, items = raw.get("additionalProperties"), raw.get("items")
    if isinstance(additional, dict):
        why = "inside additionalProperties applying to object metadata" if below.in_meta else below.no_defaults
        yield additional, f"{path}.additionalProperties", replace(below, no_defaults=why)
    for name, child in (raw.get("properties") or {}).items():
        there = below
        if (root or raw.get("x-kubernetes-embedded-resource")) and name in _META:
            there = replace(there, in_meta=True, no_defaults=f"in top-level {name}" if root else there.no_defaults)
        yield child, f"{path}.properties[{name}]", there
    inside = replace(below, in_junctor=True)
    if raw.get("not") is not None:
        yield raw["not"], f"{path}.not", inside
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, one in enumerate(raw.get(junctor) or ()):
            yield one, f"{path}.{junctor}[{index}]", inside
    for name, child in (raw.get("definitions") or {}).items():
        yield child, f"{path}.definitions[{name}]", inside
    if isinstance(items, dict):
        unrelated = below.unrelated if raw.get("x-kubernetes-list-type") == "map" else below.unrelated or path
        yield items, f"{path}.items", replace(below, unrelated=unrelated)


def _node_errors(raw: Raw, path: str, here: _Here) -> Iterator[FieldError]:
    name = raw.get("type")
    if name and name not in _TYPES:
        yield not_supported(f"{path}.type", name, _TYPES)
    if raw.get("default") is not None and here.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {here.no_defaults}")
    for key in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        if raw.get(key):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if name == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(raw.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if here.in_meta and raw.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if raw.get("uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", words)
    if raw.get("additionalProperties") not in (None, True) and raw.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _list_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    yield from _wants_type(raw, path, "x-kubernetes-map-type", "object")
    map_type, list_type = raw.get("x-kubernetes-map-type"), raw.get("x-kubernetes-list-type")
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield _unsupported(f"{path}.x-kubernetes-map-type", map_type, "atomic", "granular")
    yield from _wants_type(raw, path, "x-kubernetes-list-type", "array")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield _unsupported(f"{path}.x-kubernetes-list-type", list_type, "atomic", "set", "map")
    keys, items = raw.get("x-kubernetes-list-map-keys") or [], raw.get("items")
    if keys and list_type != "map":
        words = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.x-kubernetes-list-type"
        yield required(place, words) if list_type is None else invalid(place, list_type, words)
    if list_type == "set" and raw.get("type") == "array" and isinstance(items, dict):
        yield from _set_errors(items, f"{path}.items")
    if list_type == "map":
        yield from _map_errors(keys, items, path)
    if list_type in ("set", "map") and isinstance(items, dict):
        yield from _key_errors(keys if list_type == "map" else [], items, path, list_type)


def _unsupported(path: str, value: str, *allowed: str) -> FieldError:
    words = ", ".join(f'"{one}"' for one in allowed)
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {words}")


def _wants_type(raw: Raw, path: str, key: str, wanted: str) -> Iterator[FieldError]:
    name = raw.get("type", "")
    if raw.get(key) is not None and name != wanted:
        words = f"must be {wanted} if {key} is specified"
        yield invalid(f"{path}.type", name, words) if name else required(f"{path}.type", words)


def _set_errors(items: Raw, path: str) -> Iterator[FieldError]:
    words = "must be atomic as item of a list with x-kubernetes-list-type=set"
    listed = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and listed not in (None, "atomic"):
        yield invalid(f"{path}.x-kubernetes-list-type", listed, words)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.x-kubernetes-map-type", listed, words)


def _map_errors(keys: list[str], items: Any, path: str) -> Iterator[FieldError]:
    place = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(place, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        words = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), words)
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid(place, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            words = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", "object", words)
        if key in keys[:index]:
            yield invalid(place, keys, "must not contain duplicate entries")


def _key_errors(keys: list[str], items: Raw, path: str, list_type: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    for key in keys:
        known, place = (items.get("properties") or {}).get(key), f"{path}.items.properties[{key}]"
        if known is None:
            continue
        words = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and known.get("default") is None:
            yield required(f"{place}.default", f"{words} must have a default or be a required property")
        if known.get("nullable"):
            yield forbidden(f"{place}.nullable", f"{words} cannot be nullable")


def _rule_form_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    for index, rule in enumerate(raw.get("x-kubernetes-validations") or ()):
        place = f"{path}.x-kubernetes-validations[{index}]"
        yield from _text_errors(rule, place)
        reason, field_path = rule.get("reason"), rule.get("fieldPath") or ""
        if reason is not None and reason not in _REASONS:
            yield not_supported(f"{place}.reason", reason, _REASONS)
        if field_path and not field_path.strip():
            yield invalid(f"{place}.fieldPath", field_path, "must be non-empty if specified")
        if "\n" in field_path or "\r" in field_path:
            yield invalid(f"{place}.fieldPath", field_path, "must not contain line breaks")
        if field_path and not _leads_somewhere(field_path, raw):
            yield invalid(f"{place}.fieldPath", field_path, "must be a valid path")


def _text_errors(rule: dict[str, Any], place: str) -> Iterator[FieldError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        yield required(f"{place}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{place}.message", message, "must be non-empty if specified")
    elif _is_broken(message.strip()):
        yield invalid(f"{place}.message", message, "must not contain line breaks")
    elif _is_broken(text) and not message.strip():
        yield required(f"{place}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        yield required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")


def _is_broken(text: str) -> bool:
    return "\n" in text or "\r" in text


def _leads_somewhere(path: str, raw: Raw) -> bool:
    try:
        resolve(path, raw)
    except BadFieldPath:
        return False
    return True


def _rule_errors(raw: Raw, path: str, here: _Here) -> Iterator[FieldError]:
    rules = raw.get("x-kubernetes-validations") or ()
    kind = declared(raw, here.root or bool(raw.get("x-kubernetes-embedded-resource"))) if rules else None
    for index, rule in enumerate(rules):
        place = f"{path}.x-kubernetes-validations[{index}]"
        if kind is None:
            words = "failed to retrieve type information for x-kubernetes-validations"
            yield FieldError(f"{path}.x-kubernetes-validations", ErrorType.INTERNAL, None, f"internal error: {words}")
            return
        try:
            program = compile_program(rule, kind)
        except CelError as error:
            yield invalid(f"{place}.rule", rule_text(rule), _compile_words(str(error), "compilation failed"))
            continue
        if rule.get("messageExpression"):
            try:
                compile_message(rule, kind)
            except CelError as error:
                words = _compile_words(str(error), "messageExpression compilation failed")
                yield invalid(f"{place}.messageExpression", rule_text(rule), words)
        if program.tree.uses("oldSelf"):
            if here.unrelated:
                words = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                yield invalid(f"{place}.rule", rule["rule"], f"{words} {here.unrelated}")
        elif rule.get("optionalOldSelf") is not None:
            words = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{place}.optionalOldSelf", rule["optionalOldSelf"], words)


def _compile_words(error: str, what: str) -> str:
    return f"{what}: {error}" if error.startswith("ERROR:") else error
