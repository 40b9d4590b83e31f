"""The x-kubernetes-validations of a schema: compiled once, evaluated at every place of an object that they are for.

A rule that speaks of `oldSelf` runs where an old value can be told; other rules forgive what did not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_apimachinery.field_errors import OMITTED, ErrorType, FieldError, forbidden, invalid, required
from kube_embedded.schema.cel.program import CelError, Program, compile_typed
from kube_embedded.schema.cel.types import Type, declared, optional_of, project
from kube_embedded.schema.model import BadFieldPath, Raw, Schema, resolve
from kube_embedded.schema.validate import NOWHERE, UNRELATED, Correlation, old_item

_MAX_MESSAGE = 5 * 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `text` is what it is called in messages."""

    program: Program
    text: str
    detail: str
    transition: bool
    optional_old: bool
    message: Program | None = None
    reason: str = ""
    field_path: str = ""


def compile_rule(source: Mapping[str, Any], raw: Raw, kind: Type) -> Rule:
    """Compile a rule for values of this schema and type; raises `CelError`."""
    program = compile_program(source, kind)
    message = source.get("message", "").strip()
    text = message or source["rule"].strip()
    return Rule(
        program=program,
        text=text,
        detail=message or f"failed rule: {text}",
        transition=program.tree.uses("oldSelf"),
        optional_old=bool(source.get("optionalOldSelf")),
        message=compile_message(source, kind) if source.get("messageExpression") else None,
        reason=source.get("reason") or "",
        field_path=_field_path(source, raw),
    )


def compile_program(source: Mapping[str, Any], kind: Type) -> Program:
    """Compile the expression of a rule, which must be true or false; raises `CelError`."""
    program = compile_typed(source.get("rule") or "", _variables(kind, bool(source.get("optionalOldSelf"))))
    if not program.gives("BOOL"):
        raise CelError("cel expression must evaluate to a bool")
    return program


def compile_message(source: Mapping[str, Any], kind: Type) -> Program:
    """Compile the messageExpression of a rule; raises `CelError`."""
    variables = _variables(kind, bool(source.get("optionalOldSelf")))
    program = compile_typed(source["messageExpression"], variables)
    if not program.gives("STRING"):
        raise CelError("messageExpression must evaluate to a string")
    return program


def _variables(kind: Type, optional_old: bool) -> dict[str, Type]:
    return {"self": kind, "oldSelf": optional_of(kind) if optional_old else kind}


def _field_path(source: Mapping[str, Any], raw: Raw) -> str:
    try:
        return resolve(source["fieldPath"], raw)[0] if source.get("fieldPath") else ""
    except BadFieldPath:
        return ""


@dataclass(slots=True)
class Rules:
    """The rules at one node of a schema and below it."""

    kind: Type
    schema: Schema
    kind_name: str  # as the schema spells it
    rules: list[Rule] = field(default_factory=list)
    properties: dict[str, Rules] = field(default_factory=dict)
    additional: Rules | None = None
    items: Rules | None = None

    @property
    def shows_value(self) -> bool:
        """Objects and lists may be large and are not repeated in messages."""
        return self.kind_name not in ("object", "array")

    @staticmethod
    def of(raw: Raw, schema: Schema, root: bool = True) -> Rules | None:
        """The rules of a schema, or None when it has none; the schema must have been checked."""
        return _collect(raw, schema, root)

    def validate(self, obj: Any, old: Any, related: Correlation = UNRELATED, path: str = "") -> list[FieldError]:
        """All failures. `old` is None where there is no old object."""
        return list(_validate(self, _Place(path, obj, old, related, None)))


@dataclass(slots=True)
class _Place:
    """Where the walk is: the value, the old value for `oldSelf`, and what it is related to."""

    path: str
    value: Any
    old: Any
    related: Correlation
    parent: _Place | None

    def unchanged(self) -> bool:
        """Whether nothing changed here; below a part that cannot be told apart, whether that part changed at all."""
        if self.related.present:
            return self.related.unchanged(self.value)
        return self.parent is not None and self.parent.unchanged()


def _collect(raw: Raw, schema: Schema, root: bool) -> Rules | None:
    kind = declared(raw, root)
    if kind is None:
        return None
    node = Rules(kind, schema, raw.get("type", ""))
    node.rules = [compile_rule(source, raw, kind) for source in raw.get("x-kubernetes-validations", ())]
    for name, child in raw.get("properties", {}).items():
        found = _collect(child, schema.properties[name], bool(child.get("x-kubernetes-embedded-resource")))
        if found is not None:
            node.properties[name] = found
    additional, items = raw.get("additionalProperties"), raw.get("items")
    if isinstance(additional, dict) and schema.additional is not None:
        node.additional = _collect(
            additional, schema.additional, bool(additional.get("x-kubernetes-embedded-resource"))
        )
    if items is not None and schema.items is not None:
        node.items = _collect(items, schema.items, bool(items.get("x-kubernetes-embedded-resource")))
    return node if node.rules or node.properties or node.additional or node.items else None


def _validate(node: Rules, place: _Place) -> Iterator[FieldError]:
    if place.value is None:
        return
    if node.rules:
        yield from _run(node, place)
    for inner, below in _below(node, place):
        yield from _validate(inner, below)


def _below(node: Rules, place: _Place) -> Iterator[tuple[Rules, _Place]]:
    path, value, related = place.path, place.value, place.related
    if isinstance(value, list) and node.items is not None:
        for index, child in enumerate(value):
            before = old_item(place.old, node.schema, child)
            yield node.items, _Place(f"{path}[{index}]", child, before, related.index(child), place)
    elif isinstance(value, dict):
        before = place.old if isinstance(place.old, dict) else {}
        for key, child in value.items():
            if (inner := node.properties.get(key)) is not None:
                name = f"{path}.{key}" if path else key
                yield inner, _Place(name, child, before.get(key), related.key(key), place)
            elif node.additional is not None:
                yield node.additional, _Place(f"{path}[{key}]", child, before.get(key), related.key(key), place)


def _run(node: Rules, place: _Place) -> Iterator[FieldError]:
    for rule in node.rules:
        if rule.transition and place.old is None and not rule.optional_old:
            continue
        try:
            passed = rule.program.evaluate(_bindings(rule.program, rule, node, place))
        except CelError as error:
            yield invalid(place.path or NOWHERE, node.kind_name, _evaluation_words(str(error), rule.text))
            continue
        if passed is not True and (rule.transition or not place.unchanged()):
            yield _failure(node, rule, place)


def _bindings(program: Program, rule: Rule, node: Rules, place: _Place) -> dict[str, Any]:
    before = project(place.old, node.kind, program.uses["oldSelf"])
    if rule.optional_old:
        before = [before] if place.old is not None else []
    return {"self": project(place.value, node.kind, program.uses["self"]), "oldSelf": before}


def _evaluation_words(error: str, text: str) -> str:
    if error.startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {text}"
        )
    return f"{error} evaluating rule: {text}"


def _failure(node: Rules, rule: Rule, place: _Place) -> FieldError:
    path = f"{place.path}.{rule.field_path}" if rule.field_path and place.path else rule.field_path or place.path
    path = path or NOWHERE
    detail = _message(rule, node, place) or rule.detail
    value = place.value if node.shows_value else OMITTED
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return FieldError(path, ErrorType.DUPLICATE, value)
        case _:
            return invalid(path, value, detail)


def _message(rule: Rule, node: Rules, place: _Place) -> str:
    """The computed message; empty where it cannot be had, and the fixed one is shown."""
    if rule.message is None:
        return ""
    try:
        text = rule.message.evaluate(_bindings(rule.message, rule, node, place))
    except CelError:
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text.encode()) > _MAX_MESSAGE else text
