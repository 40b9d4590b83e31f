"""Bodies as clients send them, and what kube-apiserver 1.36 says to the broken ones."""

from __future__ import annotations

import pytest

from kube_embedded.base.errors import ApiError
from kube_embedded.requests.bodies import decode, decode_body, require_type

JSON, YAML = "application/json", "application/yaml"
UNRECOGNIZED = "the object provided is unrecognized (must be of type Thing): "
PARSE = f"{UNRECOGNIZED}couldn't get version/kind; json parse error: "


class Kind:
    kind = "Thing"
    version = "v1"


class Call:
    resource = Kind()

    def __init__(self, mode: str) -> None:
        self.query = {"fieldValidation": mode} if mode else {}
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.mark.parametrize(
    ("media", "body", "message"),
    [
        (JSON, b'{"a":{"i":1,}}', PARSE + "invalid character '}' looking for beginning of object key string "),
        (JSON, b'{"a":1} x', PARSE + "invalid character 'x' after top-level value "),
        (JSON, b'{"a":[1 2]}', PARSE + "invalid character '2' after array element "),
        (JSON, b'{"a":1 "b":2}', PARSE + "invalid character '\"' after object key:value pair "),
        (JSON, b'{"a" 1}', PARSE + "invalid character '1' after object key "),
        (JSON, b"", PARSE + "unexpected end of JSON input (<empty>)"),
        (JSON, b'{"a":', PARSE + "unexpected end of JSON input "),
        (JSON, b"[]", PARSE + "json: cannot unmarshal array into Go value of type struct "),
        (JSON, b'"x"', PARSE + "json: cannot unmarshal string into Go value of type struct "),
        (JSON, b"null", UNRECOGNIZED + "Object 'Kind' is missing in 'null' (6e756c6c)"),
        (
            JSON,
            b'{"apiVersion":5}',
            PARSE + "json: cannot unmarshal number into Go struct field .apiVersion of type string ",
        ),
        (JSON, b'{"a":1e400}', PARSE + "json: cannot unmarshal number 1e400 into Go value of type float64 "),
        (JSON, b'{"a":' * 5000 + b"1" + b"}" * 5000, PARSE + "invalid character '{' exceeded max depth "),
        (JSON, b"[" * 100_000, PARSE + "invalid character '{' exceeded max depth "),
        (YAML, b"a: b: c", UNRECOGNIZED + "yaml: mapping values are not allowed in this context (613a20623a2063)"),
        (YAML, b"a:\n  i: [\n", UNRECOGNIZED + "yaml: line 2: did not find expected node content "),
        (YAML, b"", UNRECOGNIZED + "Object 'Kind' is missing in '' (<empty>)"),
        (YAML, b"[" * 100_000, UNRECOGNIZED + "yaml: exceeded max depth "),
        (YAML, b"a: !!python/object:os.system x", UNRECOGNIZED + "yaml: could not determine a constructor "),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_malformed_body_is_a_bad_request(media: str, body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        decode(body, media, "Thing")
    assert refused.value.code == 400
    assert refused.value.reason == "BadRequest"
    assert refused.value.message.startswith(message)


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    with pytest.raises(ApiError, match="excessive aliasing"):
        decode("\n".join(lines).encode(), YAML, "Thing")


def test_what_is_named_twice_in_yaml_is_not_shared() -> None:
    obj, _ = decode(b"a: &x {b: 1}\nc: *x\n", YAML, "Thing")
    obj["a"]["b"] = 2
    assert obj["c"] == {"b": 1}


def test_whole_floats_are_integers() -> None:
    obj, _ = decode(b'{"a":2.0,"b":1e3,"c":2.5}', JSON, "Thing")
    assert obj == {"a": 2, "b": 1000, "c": 2.5}
    assert isinstance(obj["a"], int)


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert decode(b'{"a":"\xff"}', JSON, "Thing")[0] == {"a": "�"}


def test_plain_yaml_scalars_follow_go() -> None:
    body = b"{yes: on, day: 2020-01-01, sexagesimal: 1:30, hex: 0x3, octal: 010, letter: y, 5: 6, none: , f: 1e+3}"
    obj, _ = decode(body, YAML, "Thing")
    assert obj == {
        "true": True,
        "day": "2020-01-01",
        "sexagesimal": "1:30",
        "hex": 3,
        "octal": 8,
        "letter": "y",
        "5": 6,
        "none": None,
        "f": 1000,
    }


def test_only_the_first_document_counts() -> None:
    assert decode(b"a: 1\n---\nb: 2\n", YAML, "Thing")[0] == {"a": 1}


DOUBLED = b'{"spec":{"i":1,"i":2,"o":{"a":"1","a":"2"},"l":[{"x":1,"x":2}]},"spec":{"i":3}}'


def test_duplicate_fields_are_named_with_their_paths() -> None:
    obj, duplicates = decode(DOUBLED, JSON, "Thing")
    assert obj == {"spec": {"i": 3}}
    assert duplicates == [
        'duplicate field "spec.i"',
        'duplicate field "spec.o.a"',
        'duplicate field "spec.l[0].x"',
        'duplicate field "spec"',
    ]


def test_text_that_looks_like_a_key_is_no_duplicate() -> None:
    assert decode(b'{"a":"x\\":\\"y","b" : 1}', JSON, "Thing")[1] == []


def test_strict_validation_refuses_duplicates() -> None:
    with pytest.raises(ApiError) as refused:
        decode_body(Call("Strict"), b'{"a":1,"a":2}', JSON)
    assert refused.value.message == (
        'Thing in version "v1" cannot be handled as a Thing: strict decoding error: duplicate field "a"'
    )


def test_strict_validation_names_the_line_in_yaml() -> None:
    with pytest.raises(ApiError) as refused:
        decode_body(Call("Strict"), b"a: 1\nb: 2\na: 3\n", YAML)
    assert refused.value.message.endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 3: key "a" already set in map'
    )


@pytest.mark.parametrize(("mode", "warnings"), [("", 1), ("Warn", 1), ("Ignore", 0)])
def test_otherwise_duplicates_are_a_warning_or_nothing(mode: str, warnings: int) -> None:
    call = Call(mode)
    assert decode_body(call, b'{"a":1,"a":2}', JSON) == {"a": 2}
    assert len(call.warnings) == warnings


@pytest.mark.parametrize(("obj", "missing"), [({"apiVersion": "v1"}, "Kind"), ({"kind": "Thing"}, "apiVersion")])
def test_a_custom_object_names_its_type(obj: dict[str, str], missing: str) -> None:
    with pytest.raises(ApiError, match=f"Object '{missing}' is missing in"):
        require_type(obj, b"{}", "Thing")
