"""Objects of a request as typed values; what cannot be read is told by its field.

Never raises, whatever the JSON is: rules must answer for every input.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import OMITTED, ErrorType, FieldError
from spinney.api.meta import Kind

K = TypeVar("K", bound=Kind)
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)


def read(obj: Any, kind: type[K]) -> K | FieldError:
    """The object as a value of its kind."""
    try:
        return msgspec.convert(obj, kind)
    except msgspec.ValidationError as error:
        found = _AT.match(str(error))
        what, path = (found["what"], found["path"] or "") if found else (str(error), "")
        return FieldError(path, ErrorType.TYPE_INVALID, OMITTED, what)
    except (RecursionError, OverflowError, ValueError) as error:
        return FieldError("", ErrorType.TYPE_INVALID, OMITTED, f"cannot be read: {error}")


def part(value: Any, *keys: str) -> Object:
    """The object under a path of keys; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""
