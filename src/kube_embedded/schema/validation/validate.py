"""Validates custom objects: a compiled check says yes in microseconds; the explanation is asked only when it says no.

The compiled check may refuse what is valid (the explanation then finds nothing), but never passes what is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema_rs

from kube_apimachinery.field_errors import FieldError
from kube_embedded.schema.model import Raw, Schema
from kube_embedded.schema.validation import formats, regex
from kube_embedded.schema.validation.correlation import UNRELATED, Correlation
from kube_embedded.schema.validation.explain import explain

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
    if regex.is_plain(pattern):
        gate["pattern"] = pattern
        return
    name = f"regex:{pattern}"
    checks[name] = regex.matcher(pattern)
    gate.setdefault("allOf", []).append({"format": name})
