"""Text to plain values: JSON and YAML mean the same, and no text gets past with a meaning nobody wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spinney.api.placement.reading import Unreadable, decode_json, decode_text, line_of, read_problem


def refusal(text: str | bytes) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        decode_text(text if isinstance(text, bytes) else text.encode())
    return caught.value


def value(text: str) -> Any:
    return decode_text(f"x: {text}".encode())["x"]


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=5), children, max_size=4),
    max_leaves=20,
)


@given(_json_values)
@example({'":': ['a": "b', '":']})
def test_json_is_read_as_it_was_written(document: Any) -> None:
    assert decode_json(json.dumps(document).encode()) == document
    assert decode_text(json.dumps(document, indent=1).encode()) == document


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("1e3", "1e3"),
        ("1Ti", "1Ti"),
        ("a1", "a1"),
        ("'1'", "1"),
        ('"on"', "on"),
        ("on", True),
        ("off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("1_000", 1000),
        ("-0x1F", -31),
        ("010", 8),
        ("0.5", 0.5),
        ("-.5", -0.5),
        ("!!str 5", "5"),
        ("=", "="),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_yaml_values_are_those_of_json(written: str, meant: Any) -> None:
    assert value(written) == meant


def test_anchors_and_merged_maps_work_and_do_not_multiply() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{x: 5}, *a]}\nd: *a\n"
    assert decode_text(text.encode()) == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 5, "y": 2},
        "d": {"x": 1, "y": 2},
    }


def _merge_bomb() -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 30)]
    return "\n".join(lines)


def test_merging_a_map_again_and_again_stays_small() -> None:
    assert decode_text(_merge_bomb().encode())["a29"] == {"x": 1}


def _alias_bomb() -> str:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    return "\n".join(lines)


REFUSED: dict[str, tuple[str | bytes, str, int | None]] = {
    "garbage": (bytes(range(128, 256)), "not UTF-8", 1),
    "garbage later": (b"a: 1\nb: \xff\n", "not UTF-8", 2),
    "zero bytes": (b"\0\0\0\0", "not YAML", None),
    "half a document": ('{"version": 1,\n "nodes": [', "not YAML", None),
    "tabs": ("a:\n\t- b\n", "not YAML", 2),
    "several documents": ("a: 1\n---\na: 2\n", "not YAML", 2),
    "a repeated key": ("a:\n  b: 1\n  c: 2\n  b: 3\n", "'b' again", 4),
    "a repeated JSON key": ('{"a": {"b": 1, "b" : 1}}', "'b' again", None),
    "a key that is a boolean": ("labels:\n  on: x\n", "the key true", 2),
    "a key that is a number": ("1: x\n", "the key 1", 1),
    "a key that is nothing": ("a: 1\n~: x\n", "the key nothing", 2),
    "a key that is a list": ("? [a]\n: b\n", "the key a list", 1),
    "a tag of Python": ("a: !!python/object/apply:os.getcwd []\n", "the tag", 1),
    "a tag of its own": ("a: 1\nb: !mine x\n", "the tag", 2),
    "binary": ("a: !!binary aGVsbG8=\n", "the tag", 1),
    "a set": ("a: !!set {b}\n", "the tag", 1),
    "a text tagged as a number": ("a: !!int many\n", "no number", 1),
    "a text tagged as a fraction": ("a: !!float many\n", "no number", 1),
    "a list tagged as a text": ("a: !!str [b]\n", "tagged as a text", 1),
    "a list tagged as an object": ("a: !!map [b]\n", "tagged as an object", 1),
    "an object tagged as a list": ("a: !!seq {b: c}\n", "tagged as a list", 1),
    "merging a list of texts": ("a: {<<: [b]}\n", "to be merged", 1),
    "a number of too many digits": (f"a: {'9' * 5000}\n", "no number", 1),
    "a number without end": ("a: .inf\n", "no number", 1),
    "a number that is none": ("a: .nan\n", "no number", 1),
    "a number beyond a double": ("a: 1.0e999\n", "no number", 1),
    "a JSON number beyond a double": ('{"a": 1e999}', "double", None),
    "an unknown alias": ("a: *b\n", "not YAML", 1),
    "aliases without end": (_alias_bomb(), "aliases for more than", None),
    "a list in itself": ("a: &a [*a]\n", "alias inside", None),
    "an object in itself": ("a: &a {b: *a}\n", "alias inside", None),
    "deep JSON": ("[" * 100_000 + "]" * 100_000, "nesting", None),
    "deep lists": ("x: " + "[" * 100_000 + "]" * 100_000, "nesting", None),
    "deep lists behind brackets in texts": ("x: " + '["]", ' * 50_000 + "]" * 50_000, "nesting", None),
    "deep objects": ("{a: " * 50_000 + "}" * 50_000, "nesting", None),
    "deep dashes": ("- " * 50_000 + "a", "nesting", None),
    "deep question marks": ("? " * 50_000 + "a", "nesting", None),
    "deep indents": ("\n".join(" " * n + "a:" for n in range(2000)), "nesting", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_text_that_is_no_problem_is_refused_in_words(name: str) -> None:
    text, words, line = REFUSED[name]
    error = refusal(text)
    assert words in str(error)
    assert "\n" not in str(error)
    if line is not None:
        assert error.line == line


def test_lines_of_json_are_json_only() -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        decode_json(b"{version: 1}")


@pytest.mark.parametrize("text", [b"", b"\n", b"---\n", b"# nothing\n", b"null", b"\xef\xbb\xbf"])
def test_an_empty_text_is_no_problem(text: bytes) -> None:
    with pytest.raises(Unreadable, match="found nothing, allowed: an object"):
        read_problem(decode_text(text))


def test_a_byte_order_mark_is_no_content() -> None:
    assert decode_text(b'\xef\xbb\xbf{"a": 1}') == decode_text(b"\xef\xbb\xbfa: 1") == {"a": 1}


def test_the_line_of_a_field_or_of_what_is_around_it() -> None:
    text = b"version: 1\nnodes:\n  - name: a\n  - name: b\n    labels:\n      zone: 1\n"
    assert line_of(text, ("nodes", 1, "labels", "zone")) == 6
    assert line_of(text, ("nodes", 1, "name")) == 4
    assert line_of(text, ("nodes", 0, "ready")) == 3
    assert line_of(text, ("nodes", 7)) == 3
    assert line_of(b"\xff: [", ("a",)) is None


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,-?&*<! \n\t\"'#|>%@ab01.~", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        read_problem(decode_text(body))
    except Unreadable:
        return
    raise AssertionError("this is no problem")
