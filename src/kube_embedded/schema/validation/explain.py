"""Says what is wrong with a value, in the words of kube-apiserver: every error at once, with its path.

This is the judge of validity. It is slow; `validate` asks it only about values that a fast check did not pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kube_apimachinery.field_errors import ErrorType, FieldError, invalid, required
from kube_embedded.schema.model import Raw
from kube_embedded.schema.validation import formats, regex
from kube_embedded.schema.validation.correlation import UNRELATED, Correlation

_MAX_EXACT = 2**53 - 1
_MAX_FLOAT = (2 - 2**-23) * 2.0**127
NOWHERE = "<nil>"  # the path of what belongs to no field


@dataclass(slots=True)
class Outcome:
    """Errors in order, each once, and how many checks were made: a junctor shows its best alternative only."""

    errors: list[FieldError] = field(default_factory=list)
    checks: int = 0

    def add(self, *errors: FieldError) -> None:
        for error in errors:
            if error not in self.errors:
                self.errors.append(error)

    def merge(self, other: Outcome) -> None:
        self.add(*other.errors)
        self.checks += other.checks


def explain(value: Any, raw: Raw, old: Correlation = UNRELATED, root: str = "") -> list[FieldError]:
    """All errors of a value; what is unchanged since `old` is not complained about."""
    return _ratcheted(value, raw, "", old, root).errors


def _ratcheted(value: Any, raw: Raw, path: str, old: Correlation, root: str) -> Outcome:
    outcome = _node(value, raw, path, old, root)
    if outcome.errors and old.unchanged(value):
        return Outcome([], outcome.checks)
    return outcome


def _node(value: Any, raw: Raw, path: str, old: Correlation, root: str) -> Outcome:
    outcome = Outcome()
    shown = _join(root, path)
    types = _types(raw)
    kind = _kind(value)
    format_name = formats.effective(types[0] if len(types) == 1 else "", raw.get("format", ""))
    if types or format_name:
        _check_type(value, kind, raw, types, format_name, path, shown, outcome)
    if value is not None:
        outcome.checks += 1 if types or format_name else 0
        junctors = _junctors(value, raw, path, old, root)
        outcome.merge(junctors)
        outcome.checks += 2
        match kind:
            case "string":
                outcome.add(*_text_errors(value, raw, path, shown))
                outcome.checks += 1
                if format_name and (check := formats.string_check(format_name)) is not None:
                    if not check(value):
                        outcome.add(_type_error(path, shown, format_name, value))
                    outcome.checks += 1
            case "integer" | "number":
                outcome.add(*_number_errors(value, raw, types, path, shown))
                outcome.checks += 2
            case "array":
                _list(value, raw, path, old, root, outcome)
                outcome.checks += 2
    if raw.get("enum"):
        outcome.add(*_enum_errors(value, raw["enum"], shown))
    if value is not None:
        outcome.checks += 2
        if kind == "object":
            _object(value, raw, path, old, root, outcome)
            outcome.checks += 1
    return outcome


def _join(root: str, path: str) -> str:
    path = path.removeprefix(".")
    if not root:
        return path or NOWHERE
    return f"{root}.{path}" if path else root


def _types(raw: Raw) -> tuple[str, ...]:
    if raw.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    name = raw.get("type")
    return (name,) if name else ()


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer" if -(2**63) <= value < 2**63 else "number"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _type_error(path: str, shown: str, expected: str, found: str) -> FieldError:
    quoted = json.dumps(found, ensure_ascii=False)
    detail = f"{path} in body must be of type {expected}: {quoted}"
    return FieldError(shown, ErrorType.TYPE_INVALID, found, detail)


def _check_type(
    value: Any, kind: str, raw: Raw, types: tuple[str, ...], format_name: str, path: str, shown: str, outcome: Outcome
) -> None:
    if value is None:
        if types and not raw.get("nullable"):
            outcome.add(_type_error(path, shown, ",".join(types), "null"))
        else:
            outcome.checks += 1
        return
    fits = kind in types or (kind == "integer" and "number" in types)
    fits = fits or (kind == "number" and "integer" in types and _is_whole(value))
    if fits or (not types and kind == "string"):
        outcome.checks += 1
    elif format_name and kind not in ("string", "array"):
        native = {"integer": "int64", "number": "float64"}.get(kind, "")
        if native == format_name:
            outcome.add(_type_error(path, shown, ",".join(types), kind))
        else:
            outcome.add(_type_error(path, shown, format_name, native))
    elif format_name and not {"integer", "number"} & set(types):
        outcome.checks += 1
    else:
        outcome.add(_type_error(path, shown, ",".join(types), kind))


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and abs(value) <= _MAX_EXACT and float(value).is_integer()


def _text_errors(value: str, raw: Raw, path: str, shown: str) -> Iterator[FieldError]:
    longest, shortest, pattern = raw.get("maxLength"), raw.get("minLength"), raw.get("pattern")
    if longest is not None and len(value) > longest:
        unit = "byte" if longest == 1 else "bytes"
        yield FieldError(shown, ErrorType.TOO_LONG, None, f"may not be more than {longest} {unit}")
    elif shortest is not None and len(value) < shortest:
        yield invalid(shown, value, f"{path} in body should be at least {shortest} chars long")
    elif pattern and not regex.matcher(pattern)(value):
        yield invalid(shown, value, f"{path} in body should match '{pattern}'")


_RANGES = {"int32": 2**31, "int64": 2**63, "": 2**63}


def _number_errors(value: Any, raw: Raw, types: tuple[str, ...], path: str, shown: str) -> Iterator[FieldError]:
    if types == ("integer",):
        format_name = formats.effective("integer", raw.get("format", ""))
        limit = _RANGES[format_name]
        if not (float(value).is_integer() and -limit <= value < limit):
            words = f"with format {format_name}" if format_name else "(default format)"
            yield invalid(NOWHERE, "", f"Checked value must be of type integer {words} in {path}")
    elif types == ("number",) and raw.get("format") == "float" and abs(value) > _MAX_FLOAT:
        yield invalid(NOWHERE, "", f"Checked value must be of type number with format float in {path}")
    whole = _kind(value) == "integer"
    factor = raw.get("multipleOf")
    if factor is not None:
        yield from _multiple_errors(value, factor, whole, path, shown)
    lowest, highest = raw.get("minimum"), raw.get("maximum")
    if lowest is not None:
        bound = int(lowest) if whole else lowest
        strict = bool(raw.get("exclusiveMinimum"))
        if value < bound or (strict and value == bound):
            words = "greater than" if strict else "greater than or equal to"
            yield invalid(shown, value, f"{path} in body should be {words} {number_text(bound)}")
    if highest is not None:
        bound = int(highest) if whole else highest
        strict = bool(raw.get("exclusiveMaximum"))
        if value > bound or (strict and value == bound):
            words = "less than" if strict else "less than or equal to"
            yield invalid(shown, value, f"{path} in body should be {words} {number_text(bound)}")


def _multiple_errors(value: Any, factor: Any, whole: bool, path: str, shown: str) -> Iterator[FieldError]:
    if whole:
        factor = int(factor)
    if factor <= 0:
        words = f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}"
        yield invalid(shown, factor, words)
    elif value % factor if whole else not _is_whole(1 / factor * value if factor < 1 else value / factor):
        yield invalid(shown, value, f"{path} in body should be a multiple of {number_text(factor)}")


def number_text(value: Any) -> str:
    """A number as Go prints it: whole floats without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def _enum_errors(value: Any, allowed: list[Any], shown: str) -> Iterator[FieldError]:
    if value is None or not any(_same(value, one) for one in allowed):
        words = ", ".join(json.dumps(one if isinstance(one, str) else json.dumps(one)) for one in allowed)
        yield FieldError(shown, ErrorType.NOT_SUPPORTED, value, f"supported values: {words}")


def _same(value: Any, allowed: Any) -> bool:
    return isinstance(value, bool) == isinstance(allowed, bool) and bool(value == allowed)


def _list(value: list[Any], raw: Raw, path: str, old: Correlation, root: str, outcome: Outcome) -> None:
    items = raw.get("items")
    if items is not None:
        for index, child in enumerate(value):
            outcome.merge(_ratcheted(child, items, f"{path}[{index}]", old.index(child), root))
    shown, size = _join(root, path), len(value)
    if "minItems" in raw and size < raw["minItems"]:
        outcome.add(invalid(shown, size, f"{path} in body should have at least {raw['minItems']} items"))
    if "maxItems" in raw and size > raw["maxItems"]:
        outcome.add(_too_many(shown, size, raw["maxItems"]))
    if raw.get("uniqueItems") and any(value[index] in value[:index] for index in range(size)):
        outcome.add(invalid(shown, "", f"{path} in body shouldn't contain duplicates"))


def _too_many(shown: str, size: int, limit: int) -> FieldError:
    unit = "item" if limit == 1 else "items"
    return FieldError(shown, ErrorType.TOO_MANY, size, f"must have at most {limit} {unit}")


def _object(value: dict[str, Any], raw: Raw, path: str, old: Correlation, root: str, outcome: Outcome) -> None:
    shown, size = _join(root, path), len(value)
    if "minProperties" in raw and size < raw["minProperties"]:
        outcome.add(invalid(shown, size, f"{path} in body should have at least {raw['minProperties']} properties"))
    if "maxProperties" in raw and size > raw["maxProperties"]:
        outcome.add(_too_many(shown, size, raw["maxProperties"]))
    properties, additional = raw.get("properties", {}), raw.get("additionalProperties")
    for key in sorted(value):
        if key not in properties and isinstance(additional, dict):
            outcome.merge(_ratcheted(value[key], additional, f"{path}.{key}", old.key(key), root))
        elif key not in properties and additional is False:
            outcome.add(invalid(shown, key, f"{path}.{key} in body is a forbidden property"))
    for key, schema in properties.items():
        if key in value:
            related = UNRELATED if not path and not root and key in ("kind", "apiVersion") else old.key(key)
            outcome.merge(_ratcheted(value[key], schema, f"{path}.{key}" if path else key, related, root))
    outcome.add(*(required(_join(root, f"{path}.{key}")) for key in raw.get("required", ()) if key not in value))


def _junctors(value: Any, raw: Raw, path: str, old: Correlation, root: str) -> Outcome:
    outcome = Outcome()
    if raw.get("anyOf"):
        _any_of([_node(value, one, path, old, root) for one in raw["anyOf"]], path, outcome)
    if raw.get("oneOf"):
        _one_of([_node(value, one, path, old, root) for one in raw["oneOf"]], path, outcome)
    if raw.get("allOf"):
        _all_of([_node(value, one, path, old, root) for one in raw["allOf"]], path, outcome)
    if raw.get("not") is not None and not _node(value, raw["not"], path, old, root).errors:
        outcome.add(_junctor_error(path, "must not validate the schema (not)"))
    return outcome


def _junctor_error(path: str, words: str) -> FieldError:
    return invalid(NOWHERE, "", f'"{path}" {words}')


def _best(failures: list[Outcome]) -> Outcome:
    return max(failures, key=lambda one: one.checks)


def _any_of(results: list[Outcome], path: str, outcome: Outcome) -> None:
    passed = next((one for one in results if not one.errors), None)
    if passed is None:
        outcome.add(_junctor_error(path, "must validate at least one schema (anyOf)"))
    outcome.merge(passed or _best(results))


def _one_of(results: list[Outcome], path: str, outcome: Outcome) -> None:
    passed = [one for one in results if not one.errors]
    if len(passed) == 1:
        outcome.merge(passed[0])
        return
    found = f"Found {len(passed)} valid alternatives" if passed else "Found none valid"
    outcome.add(_junctor_error(path, f"must validate one and only one schema (oneOf). {found}"))
    if not passed:
        outcome.merge(_best(results))


def _all_of(results: list[Outcome], path: str, outcome: Outcome) -> None:
    for one in results:
        outcome.merge(one)
    failed = sum(1 for one in results if one.errors)
    if failed:
        words = ". None validated" if failed == len(results) else ""
        outcome.add(_junctor_error(path, f"must validate all the schemas (allOf){words}"))
