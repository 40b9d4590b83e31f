"""Small checks that many kinds share: ports, enums, ranges, quantities, label selectors.

Every function returns field errors; none changes a value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kube_apimachinery import selectors
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, forbidden, invalid, required
from kube_apimachinery.quantity import compare
from kube_embedded.builtins.common.metadata import (
    LABEL,
    SUBDOMAIN,
    key_complaints,
    validate_labels,
    value_complaints,
)
from kube_embedded.schema.cel.program import CelError
from kube_embedded.schema.cel.program import compile as compile_cel

MAX_INT32 = 2**31 - 1
NOT_NEGATIVE = "must be greater than or equal to 0"
_PORT_CHARACTERS = re.compile(r"[-a-z0-9]+")
_PERCENT = re.compile(r"[0-9]+%")


def unsupported(path: str, value: Any, allowed: tuple[str, ...]) -> FieldError:
    """An enum value that is not one of the allowed ones, listed as given."""
    shown = ", ".join(f'"{one}"' for one in allowed)
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {shown}")


def too_long(path: str, limit: int) -> FieldError:
    return FieldError(path, ErrorType.TOO_LONG, None, f"may not be more than {limit} bytes")


def not_found(path: str, value: Any) -> FieldError:
    return FieldError(path, ErrorType.NOT_FOUND, value)


def check_enum(path: str, value: str | None, allowed: tuple[str, ...]) -> list[FieldError]:
    """A required choice."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [unsupported(path, value, allowed)]


def check_not_negative(path: str, value: int | None) -> list[FieldError]:
    return [invalid(path, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def check_port_number(path: str, value: int) -> list[FieldError]:
    return [] if 1 <= value <= 65535 else [invalid(path, value, "must be between 1 and 65535, inclusive")]


@lru_cache(maxsize=1024)
def port_name_complaints(name: str) -> tuple[str, ...]:
    """What is wrong with a port name: at most 15 of a-z, 0-9 and hyphen, with a letter."""
    complaints = []
    if len(name) > 15:
        complaints.append("must be no more than 15 characters")
    if not _PORT_CHARACTERS.fullmatch(name):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= mark <= "z" for mark in name):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in name:
        complaints.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return tuple(complaints)


def check_port(path: str, value: int | str) -> list[FieldError]:
    """A port by number or by name."""
    if isinstance(value, int):
        return check_port_number(path, value)
    return [invalid(path, value, text) for text in port_name_complaints(value)]


def check_label(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, text) for text in LABEL.of_name(value)]


def check_subdomain(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, text) for text in SUBDOMAIN.of_name(value)]


def check_key(path: str, value: str) -> list[FieldError]:
    """A qualified name such as a label key."""
    return [invalid(path, value, text) for text in key_complaints(value)]


def check_quantity(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, NOT_NEGATIVE)] if compare(value, "0") < 0 else []


def check_int_or_percent(path: str, value: int | str) -> list[FieldError]:
    """A count, or a share such as `25%`."""
    if isinstance(value, int):
        return check_not_negative(path, value)
    if _PERCENT.fullmatch(value):
        return []
    detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"  # noqa: E501
    return [invalid(path, value, detail)]


def check_at_most_100_percent(path: str, value: int | str) -> list[FieldError]:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def check_selector(path: str, selector: Object | None) -> list[FieldError]:
    """A label selector with matchLabels and matchExpressions."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        errors += _check_expression(f"{path}.matchExpressions[{index}]", one)
    return errors


def _check_expression(path: str, one: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    values = one.get("values") or []
    match one.get("operator"):
        case "In" | "NotIn":
            if not values:
                errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{path}.values", detail))
        case operator:
            errors.append(invalid(f"{path}.operator", operator or "", "not a valid selector operator"))
    errors += check_key(f"{path}.key", one.get("key", ""))
    for index, value in enumerate(values):
        errors += [invalid(f"{path}.values[{index}]", value, text) for text in value_complaints(value)]
    return errors


def selector_matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether labels satisfy a valid selector; an empty selector matches everything."""
    return selectors.from_object(selector).matches(labels)


def check_cel(path: str, expression: str, names: tuple[str, ...]) -> list[FieldError]:
    """An expression that must compile with these variables, and be a question: true or false."""
    try:
        program = compile_cel(expression, names)
    except CelError as error:
        return [invalid(path, expression, f"compilation failed: {error}")]
    if not program.gives("BOOL"):
        return [invalid(path, expression, "must evaluate to bool")]
    return []


def immutable(path: str, new: Any, old: Any) -> list[FieldError]:
    """A field that may not change."""
    return [] if new == old else [invalid(path, new, "field is immutable")]
