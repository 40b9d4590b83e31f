"""May this schema define a custom resource? Refused is what the server could not follow.

That is: values without a type, junctors that do more than restrict values, lists whose items have no key, patterns and
rules that do not compile, and defaults that the schema would refuse. kube-apiserver asks for more, and says more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kube_apimachinery.field_errors import FieldError, forbidden, invalid, not_supported, required
from kube_embedded.schema import formats
from kube_embedded.schema.cel.program import CelError
from kube_embedded.schema.cel.rules import Rules, compile_message, compile_program
from kube_embedded.schema.cel.types import Type, declared
from kube_embedded.schema.model import BadFieldPath, Compiler, Raw, complete, resolve, validate_embedded
from kube_embedded.schema.shaping import copied, prune
from kube_embedded.schema.validate import explain, same

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES = ("atomic", "set", "map")
_MAP_TYPES = ("atomic", "granular")
_UNSUPPORTED = ("id", "$ref", "additionalItems", "patternProperties", "definitions", "dependencies", "uniqueItems")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NOT_IN_JUNCTORS = frozenset(
    {
        *("type", "title", "description", "default", "additionalProperties", "nullable"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations"),
    }
)


def check_schema(raw: Raw, path: str) -> list[FieldError]:
    """What is wrong with the schema of a custom resource; `path` is where it stands. What was checked is remembered."""
    return list(_errors_of_content(json.dumps(raw), path))


@lru_cache(maxsize=64)
def _errors_of_content(content: str, path: str) -> tuple[FieldError, ...]:
    raw = json.loads(content)
    # Defaults and rules can be judged only where everything has a type, so they come last.
    errors = [*_root_errors(raw, path), *_node_errors(raw, path)] or [*_default_errors(raw, path)]
    return tuple(errors or _rule_errors(raw, path, root=True, unrelated=""))


def _root_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    if raw.get("type", "object") != "object":
        yield invalid(f"{path}.type", raw["type"], "must be object at the root")
    if raw.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if raw.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    metadata = (raw.get("properties") or {}).get("metadata") or {}
    named = metadata.get("properties") or {}
    if metadata.keys() - {"type", "description", "properties"} or named.keys() - {"name", "generateName"}:
        # The server itself says what is in metadata: a schema of its own would prune labels and owners.
        words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(f"{path}.properties[metadata]", words)


def _below(raw: Raw, path: str) -> Iterator[tuple[Raw, str]]:
    """The schemas of what is in a value of this schema."""
    for name, child in (raw.get("properties") or {}).items():
        yield child, f"{path}.properties[{name}]"
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), dict):
            yield raw[key], f"{path}.{key}"


def _node_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    yield from _form_errors(raw, path)
    yield from _type_errors(raw, path)
    yield from _list_errors(raw, path)
    yield from _restriction_errors(raw, path)
    for child, place in _below(raw, path):
        yield from _node_errors(child, place)


def _form_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    for key in _UNSUPPORTED:
        if raw.get(key):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if isinstance(raw.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if raw.get("additionalProperties") not in (None, True) and raw.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _type_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    name = raw.get("type", "")
    if not name and not raw.get("x-kubernetes-int-or-string") and not raw.get("x-kubernetes-preserve-unknown-fields"):
        yield required(f"{path}.type", "must not be empty")
    elif name and name not in _TYPES:
        yield not_supported(f"{path}.type", name, _TYPES)
    if name == "array" and raw.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if raw.get("x-kubernetes-embedded-resource") and name != "object":
        yield invalid(f"{path}.type", name, "must be object if x-kubernetes-embedded-resource is true")


def _list_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    """Server-side apply merges lists and maps as these words say."""
    for key, wanted, known in (
        ("x-kubernetes-list-type", "array", _LIST_TYPES),
        ("x-kubernetes-map-type", "object", _MAP_TYPES),
    ):
        if raw.get(key) is not None and raw.get("type") != wanted:
            yield invalid(f"{path}.type", raw.get("type", ""), f"must be {wanted} if {key} is specified")
        if raw.get(key) is not None and raw[key] not in known:
            yield not_supported(f"{path}.{key}", raw[key], known)
    keys, is_map = raw.get("x-kubernetes-list-map-keys") or [], raw.get("x-kubernetes-list-type") == "map"
    if keys and not is_map:
        words = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield invalid(f"{path}.x-kubernetes-list-type", raw.get("x-kubernetes-list-type", ""), words)
    if is_map and not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if is_map and isinstance(raw.get("items"), dict):
        yield from _key_errors(keys, raw["items"], path)


def _key_errors(keys: list[str], items: Raw, path: str) -> Iterator[FieldError]:
    """Every item has every key, and a key is a scalar."""
    if items.get("type") != "object":
        words = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), words)
        return
    for key in keys:
        known, place = (items.get("properties") or {}).get(key), f"{path}.items.properties[{key}]"
        if known is None:
            words = "entries must all be names of item properties"
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, words)
        elif known.get("type") in ("array", "object"):
            words = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{place}.type", known["type"], words)
        elif known.get("nullable"):
            yield forbidden(f"{place}.nullable", "a key of a list cannot be nullable")
        elif key not in (items.get("required") or ()) and known.get("default") is None:
            yield required(f"{place}.default", "a key of a list must have a default or be a required property")


def _restriction_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    """Patterns compile, and below a junctor nothing stands but conditions on values."""
    if raw.get("pattern"):
        try:
            formats.matcher(raw["pattern"])
        except formats.BadPattern as error:
            words = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", raw["pattern"], words)
    for one, place in _restrictions(raw, path):
        yield from _nested_errors(one, place)


def _restrictions(raw: Raw, path: str) -> Iterator[tuple[Raw, str]]:
    if raw.get("not") is not None:
        yield raw["not"], f"{path}.not"
    for junctor in _JUNCTORS:
        if raw.get(junctor) == _INT_OR_STRING:
            continue  # how generators of definitions spell x-kubernetes-int-or-string: the one use of types here
        for index, one in enumerate(raw.get(junctor) or ()):
            yield one, f"{path}.{junctor}[{index}]"


def _nested_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    yield from _form_errors(raw, path)
    yield from _restriction_errors(raw, path)
    for key in sorted(_NOT_IN_JUNCTORS & raw.keys()):
        if raw[key] is not None and raw[key] is not False:
            yield forbidden(f"{path}.{key}", "must not be set here to be structural")
    for child, place in _below(raw, path):
        yield from _nested_errors(child, place)


def _default_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    if raw.get("default") is not None:
        yield from _errors_of_default(raw, raw["default"], f"{path}.default")
    for child, place in _below(raw, path):
        yield from _default_errors(child, place)


def _errors_of_default(raw: Raw, value: Any, path: str) -> Iterator[FieldError]:
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


def _rule_errors(raw: Raw, path: str, root: bool, unrelated: str) -> Iterator[FieldError]:
    """`unrelated` is the list above whose items have no key: of what is in it, old values cannot be told."""
    kind = declared(raw, root or bool(raw.get("x-kubernetes-embedded-resource")))
    for index, rule in enumerate(raw.get("x-kubernetes-validations") or ()):
        place = f"{path}.x-kubernetes-validations[{index}]"
        if kind is None:
            yield invalid(f"{place}.rule", rule.get("rule"), "rules cannot be set where the fields are not known")
            continue
        try:
            yield from _errors_of_rule(rule, raw, place, compile_program(rule, kind).tree.uses("oldSelf"), unrelated)
        except CelError as error:
            yield invalid(f"{place}.rule", rule.get("rule"), f"compilation failed: {error}")
            continue
        if rule.get("messageExpression"):
            yield from _message_errors(rule, kind, place)
    if isinstance(raw.get("items"), dict) and raw.get("x-kubernetes-list-type") != "map":
        unrelated = unrelated or path
    for child, place in _below(raw, path):
        yield from _rule_errors(child, place, root=False, unrelated=unrelated)


def _message_errors(rule: Mapping[str, Any], kind: Type, place: str) -> Iterator[FieldError]:
    try:
        compile_message(rule, kind)
    except CelError as error:
        words = f"messageExpression compilation failed: {error}"
        yield invalid(f"{place}.messageExpression", rule["messageExpression"], words)


def _errors_of_rule(
    rule: Mapping[str, Any], raw: Raw, place: str, transition: bool, unrelated: str
) -> Iterator[FieldError]:
    if transition and unrelated:
        words = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unrelated}"
        yield invalid(f"{place}.rule", rule["rule"], words)
    if not rule.get("fieldPath"):
        return
    try:
        resolve(rule["fieldPath"], raw)
    except BadFieldPath:
        yield invalid(f"{place}.fieldPath", rule["fieldPath"], "must be a valid path")
