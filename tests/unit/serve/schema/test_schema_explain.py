"""What kube-apiserver 1.36 says about values that do not fit; the texts are its own."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.schema.shaping import compile_structural, default, prune
from kube_embedded.schema.validate import UniqueLists, Validator
from unit.serve.schema.schema_kit import INTEGER, STRING, keyed, obj, spec, told

_FORMATS = {
    "dt": "date-time",
    "d": "duration",
    "by": "byte",
    "ip": "ipv4",
    "u": "uuid",
    "uri": "uri",
    "em": "email",
    "h": "hostname",
    "c": "cidr",
    "da": "date",
    "ks": "k8s-short-name",
}
_PAIR = obj(a=STRING, b=STRING)
RAW = spec(
    i={"type": "integer", "format": "int32", "minimum": 1, "maximum": 5},
    n={"type": "number", "multipleOf": 0.5, "exclusiveMaximum": True, "maximum": 10},
    s={"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
    e={"type": "string", "enum": ["b", "a"]},
    ei={"type": "integer", "enum": [1, 2]},
    l={"type": "array", "items": STRING, "minItems": 1, "maxItems": 2},
    st={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    m=keyed(v=INTEGER),
    mm=keyed(keys=("k", "p"), p={"type": "string", "default": "TCP"}),
    ios={"x-kubernetes-int-or-string": True},
    iosp={
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+%?$",
        "x-kubernetes-int-or-string": True,
    },
    mp={"type": "object", "additionalProperties": INTEGER, "maxProperties": 2, "minProperties": 1},
    nu={"type": "string", "nullable": True},
    nn=STRING,
    o={**_PAIR, "required": ["a", "b"]},
    ao={**_PAIR, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    an={**_PAIR, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    no={**_PAIR, "not": {"required": ["a", "b"]}},
    al={"type": "string", "allOf": [{"minLength": 3}, {"pattern": "^a"}]},
    b={"type": "boolean"},
    pu={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    **{name: {"type": "string", "format": form} for name, form in _FORMATS.items()},
)
SCHEMA = compile_structural(RAW)
VALIDATOR, LISTS = Validator(RAW), UniqueLists(SCHEMA)

REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"i": 0}, ["spec.i: Invalid value: 0: spec.i in body should be greater than or equal to 1"]),
    ({"i": 9}, ["spec.i: Invalid value: 9: spec.i in body should be less than or equal to 5"]),
    (
        {"i": 2.5},
        [
            'spec.i: Invalid value: "float64": spec.i in body must be of type int32: "float64"',
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i',
        ],
    ),
    ({"i": "x"}, ['spec.i: Invalid value: "string": spec.i in body must be of type integer: "string"']),
    ({"i": True}, ['spec.i: Invalid value: "": spec.i in body must be of type int32: ""']),
    (
        {"i": 1099511627776},
        [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i',
            "spec.i: Invalid value: 1099511627776: spec.i in body should be less than or equal to 5",
        ],
    ),
    ({"n": 0.3}, ["spec.n: Invalid value: 0.3: spec.n in body should be a multiple of 0.5"]),
    (
        {"n": 10},
        [
            "spec.n: Invalid value: 0: factor MultipleOf declared for spec.n must be positive: 0",
            "spec.n: Invalid value: 10: spec.n in body should be less than 10",
        ],
    ),
    (
        {"n": 11},
        [
            "spec.n: Invalid value: 0: factor MultipleOf declared for spec.n must be positive: 0",
            "spec.n: Invalid value: 11: spec.n in body should be less than 10",
        ],
    ),
    ({"n": 1}, ["spec.n: Invalid value: 0: factor MultipleOf declared for spec.n must be positive: 0"]),
    ({"s": "a"}, ['spec.s: Invalid value: "a": spec.s in body should be at least 2 chars long']),
    ({"s": "abcde"}, ["spec.s: Too long: may not be more than 4 bytes"]),
    ({"s": "A1"}, ["spec.s: Invalid value: \"A1\": spec.s in body should match '^[a-z]+$'"]),
    ({"s": 5}, ['spec.s: Invalid value: "integer": spec.s in body must be of type string: "integer"']),
    ({"s": {}}, ['spec.s: Invalid value: "object": spec.s in body must be of type string: "object"']),
    ({"s": []}, ['spec.s: Invalid value: "array": spec.s in body must be of type string: "array"']),
    ({"e": "c"}, ['spec.e: Unsupported value: "c": supported values: "b", "a"']),
    ({"e": ""}, ['spec.e: Unsupported value: "": supported values: "b", "a"']),
    (
        {"e": 3},
        [
            'spec.e: Invalid value: "integer": spec.e in body must be of type string: "integer"',
            'spec.e: Unsupported value: 3: supported values: "b", "a"',
        ],
    ),
    ({"ei": 5}, ['spec.ei: Unsupported value: 5: supported values: "1", "2"']),
    (
        {"ei": "1"},
        [
            'spec.ei: Invalid value: "string": spec.ei in body must be of type integer: "string"',
            'spec.ei: Unsupported value: "1": supported values: "1", "2"',
        ],
    ),
    ({"l": []}, ["spec.l: Invalid value: 0: spec.l in body should have at least 1 items"]),
    ({"l": ["a", "b", "c"]}, ["spec.l: Too many: 3: must have at most 2 items"]),
    ({"l": ["a", 1]}, ['spec.l[1]: Invalid value: "integer": spec.l[1] in body must be of type string: "integer"']),
    ({"l": "x"}, ['spec.l: Invalid value: "string": spec.l in body must be of type array: "string"']),
    ({"l": {}}, ['spec.l: Invalid value: "object": spec.l in body must be of type array: "object"']),
    ({"l": [None]}, ['spec.l[0]: Invalid value: "null": spec.l[0] in body must be of type string: "null"']),
    ({"st": ["a", "a", "a"]}, ['spec.st[1]: Duplicate value: "a"']),
    ({"m": [{"k": "a"}, {"k": "a"}]}, ['spec.m[1]: Duplicate value: {"k":"a"}']),
    ({"m": [{"v": 1}]}, ["spec.m[0].k: Required value"]),
    (
        {"m": [{"k": "a"}, {"v": 2}, {"k": "a", "v": "x"}]},
        [
            "spec.m[1].k: Required value",
            'spec.m[2].v: Invalid value: "string": spec.m[2].v in body must be of type integer: "string"',
            'spec.m[2]: Duplicate value: {"k":"a"}',
        ],
    ),
    ({"mm": [{"k": "a"}, {"k": "a", "p": "TCP"}]}, ['spec.mm[1]: Duplicate value: {"k":"a","p":"TCP"}']),
    ({"ios": True}, ['spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean"']),
    ({"ios": 1.5}, ['spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number"']),
    ({"ios": {}}, ['spec.ios: Invalid value: "object": spec.ios in body must be of type integer,string: "object"']),
    ({"iosp": "x"}, ["spec.iosp: Invalid value: \"x\": spec.iosp in body should match '^[0-9]+%?$'"]),
    (
        {"iosp": True},
        [
            'spec.iosp: Invalid value: "boolean": spec.iosp in body must be of type integer,string: "boolean"',
            '<nil>: Invalid value: "": "spec.iosp" must validate at least one schema (anyOf)',
            'spec.iosp: Invalid value: "boolean": spec.iosp in body must be of type integer: "boolean"',
        ],
    ),
    ({"dt": "x"}, ['spec.dt: Invalid value: "x": spec.dt in body must be of type date-time: "x"']),
    ({"dt": 5}, ['spec.dt: Invalid value: "int64": spec.dt in body must be of type date-time: "int64"']),
    ({"dt": ""}, ['spec.dt: Invalid value: "": spec.dt in body must be of type date-time: ""']),
    ({"d": "x"}, ['spec.d: Invalid value: "x": spec.d in body must be of type duration: "x"']),
    ({"by": "!!"}, ['spec.by: Invalid value: "!!": spec.by in body must be of type byte: "!!"']),
    ({"ip": "1.2"}, ['spec.ip: Invalid value: "1.2": spec.ip in body must be of type ipv4: "1.2"']),
    ({"ip": "::1"}, ['spec.ip: Invalid value: "::1": spec.ip in body must be of type ipv4: "::1"']),
    ({"u": "z"}, ['spec.u: Invalid value: "z": spec.u in body must be of type uuid: "z"']),
    ({"uri": "z"}, ['spec.uri: Invalid value: "z": spec.uri in body must be of type uri: "z"']),
    ({"em": "z"}, ['spec.em: Invalid value: "z": spec.em in body must be of type email: "z"']),
    ({"h": "-z"}, ['spec.h: Invalid value: "-z": spec.h in body must be of type hostname: "-z"']),
    ({"c": "1.2.3.4"}, ['spec.c: Invalid value: "1.2.3.4": spec.c in body must be of type cidr: "1.2.3.4"']),
    (
        {"da": "2020-13-01"},
        ['spec.da: Invalid value: "2020-13-01": spec.da in body must be of type date: "2020-13-01"'],
    ),
    (
        {"da": "2020-02-30"},
        ['spec.da: Invalid value: "2020-02-30": spec.da in body must be of type date: "2020-02-30"'],
    ),
    ({"ks": "A"}, ['spec.ks: Invalid value: "A": spec.ks in body must be of type k8s-short-name: "A"']),
    ({"mp": {}}, ["spec.mp: Invalid value: 0: spec.mp in body should have at least 1 properties"]),
    ({"mp": {"a": 1, "b": 2, "c": 3}}, ["spec.mp: Too many: 3: must have at most 2 items"]),
    (
        {"mp": {"a": "x", "b.c": "y"}},
        [
            'spec.mp.a: Invalid value: "string": spec.mp.a in body must be of type integer: "string"',
            'spec.mp.b.c: Invalid value: "string": spec.mp.b.c in body must be of type integer: "string"',
        ],
    ),
    ({"o": {}}, ["spec.o.a: Required value", "spec.o.b: Required value"]),
    (
        {"o": {"a": 1}},
        [
            'spec.o.a: Invalid value: "integer": spec.o.a in body must be of type string: "integer"',
            "spec.o.b: Required value",
        ],
    ),
    (
        {"ao": {}},
        [
            '<nil>: Invalid value: "": "spec.ao" must validate one and only one schema (oneOf). Found none valid',
            "spec.ao.a: Required value",
        ],
    ),
    (
        {"ao": {"a": "1", "b": "2"}},
        [
            '<nil>: Invalid value: "": "spec.ao" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives"
        ],
    ),
    (
        {"an": {}},
        ['<nil>: Invalid value: "": "spec.an" must validate at least one schema (anyOf)', "spec.an.a: Required value"],
    ),
    ({"no": {"a": "1", "b": "2"}}, ['<nil>: Invalid value: "": "spec.no" must not validate the schema (not)']),
    (
        {"al": "b"},
        [
            'spec.al: Invalid value: "b": spec.al in body should be at least 3 chars long',
            "spec.al: Invalid value: \"b\": spec.al in body should match '^a'",
            '<nil>: Invalid value: "": "spec.al" must validate all the schemas (allOf). None validated',
        ],
    ),
    (
        {"al": "ab"},
        [
            'spec.al: Invalid value: "ab": spec.al in body should be at least 3 chars long',
            '<nil>: Invalid value: "": "spec.al" must validate all the schemas (allOf)',
        ],
    ),
    ({"b": "true"}, ['spec.b: Invalid value: "string": spec.b in body must be of type boolean: "string"']),
    ({"b": 1}, ['spec.b: Invalid value: "integer": spec.b in body must be of type boolean: "integer"']),
]
ACCEPTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"i": 2.0}, {"i": 2}),
    ({"i": None}, {}),
    ({"ios": "5%"}, {"ios": "5%"}),
    ({"ios": 5}, {"ios": 5}),
    ({"iosp": 4}, {"iosp": 4}),
    ({"dt": "2020-01-01T00:00:00Z"}, {"dt": "2020-01-01T00:00:00Z"}),
    ({"d": "1h"}, {"d": "1h"}),
    ({"d": "3 days"}, {"d": "3 days"}),
    ({"by": "aGk="}, {"by": "aGk="}),
    ({"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}),
    ({"uri": "http://a/b"}, {"uri": "http://a/b"}),
    ({"nu": None}, {"nu": None}),
    ({"nn": None}, {}),
    ({"pu": {"x": [1, {"y": 2}]}}, {"pu": {"x": [1, {"y": 2}]}}),
    ({"unk": 1}, {}),
]


def _shaped(given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"spec": dict(given)}
    prune(found, SCHEMA)
    default(found, SCHEMA)
    return found


@pytest.mark.parametrize(("given", "expected"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_value_that_does_not_fit_is_refused_in_the_words_of_kubernetes(
    given: dict[str, Any], expected: list[str]
) -> None:
    found = _shaped(given)
    errors = VALIDATOR.validate(found) + LISTS.validate(found)
    assert sorted(told(errors)) == sorted(expected)


@pytest.mark.parametrize(("given", "expected"), ACCEPTED, ids=lambda value: str(value)[:40])
def test_a_value_that_fits_is_kept(given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = _shaped(given)
    assert VALIDATOR.validate(found) + LISTS.validate(found) == []
    assert found["spec"] == expected
