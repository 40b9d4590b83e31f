"""Texts that no reader of YAML or JSON may take, hang on, grow by, or die of: one table for every place that reads."""

from __future__ import annotations

MIB = 1024 * 1024


def alias_bomb(levels: int = 30, width: int = 9) -> bytes:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


def _merge_bomb() -> bytes:
    keys = ", ".join(f"k{n}: 1" for n in range(1000))
    return f"a: &a {{{keys}}}\n".encode() + b"".join(b"b%d: {<<: *a}\n" % n for n in range(5000))


def _alias_ladder() -> bytes:
    """Each level names the one below once: shallow text, deep value."""
    return b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 3000))


DOCUMENTS: dict[str, tuple[bytes, str]] = {
    "aliases that multiply": (alias_bomb(), "aliases for more than"),
    "aliases that multiply in objects": (alias_bomb().replace(b"[", b"{k: [").replace(b"]", b"]}"), "aliases for more"),
    "merges that multiply": (_merge_bomb(), "aliases for more than"),
    "aliases that go deep": (_alias_ladder(), "nesting"),
    "a list in itself": (b"a: &a [*a]\n", "alias inside"),
    "an object in itself": (b"a: &a {b: *a}\n", "alias inside"),
    "an object merged into itself": (b"a: &a {<<: *a}\n", "alias inside"),
    "an unknown alias": (b"a: *b\n", "undefined alias"),
    "deep lists": (b"[" * 90_000, "nesting"),
    "deep lists below a key": (b"x: " + b"[" * 90_000, "nesting"),
    "deep lists that end": (b"[" * 90_000 + b"]" * 90_000, "nesting"),
    "deep JSON objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nesting"),
    "JSON deeper than is read": (b'{"a":' * 600 + b"1" + b"}" * 600, "nesting"),
    "deep YAML objects": (b"{a: " * 50_000 + b"}" * 50_000, "nesting"),
    "deep dashes": (b"- " * 50_000 + b"a", "nesting"),
    "deep question marks": (b"? " * 50_000 + b"a", "nesting"),
    "deep indents": (b"\n".join(b" " * n + b"a:" for n in range(2_000)), "nesting"),
    "a number of 5,000 digits": (b"a: " + b"9" * 5_000 + b"\n", "no number"),
    "a number of a million digits": (b"a: " + b"9" * MIB + b"\n", "no number"),
    "a hexadecimal number of a million digits": (b"a: 0x" + b"f" * MIB + b"\n", "no number"),
    "a JSON number of 5,000 digits": (b'{"a": ' + b"9" * 5_000 + b"}", "number"),
    "a JSON number of 1,000 digits": (b'{"a": ' + b"9" * 1_000 + b"}", "number"),
    "a JSON number beyond a double": (b'{"a": 1e999999}', "number"),
    "a number beyond a double": (b"a: 1.0e999\n", "no number"),
    "infinity": (b"a: .inf\n", "no number"),
    "not a number": (b"a: .nan\n", "no number"),
    "a word tagged as a number": (b"a: !!int many\n", "no number"),
    "an object of Python": (b"a: !!python/object/apply:os.getcwd []\n", "the tag"),
    "a tag of its own": (b"a: !mine x\n", "the tag"),
    "binary": (b"a: !!binary aGVsbG8=\n", "the tag"),
    "a set": (b"a: !!set {b}\n", "the tag"),
    "ordered pairs": (b"a: !!omap [b: 1]\n", "the tag"),
    "a tagged time": (b"a: !!timestamp 2026-01-01\n", "the tag"),
    "a list tagged as a text": (b"a: !!str [b]\n", "tagged as a text"),
    "a text tagged as an object": (b"a: !!map b\n", "tagged as an object"),
    "many tag directives": (b"".join(b"%%TAG !a%d! x\n" % n for n in range(100_000)) + b"--- a\n", "%TAG"),
    "a key that is a list": (b"? [a]\n: b\n", "the key a list"),
    "a key that is nothing": (b"~: b\n", "the key nothing"),
    "a repeated key": (b"a:\n  b: 1\n  b: 2\n", "'b' again"),
    "a repeated JSON key": (b'{"a": {"b": 1, "b": 2}}', "'b' again"),
    "a merge of a text": (b"a: {<<: b}\n", "to be merged"),
    "not UTF-8": (b"a: \xff\xfe\n", "not UTF-8"),
    "UTF-16": ("a: b\n".encode("utf-16"), "not UTF-8"),
    "a surrogate in UTF-8": (b"a: \xed\xa0\x80\n", "not UTF-8"),
    "zero bytes": (b"\0\0\0\0", "not YAML"),
    "a control character": (b"a: \x07\x1b\n", "not YAML"),
    "half an object": (b'{"a": 1,\n "b": [', "not YAML"),
    "a quote without end": (b'"' + b"a\\n" * 100_000, "not YAML"),
}
"""What is read, and a part of the refusal."""

SHORT = {name: text for name, (text, _) in DOCUMENTS.items() if len(text) < 200_000}
