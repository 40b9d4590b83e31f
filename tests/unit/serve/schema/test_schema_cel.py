"""Expressions over any values, as webhooks and rules use them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kube_embedded.schema.cel.program import CelError, compile, compile_typed
from kube_embedded.schema.cel.types import adapt, declared, escape, project

EVALUATED: list[tuple[str, dict[str, Any], Any]] = [
    ('object.metadata.name == "x"', {"object": {"metadata": {"name": "x"}}}, True),
    ('request.operation in ["CREATE", "UPDATE"]', {"request": {"operation": "DELETE"}}, False),
    ("has(oldObject.spec)", {"oldObject": {}}, False),
    ("oldObject == null", {"oldObject": None}, True),
    ('object.?spec.?a.orValue("none")', {"object": {}}, "none"),
    ("object.l.map(x, x * 2)", {"object": {"l": [1, 2]}}, [2, 4]),
    ("size(object.l) > 1.5", {"object": {"l": [1, 2]}}, True),
    ('quantity("1000m") == quantity("1")', {}, True),
    ('quantity("1").add(quantity("500m")).compareTo(quantity("1500m"))', {}, 0),
    ('quantity("3").sub(1).asInteger()', {}, 2),
    ('quantity("1500m").asApproximateFloat()', {}, 1.5),
    ('sign(quantity("-1"))', {}, -1),
    ('semver("v1.2", true).minor()', {}, 2),
    ('semver("1.2.3-alpha.1").isLessThan(semver("1.2.3-alpha.10"))', {}, True),
    ('string(ip("10.0.0.1").isGlobalUnicast())', {}, "true"),
    ('cidr("10.0.0.1/8").masked() == cidr("10.0.0.0/8")', {}, True),
    ('cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")', {}, True),
    ('isIP("::ffff:1.2.3.4")', {}, False),
    ('url("https://a.b:80/x?q=1&q=2").getQuery()["q"][1]', {}, "2"),
    ('format.named("nonsense").hasValue()', {}, False),
    ('format.dns1035Label().validate("1a").value().size()', {}, 1),
    ('"a1b22".findAll("[0-9]+", 1)', {}, ["1"]),
    ("[1, 2, 2].lastIndexOf(2)", {}, 2),
    ('["b", "a"].isSorted()', {}, False),
    ("[1, 2].all(i, v, v > i)", {}, True),
    ("sets.intersects([1, 2], [2, 3])", {}, True),
]


_LONG = "9" * 5000


@pytest.mark.parametrize(("expression", "bindings", "expected"), EVALUATED, ids=[row[0] for row in EVALUATED])
def test_an_expression_has_a_value(expression: str, bindings: dict[str, Any], expected: Any) -> None:
    assert compile(expression).evaluate(bindings) == expected


@pytest.mark.parametrize(
    ("expression", "bindings", "words"),
    [
        ("object.a.b", {"object": {}}, "no such key: a"),
        ("object.l[5]", {"object": {"l": []}}, "index out of bounds: 5"),
        ("1 / 0", {}, "division by zero"),
        ("object.a + 1", {"object": {"a": "s"}}, "no such overload"),
        ('int("x")', {}, "type conversion error from 'string' to 'int'"),
        ("object.x", {}, "no such attribute(s): object"),
        ("[].max()", {}, "max called on empty list"),
        ('ip("x")', {}, 'IP Address "x" parse error during conversion from string'),
        ('semver("x")', {}, "invalid semantic version: x"),
        (f'semver("1.{_LONG}.0")', {}, f"invalid semantic version: 1.{_LONG}.0"),
        (f'semver("v{_LONG}", true)', {}, f"invalid semantic version: v{_LONG}"),
        (f'semver("1.0.0-{_LONG}")', {}, f"invalid semantic version: 1.0.0-{_LONG}"),
        (
            f'cidr("10.0.0.0/{_LONG}")',
            {},
            f'network address parse error during conversion from string: "10.0.0.0/{_LONG}"',
        ),
    ],
)
def test_an_expression_that_fails_says_why(expression: str, bindings: dict[str, Any], words: str) -> None:
    with pytest.raises(CelError) as failed:
        compile(expression).evaluate(bindings)
    assert str(failed.value) == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("object.x >", "ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>'"),
        ("other.x", "undeclared reference to 'other"),
        ("foo(object)", "undeclared reference to 'foo'"),
        ("1 + 'a'", "found no matching overload for '_+_' applied to '(int, string)'"),
    ],
)
def test_an_expression_that_cannot_be_compiled_is_refused(expression: str, words: str) -> None:
    with pytest.raises(CelError) as refused:
        compile(expression)
    assert words in str(refused.value)


def test_false_needs_no_right_side() -> None:
    assert compile("false && object.missing").evaluate({"object": {}}) is False


def test_other_names_can_be_declared() -> None:
    assert compile("authorizer == 1", ("authorizer",)).evaluate({"authorizer": 1}) is True


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("plain", "plain"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("__x", "__underscores__x"),
        ("namespace", "__namespace__"),
        ("1a", None),
        ("a b", None),
    ],
)
def test_names_are_escaped_as_kubernetes_escapes_them(name: str, spelled: str | None) -> None:
    assert escape(name) == spelled


def test_fields_without_a_type_are_hidden_from_rules() -> None:
    raw = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"x-kubernetes-preserve-unknown-fields": True}},
    }
    kind = declared(raw)
    assert kind is not None
    with pytest.raises(CelError, match="undefined field 'b'"):
        compile_typed("self.b == 1", {"self": kind})


READ = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string", "format": "date"}, "name": {"type": "string"}},
            },
        },
        "limits": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"for": {"type": "string", "format": "duration"}}},
        },
        "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}
VALUE = {
    "at": "2026-01-02T00:00:00Z",
    "times": ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"],
    "steps": [{"at": "2026-01-01", "name": "a"}, {"at": "2026-01-05", "name": "b"}],
    "limits": {"slow": {"for": "90m"}, "fast": {"for": "5s"}},
    "names": ["a", "b"],
}


@pytest.mark.parametrize(
    "expression",
    [
        "self.at > timestamp('2026-01-01T00:00:00Z')",
        "self.times.all(t, t.getFullYear() == 2026)",
        "self.times[1] - self.times[0] == duration('48h')",
        "self.times.max() > self.at",
        "(self.at > self.times[0] ? self.at : self.times[0]).getDate() == 2",
        "self.steps.filter(s, s.name == 'b')[0].at.getDate() == 5",
        "self.steps.map(s, s.at).exists(t, t > self.at)",
        "self.?at.orValue(timestamp('2020-01-01T00:00:00Z')).getFullYear() == 2026",
        "self.steps[?0].optMap(s, s.at.getDate() == 1).orValue(false)",
        "self.limits.slow.__for__ > self.limits['fast'].__for__",
        "self.limits.all(name, self.limits[name].__for__ < duration('2h'))",
        "self.limits.all(name, limit, limit.__for__ < duration('2h'))",
        "self.names == ['b', 'a']",
        "self.steps.all(s, self.names.exists(n, n == s.name)) && size(self.times) == 2",
    ],
)
def test_values_are_followed_through_an_expression(expression: str) -> None:
    """Times are read from their text and sets compared as sets wherever they come from, and no part read is missing."""
    kind = declared(READ)
    assert kind is not None
    program = compile_typed(expression, {"self": kind})
    assert program.evaluate({"self": project(VALUE, kind, program.uses["self"])}) is True


def test_only_the_parts_that_are_read_are_handed_over() -> None:
    kind = declared(READ)
    assert kind is not None
    program = compile_typed("self.steps.all(s, has(s.name)) && self.names.size() > 1", {"self": kind})
    handed = project(VALUE, kind, program.uses["self"])
    assert handed == {"steps": [{"name": "a"}, {"name": "b"}], "names": ["a", "b"]}


@pytest.mark.parametrize(
    ("raw", "rule"),
    [({"type": "integer"}, "self == 'x'"), ({"type": "string"}, "self + 1"), ({"type": "boolean"}, "self.size() > 0")],
)
def test_scalars_are_checked_by_the_engine(raw: dict[str, Any], rule: str) -> None:
    kind = declared(raw)
    assert kind is not None
    with pytest.raises(CelError, match="no matching overload"):
        compile_typed(rule, {"self": kind})


def test_whole_numbers_are_floats_where_the_schema_says_number() -> None:
    kind = declared({"type": "array", "items": {"type": "number"}})
    assert kind is not None
    assert [type(one) for one in adapt([1, 2.5], kind)] == [float, float]


def test_the_engine_is_loaded_only_when_an_expression_is_compiled() -> None:
    probe = (
        "import sys; import kube_embedded.customresources; "
        "assert not any(name.startswith('cel_expr') for name in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
