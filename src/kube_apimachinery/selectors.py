"""Label and field selectors, as text and as objects, turned into something that can be asked "does it match?".

A selector never looks at a whole object: it is given the labels, or the few fields that can be selected by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from kube_apimachinery import name_validation


class SelectorError(ValueError):
    """The text is not a selector."""


class Operator(Enum):
    """How a requirement compares; the value is the spelling in objects."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `NotIn` holds for objects without the label, as in Kubernetes."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        found, bound = _integer(value), _integer(next(iter(self.values), None))
        if found is None or bound is None:
            return False
        return found > bound if self.operator is Operator.GREATER else found < bound

    def __str__(self) -> str:
        shown = ",".join(sorted(self.values))
        match self.operator:
            case Operator.IN:
                return f"{self.key}={shown}" if len(self.values) == 1 else f"{self.key} in ({shown})"
            case Operator.NOT_IN:
                return f"{self.key}!={shown}" if len(self.values) == 1 else f"{self.key} notin ({shown})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GREATER:
                return f"{self.key}>{shown}"
            case Operator.LESS:
                return f"{self.key}<{shown}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none selects everything. `nothing` is what an absent LabelSelector selects."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.nothing and all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(one) for one in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> Selector:
    """`app=web,tier in (a,b),!legacy,size>3`; raises SelectorError with the words of Kubernetes."""
    found = sorted(_Parser(text).requirements(), key=lambda one: one.key)
    return Selector(tuple(found)) if found else EVERYTHING


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Equality on every given label, as a Service's or a ReplicationController's selector."""
    return Selector(tuple(Requirement(key, Operator.IN, frozenset({labels[key]})) for key in sorted(labels)))


def from_object(selector: Mapping[str, Any] | None) -> Selector:
    """A LabelSelector object; absent selects nothing, `{}` everything."""
    if selector is None:
        return NOTHING
    equal = from_labels(selector.get("matchLabels") or {}).requirements
    return Selector(equal + tuple(requirement(one) for one in selector.get("matchExpressions") or ()))


def requirement(expression: Mapping[str, Any]) -> Requirement:
    """One entry of `matchExpressions`, of a LabelSelector or of a node selector term."""
    try:
        operator = Operator(expression.get("operator"))
    except ValueError:
        raise SelectorError(f'"{expression.get("operator")}" is not a valid label selector operator') from None
    return Requirement(str(expression.get("key", "")), operator, frozenset(expression.get("values") or ()))


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`field=value`, or `field!=value`."""

    field: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold. Which fields exist is the server's affair: `fields` says what is asked for."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, values: Mapping[str, str]) -> bool:
        return all((values.get(term.field, "") == term.value) is term.equal for term in self.terms)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(term.field for term in self.terms)

    def required(self, field: str) -> str | None:
        """The value that the field must have, if the selector says so."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    r"""`metadata.name=a,spec.nodeName!=b`; `\\`, `\,` and `\=` stand for the plain character in a value."""
    parts = re.findall(r"(?:\\.|[^\\,]|\\$)+", text, re.DOTALL)
    return FieldSelector(tuple(_field_term(part, text) for part in sorted(parts)))


def _field_term(part: str, text: str) -> FieldTerm:
    match = re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
    if match is None:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    return FieldTerm(match[1], match[2] != "!=", _unescape(match[3]))


def _unescape(value: str) -> str:
    for found in re.finditer(r"\\(.?)|([,=])", value, re.DOTALL):
        if found[2]:
            raise SelectorError(f"invalid field selector: unescaped character in value: {found[2]}")
        if found[1] not in ("\\", ",", "=") or not found[1]:
            raise SelectorError(f"invalid field selector: invalid escape sequence: {found[0]}")
    return re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) else None


_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|>|<|\(|\)|,)|([^=!(),><\s]+)|$)")
_BINARY = {"in": Operator.IN, "notin": Operator.NOT_IN, "=": Operator.IN, "==": Operator.IN, "!=": Operator.NOT_IN}
_BINARY |= {">": Operator.GREATER, "<": Operator.LESS}
_END = ""
_SYMBOLS = frozenset({"==", "!=", "=", "!", ">", "<", "(", ")", ",", _END})


class _Parser:
    """Recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] or match[2] or _END for match in _TOKEN.finditer(text.rstrip())] or [_END]
        self._next = 0

    def requirements(self) -> Sequence[Requirement]:
        found: list[Requirement] = []
        if self._peek() == _END:
            return found
        while True:
            if self._peek() != "!" and not self._at_word():
                raise SelectorError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            token = self._take()
            if token == _END:
                return found
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() != "!" and not self._at_word():
                raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!" and self._take() == "!"
        key = self._word("identifier")
        complaints = name_validation.qualified_name(key)
        if complaints:
            raise _unparsable(f'<nil>: Invalid value: "{key}": {"; ".join(complaints)}')
        if negated or self._peek() in (",", _END):
            return Requirement(key, Operator.DOES_NOT_EXIST if negated else Operator.EXISTS)
        sign = self._take()
        if sign not in _BINARY:
            raise _unparsable(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if sign in ("in", "notin") else frozenset({self._exact()})
        return _checked(Requirement(key, _BINARY[sign], values))

    def _values(self) -> frozenset[str]:
        if self._peek() != "(":
            raise _unparsable(f"found '{self._peek()}' expected: '('")
        self._take()
        values: set[str] = set()
        while True:
            values.add("" if self._peek() in (",", ")") else self._word("',', or identifier"))
            token = self._take()
            if token == ")":
                return frozenset(values)
            if token != ",":
                raise _unparsable(f"found '{token}', expected: ',' or ')'")

    def _exact(self) -> str:
        return "" if self._peek() in (",", _END) else self._word("identifier")

    def _word(self, expected: str) -> str:
        if not self._at_word():
            raise _unparsable(f"found '{self._peek()}', expected: {expected}")
        return self._take()

    def _at_word(self) -> bool:
        return self._peek() not in _SYMBOLS

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _checked(found: Requirement) -> Requirement:
    for value in sorted(found.values):
        if found.operator in (Operator.GREATER, Operator.LESS) and _integer(value) is None:
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _unparsable(f'values[0]: Invalid value: "{value}": {text}')
        complaints = name_validation.label_value(value)
        if complaints:
            raise _unparsable(f'values[0][{found.key}]: Invalid value: "{value}": {"; ".join(complaints)}')
    return found


def _unparsable(text: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {text}")
