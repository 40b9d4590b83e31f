"""Validates custom objects: a compiled check says yes in microseconds; the explanation is asked only when it says no.

The compiled check may refuse what is valid (the explanation then finds nothing), but never passes what is not. The
explanation is the judge of validity: every error at once, with its path, in the words of kube-apiserver.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from kube_apimachinery.field_errors import ErrorType, FieldError, duplicate, invalid, required
from kube_embedded.schema import formats
from kube_embedded.schema.model import ListType, Raw, Schema, Shape


class UniqueLists:
    """The sets and maps of one schema, which must not recurse. Only what leads to them is visited."""

    def __init__(self, schema: Schema) -> None:
        self._plan = _planned(schema)

    def validate(self, obj: Any) -> list[FieldError]:
        """Duplicates in sets, and items with the same keys in maps; the second appearance is named."""
        errors: list[FieldError] = []
        if self._plan is not None and not _is_fine(obj, self._plan):
            _visit(obj, self._plan, "", errors)
        return errors


@dataclass(slots=True)
class _Plan:
    """What is unique at a place, and where to go on. `keys` is () for a set, None where nothing is unique."""

    keys: tuple[str, ...] | None
    below: tuple[tuple[str, _Plan], ...]
    each: _Plan | None  # for the items of a list, or the values of a map


def _planned(schema: Schema) -> _Plan | None:
    unique = schema.shape is Shape.LIST and schema.list_type is not ListType.ATOMIC
    found = ((key, _planned(child)) for key, child in schema.properties.items())
    below = tuple((key, plan) for key, plan in found if plan is not None)
    inner = schema.additional if schema.additional is not None else schema.items
    each = _planned(inner) if inner is not None else None
    if not (unique or below or each):
        return None
    return _Plan(schema.list_keys if unique else None, below, each)


def _is_fine(value: Any, plan: _Plan) -> bool:
    """The usual case: nothing is repeated, and no paths are spelled. In doubt the answer is no."""
    keys, each = plan.keys, plan.each
    if value.__class__ is dict:
        for key, inner in plan.below:
            if (child := value.get(key)) is not None and not _is_fine(child, inner):
                return False
        return each is None or all(_is_fine(child, each) for child in value.values())
    if value.__class__ is not list:
        return True
    if keys is not None and not _are_distinct(value, keys):
        return False
    if each is not None:
        for child in value:
            if not _is_fine(child, each):
                return False
    return True


def _are_distinct(values: list[Any], keys: tuple[str, ...]) -> bool:
    try:
        match keys:
            case ():
                found = set(values)
            case (key,):
                found = {value[key] for value in values}
            case _:
                found = {tuple([value[key] for key in keys]) for value in values}
    except (KeyError, TypeError, IndexError):
        return False
    return len(found) == len(values)


def _visit(value: Any, plan: _Plan, path: str, errors: list[FieldError]) -> None:
    if value.__class__ is dict:
        for key, inner in plan.below:
            if (child := value.get(key)) is not None:
                _visit(child, inner, f"{path}.{key}" if path else key, errors)
        if plan.each is not None:
            for key, child in value.items():
                _visit(child, plan.each, f"{path}[{key}]", errors)
    elif value.__class__ is list:
        if plan.keys is not None and len(value) > 0:
            errors += _keyed(value, plan.keys, path) if plan.keys else _distinct(value, path)
        if plan.each is not None:
            for index, child in enumerate(value):
                _visit(child, plan.each, f"{path}[{index}]", errors)


def _distinct(values: list[Any], path: str) -> list[FieldError]:
    return [duplicate(f"{path}[{index}]", values[index]) for index in _repeated(values)]


def _keyed(values: list[Any], keys: tuple[str, ...], path: str) -> list[FieldError]:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, dict):
            return [invalid(f"{path}[{index}]", value, "must be an object for an array of list-type map")]
    found = [{key: item[key] for key in keys if key in item} if item else {} for item in values]
    return [duplicate(f"{path}[{index}]", found[index]) for index in _repeated(found)]


def _repeated(values: list[Any]) -> list[int]:
    """The index at which a value appears for the second time."""
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    repeated = []
    for index, value in enumerate(values):
        identity = _identity(value)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            repeated.append(index)
    return repeated


def _identity(value: Any) -> Any:
    """Something hashable that only the same value has; true is not 1."""
    if value.__class__ is str:
        return value
    if isinstance(value, dict):
        return frozenset((key, _identity(child)) for key, child in value.items())
    if isinstance(value, list):
        return (list, *map(_identity, value))
    return (value.__class__, value)


@dataclass(frozen=True, slots=True)
class Correlation:
    """The old value at this place, if there is one, and the schema by which its parts are found."""

    present: bool
    old: Any = None
    schema: Schema | None = None

    def unchanged(self, new: Any) -> bool:
        return self.present and same(new, self.old)

    def key(self, name: str) -> Correlation:
        schema = self.schema
        if not self.present or schema is None or not isinstance(self.old, dict) or name not in self.old:
            return UNRELATED
        child = schema.properties.get(name, schema.additional)
        return Correlation(True, self.old[name], child) if child is not None else UNRELATED

    def index(self, new: Any) -> Correlation:
        """The old item with the keys of the new one."""
        schema = self.schema
        if not self.present or schema is None or schema.items is None:
            return UNRELATED
        found = old_item(self.old, schema, new)
        return Correlation(True, found, schema.items) if found is not None else UNRELATED


UNRELATED = Correlation(False)


def old_item(old: Any, schema: Schema, new: Any) -> Any:
    """The item of a list with keys that continues as `new`; None when there is none, or none can be told."""
    if schema.shape is not Shape.LIST or schema.list_type is not ListType.MAP:
        return None
    if not isinstance(old, list) or not isinstance(new, dict):
        return None
    keys = [(key, new.get(key)) for key in schema.list_keys]
    for item in old:
        if isinstance(item, dict) and all(same(item.get(key), value) for key, value in keys):
            return item
    return None


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values; true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


_AS_THEY_ARE = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "required", "enum")


class Validator:
    """The validation of one schema; `raw` is its OpenAPI form."""

    def __init__(self, raw: Raw, root: str = "") -> None:
        self._raw = raw
        self._root = root
        self._passes = _compiled(raw)

    def validate(self, value: Any) -> list[FieldError]:
        """Every error of a new object."""
        if self._passes(value):
            return []
        return explain(value, self._raw, UNRELATED, self._root)

    def validate_update(self, value: Any, old: Any, schema: Schema) -> list[FieldError]:
        """Every error of a changed object but those of parts that did not change."""
        if self._passes(value):
            return []
        return explain(value, self._raw, Correlation(True, old, schema), self._root)


def _compiled(raw: Raw) -> Callable[[Any], bool]:
    checks: dict[str, Callable[[str], bool]] = {}
    validator = jsonschema_rs.Draft7Validator(
        _gate(raw, checks), formats=checks, validate_formats=True, pattern_options=jsonschema_rs.RegexOptions()
    )
    return validator.is_valid


def _gate(raw: Raw, checks: dict[str, Callable[[str], bool]]) -> Raw:
    """The JSON Schema that passes nothing which the OpenAPI schema refuses."""
    gate: Raw = {key: raw[key] for key in _AS_THEY_ARE if raw.get(key) not in (None, [])}
    _gate_type(raw, gate, checks)
    for bound in ("minimum", "maximum"):
        if bound in raw:
            exclusive = "exclusive" + bound.capitalize()
            gate[exclusive if raw.get(exclusive) else bound] = raw[bound]
    if "multipleOf" in raw:
        _gate_factor(raw["multipleOf"], gate)
    if "pattern" in raw:
        _gate_pattern(raw["pattern"], gate, checks)
    if "properties" in raw:
        gate["properties"] = {key: _gate(value, checks) for key, value in raw["properties"].items()}
    if "items" in raw:
        gate["items"] = _gate(raw["items"], checks)
    additional = raw.get("additionalProperties")
    if additional is not None:
        gate["additionalProperties"] = _gate(additional, checks) if isinstance(additional, dict) else additional
    for junctor in ("anyOf", "oneOf", "allOf"):
        if raw.get(junctor):
            gate[junctor] = [_gate(one, checks) for one in raw[junctor]]
    if raw.get("not") is not None:
        gate["not"] = _gate(raw["not"], checks)
    if not all(_is_exact(one) for one in (*raw.get("oneOf", ()), raw.get("not") or {})):
        gate.setdefault("allOf", []).append(False)
    if raw.get("uniqueItems"):
        gate["uniqueItems"] = True
    if raw.get("nullable") and not raw.get("enum"):
        return {"anyOf": [{"type": "null"}, gate]}
    return gate


def _is_exact(raw: Raw) -> bool:
    """Under a negation "too strict" becomes "too lenient", so that a check must there be neither."""
    if not float(raw.get("multipleOf", 1)).is_integer():
        return False
    nested = [raw.get("items"), raw.get("additionalProperties"), raw.get("not"), *raw.get("properties", {}).values()]
    for junctor in ("anyOf", "oneOf", "allOf"):
        nested += raw.get(junctor, ())
    return all(_is_exact(one) for one in nested if isinstance(one, dict))


_FLOAT_LIMIT = 3.4e38
_INTEGER_LIMITS = {"int32": 2**31, "int64": 2**63, "": 2**63}


def _gate_type(raw: Raw, gate: Raw, checks: dict[str, Callable[[str], bool]]) -> None:
    if raw.get("x-kubernetes-int-or-string"):
        gate["type"] = ["integer", "string"]
        gate["allOf"] = [_integer_range("")]
        return
    name = raw.get("type", "")
    if name:
        gate["type"] = name
    format_name = formats.effective(name, raw.get("format", ""))
    if name == "integer":
        gate["allOf"] = [_integer_range(format_name)]
    elif name == "number" and format_name == "float":
        gate["allOf"] = [{"minimum": -_FLOAT_LIMIT, "maximum": _FLOAT_LIMIT}]
    elif format_name and (check := formats.string_check(format_name)) is not None:
        gate["format"] = f"kubernetes:{format_name}"
        checks[gate["format"]] = check


def _integer_range(format_name: str) -> Raw:
    limit = _INTEGER_LIMITS[format_name]
    return {"minimum": -limit, "maximum": limit - 1}


def _gate_factor(factor: Any, gate: Raw) -> None:
    """Kubernetes cuts the fraction off the factor where the value is whole: only whole factors can be passed."""
    if factor > 0 and float(factor).is_integer():
        gate["multipleOf"] = int(factor)
    else:
        gate.setdefault("allOf", []).append(False)


def _gate_pattern(pattern: str, gate: Raw, checks: dict[str, Callable[[str], bool]]) -> None:
    if formats.is_plain(pattern):
        gate["pattern"] = pattern
        return
    name = f"regex:{pattern}"
    checks[name] = formats.matcher(pattern)
    gate.setdefault("allOf", []).append({"format": name})


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
    elif pattern and not formats.matcher(pattern)(value):
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
