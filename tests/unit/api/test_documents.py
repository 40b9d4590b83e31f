"""The one reader of YAML and JSON: values that JSON has, within limits, or one error with its place."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostile_documents import DOCUMENTS, MIB
from spinney.api.documents import (
    FILE,
    PAGE,
    DocumentError,
    Limits,
    line_of,
    read_bounded,
    read_document,
    read_documents,
    read_json,
    read_json_as,
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_hostile_text_is_refused_in_words_at_once(name: str) -> None:
    text, words = DOCUMENTS[name]
    began = time.process_time()
    with pytest.raises(DocumentError) as caught:
        read_documents(text, "file")
    assert time.process_time() - began < 1.0
    assert words in str(caught.value)
    assert str(caught.value).startswith("file")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "name", ["aliases that multiply", "merges that multiply", "deep lists", "aliases that go deep"]
)
def test_a_hostile_text_costs_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError):
            read_documents(DOCUMENTS[name][0])
        assert tracemalloc.get_traced_memory()[1] < 50 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: [\n", "file:3:1: "),
        ("a: 1\n  \nb: {c: 1, c: 2}\n", "file:3:11: found the key 'c' again, allowed: each key once"),
        ("a: 1\nb: !mine x\n", "file:2:4: found the tag '!mine', allowed: plain values"),
        ('{"a": 1,\n "a": 2}', "file:2:2: found the key 'a' again, allowed: each key once"),
        ("a:\n- *b\n", "file:2:3: not YAML: found undefined alias 'b'"),
        ('{"a": 1e999}', "file: found a number beyond what a double can hold"),
    ],
)
def test_an_error_names_file_line_and_column_and_what_is_allowed(text: str, place: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(text, "file")
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize(
    ("limits", "text", "words"),
    [
        (replace(FILE, bytes=4), "a: bc", "found more than 4 bytes, allowed: at most 4 bytes"),
        (replace(FILE, bytes=4), "ä: b", "found more than 4 bytes, allowed: at most 4 bytes"),
        (replace(FILE, depth=3), "[[[[]]]]", "found nesting beyond 3 levels, allowed: at most 3"),
        (replace(FILE, depth=3), "- - - - a", "found nesting beyond 3 levels, allowed: at most 3"),
        (replace(FILE, depth=3), "a: &a [[x]]\nb: [*a]", "found nesting beyond 3 levels, allowed: at most 3"),
        (replace(FILE, values=3), "[a, b, c]", "found more than 3 values, allowed: at most 3"),
        (replace(FILE, values=3), "[1, 2, 3]", "found more than 3 values, allowed: at most 3"),
        (replace(FILE, values=3), "a: &a 1\nb: *a\nc: *a", "found more than 3 values, allowed: at most 3"),
        (
            replace(FILE, aliased=3),
            "a: &a [1]\nb: *a\nc: *a",
            "found aliases for more than 3 values, allowed: at most 3",
        ),
        (replace(FILE, documents=2), "1\n---\n2\n---\n3", "found one document more, allowed: 2"),
        (replace(FILE, text_keys=True), "1: a", "found the key 1, allowed: a text (in quotes)"),
    ],
)
def test_each_limit_is_told_with_its_value(limits: Limits, text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_documents(text, limits=limits)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["[[[]]]", "- - - a", "a: &a [x]\nb: [*a]", '{"a": {"b": {}}}', "a: {b: {c: 1}}"])
def test_what_is_just_within_the_limit_of_depth_is_read(text: str) -> None:
    assert read_document(text, limits=replace(FILE, depth=3)) is not None


def test_commas_in_texts_are_no_values() -> None:
    assert read_document(json.dumps(["," * 100]), limits=replace(FILE, values=10)) == ["," * 100]


def test_a_stream_is_read_no_further_than_its_limit() -> None:
    endless = io.BytesIO(b" " * 100_000)
    with pytest.raises(DocumentError, match="file: found more than 1 KiB, allowed: at most 1 KiB"):
        read_bounded(endless, "file", replace(FILE, bytes=1024))
    assert endless.tell() == 1025


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-01-01", "2026-01-01"),
        ("2026-13-45", "2026-13-45"),
        ("12:30:45", "12:30:45"),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        ("010", 8),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-1.5", -1.5),
        ("1.5e3", 1500.0),
        ("1e3", "1e3"),
        ("99999999999999999999", 99999999999999999999),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("! 5", "5"),
        ("=", "="),
        ("'<<'", "<<"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_a_word_means_what_it_means_to_kubectl(written: str, meant: Any) -> None:
    found = read_document(f"x: {written}")["x"]
    assert (found, type(found)) == (meant, type(meant))


def test_keys_that_are_numbers_or_booleans_become_texts() -> None:
    assert read_document("{8080: a, true: b, 1.5: c}") == {"8080": "a", "true": "b", "1.5": "c"}


def test_aliases_are_copies_so_that_a_change_of_one_changes_no_other() -> None:
    found = read_document("a: &a {x: [1]}\nb: *a\nc: {<<: *a, y: 2}\n")
    found["a"]["x"].append(2)
    assert found == {"a": {"x": [1, 2]}, "b": {"x": [1]}, "c": {"y": 2, "x": [1]}}


def test_an_anchor_may_be_set_again_and_ends_with_its_document() -> None:
    assert read_documents("[&a 1, *a, &a 2, *a]\n---\nb") == [[1, 1, 2, 2], "b"]
    with pytest.raises(DocumentError, match="undefined alias"):
        read_documents("&a 1\n---\n*a")


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null", "\ufeff"])
def test_an_empty_text_is_no_document_or_none(text: str) -> None:
    assert read_document(text) is None
    assert [one for one in read_documents(text) if one is not None] == []


def test_a_byte_order_mark_is_no_content() -> None:
    assert read_document(b'\xef\xbb\xbf{"a": 1}') == read_document("\ufeffa: 1") == {"a": 1}


def test_json_that_is_not_of_the_type_asked_for_is_refused() -> None:
    assert read_json_as("[1]", list[int]) == [1]
    with pytest.raises(DocumentError, match=r"body: Expected `int`, got `str` - at `\$\[0\]`"):
        read_json_as('["a"]', list[int], "body")
    with pytest.raises(DocumentError, match="not JSON"):
        read_json("a: 1")


def test_the_line_of_a_field_in_one_of_several_documents() -> None:
    text = b"a: 1\n---\nlevels:\n  - {name: x}\n  - name: y\n    count: 7\n? [odd]\n: 1\nlast: 1\n"
    assert line_of(text, ("levels", 1, "count"), 1) == 6
    assert line_of(text, ("levels", 1, "none"), 1) == 5
    assert line_of(text, ("last",), 1) == 9
    assert line_of(text, ("a",), 0) == 1
    assert line_of(text, (), 1) == 3
    assert line_of(text, (), 2) is None


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        Limits(depth=0)


_SYNTAX = st.text(alphabet="{}[]:,-?&*<! \n\t\"'#|>%@ab01.~_e\\\ufeff\u2028\0", max_size=120)


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, children), default=0) if isinstance(value, (dict, list)) else 0


@given(st.binary(max_size=300) | _SYNTAX.map(str.encode) | st.text(max_size=80))
@example(b'{"a\\ud800": 1}')
@example("\ud800")
@example(b"!<tag:yaml.org,2002:int> ''")
@example(b"!!bool 7")
@example(b"{? a, ? b}")
def test_any_bytes_are_read_or_refused_by_the_one_error(body: bytes | str) -> None:
    try:
        found = read_documents(body, "text", PAGE)
    except DocumentError:
        return
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert max(map(_depth, found), default=0) <= PAGE.depth


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=5), children, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
@example({'":': ['a": "b', '":']})
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert read_document(json.dumps(value)) == read_json(json.dumps(value, indent=1)) == value
