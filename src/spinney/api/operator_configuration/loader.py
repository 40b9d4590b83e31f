"""From the text of the file to a configuration, or to every problem in it.

Never stops at the first problem, and never lets a misspelled field pass as absent.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from kube_apimachinery.field_errors import OMITTED, ErrorType, FieldError, invalid
from spinney.api.documents import DocumentError, read_document
from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration.model import OperatorConfiguration, Profile
from spinney.api.operator_configuration.validation import check

BACKENDS = (SCHEDULER_KAI, SCHEDULER_DEFAULT)
"""The scheduler back-ends that come with the operator."""

S = TypeVar("S", bound=msgspec.Struct)


class ConfigurationError(ValueError):
    """The file cannot be used; one line for each problem, each naming its field."""

    def __init__(self, problems: Sequence[FieldError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def load_configuration(text: bytes | str, backends: Sequence[str] = BACKENDS) -> OperatorConfiguration:
    """The configuration in a YAML text; an empty one is all defaults. `backends` may be named by profiles."""
    document = _parsed(text)
    problems: list[FieldError] = []
    configuration = _completed(_read(OperatorConfiguration, document, "", problems))
    problems += check(configuration, document, backends)
    if problems:
        raise ConfigurationError(problems)
    return configuration


def fields_given(text: bytes | str) -> frozenset[str]:
    """The fields of the whole file that a text which can be used has values for."""
    return frozenset(key for key, value in _parsed(text).items() if value is not None)


def _parsed(text: bytes | str) -> dict[str, Any]:
    try:
        document = read_document(text)
    except DocumentError as error:
        raise ConfigurationError([invalid("<file>", OMITTED, _words(error))]) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        found = type(document).__name__
        raise ConfigurationError([FieldError("<file>", ErrorType.TYPE_INVALID, found, "must be an object")])
    return document


def _words(error: DocumentError) -> str:
    return error.problem if error.column is None else f"line {error.line}, column {error.column}: {error.problem}"


def _completed(configuration: OperatorConfiguration) -> OperatorConfiguration:
    """The default scheduler is always among the profiles."""
    scheduler = configuration.scheduler
    if any(profile.name == SCHEDULER_DEFAULT for profile in scheduler.profiles):
        return configuration
    profiles = (*scheduler.profiles, Profile(name=SCHEDULER_DEFAULT))
    return msgspec.structs.replace(configuration, scheduler=msgspec.structs.replace(scheduler, profiles=profiles))


def _read(kind: type[S], given: Any, path: str, problems: list[FieldError]) -> S:
    """A part with what could be read of it; what could not has its default, and a problem."""
    if not isinstance(given, dict):
        problems.append(FieldError(path, ErrorType.TYPE_INVALID, given, "must be an object"))
        given = {}
    fields = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    for key in given:
        if key not in fields:
            known = ", ".join(sorted(fields))
            problems.append(
                FieldError(_at(path, str(key)), ErrorType.FORBIDDEN, None, f"unknown field; known: {known}")
            )
    values: dict[str, Any] = {}
    for key, one in fields.items():
        where = _at(path, key)
        if given.get(key) is not None:
            read = _value(one.type, given[key], where, problems)
            if read is not None:
                values[one.name] = read
        elif one.required:
            problems.append(FieldError(where, ErrorType.REQUIRED))
        if one.required and one.name not in values:
            values[one.name] = ""
    return kind(**values)


def _value(wanted: Any, given: Any, path: str, problems: list[FieldError]) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        wanted = next(one for one in get_args(wanted) if one is not types.NoneType)
    item = get_args(wanted)[0] if get_origin(wanted) is tuple else None
    if _is_part(wanted):
        return _read(wanted, given, path, problems)
    if item is not None and _is_part(item):
        return _each(given, path, problems, lambda one, where: _read(item, one, where, problems))
    try:
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        allowed = get_args(wanted) if isinstance(given, str) else ()
        detail = (
            f"must be one of [{' '.join(allowed)}]" if allowed and item is None else str(error).partition(" - at")[0]
        )
        problems.append(invalid(path, given, detail))
        return None


def _each(given: Any, path: str, problems: list[FieldError], read: Callable[[Any, str], Any]) -> tuple[Any, ...] | None:
    if not isinstance(given, list):
        problems.append(FieldError(path, ErrorType.TYPE_INVALID, given, "must be a list"))
        return None
    return tuple(_known(read(one, f"{path}[{index}]") for index, one in enumerate(given)))


def _known(values: Iterable[Any]) -> Iterable[Any]:
    return (value for value in values if value is not None)


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
