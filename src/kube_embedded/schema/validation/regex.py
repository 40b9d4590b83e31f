"""Regular expressions in the syntax of Go (RE2), matched by a linear-time engine where it can, by Python's elsewhere.

What RE2 does not have (look-around, back references) is refused, although Python would take it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import jsonschema_rs

Matcher = Callable[[str], bool]

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_ANY_LETTER = "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\U0010ffff"  # roughly: all beyond Latin-1
_LETTER = {
    "Lu": "A-Z\u00c0-\u00d6\u00d8-\u00de",
    "Ll": "a-z\u00df-\u00f6\u00f8-\u00ff",
    "N": "0-9",
    "Nd": "0-9",
    "S": "$+<=>^`|~",
}
_FORBIDDEN = (
    (re.compile(r"\(\?(?:<?[=!])"), "invalid or unsupported Perl syntax"),
    (re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]"), "invalid escape sequence"),
    (re.compile(r"(?<!\\)[*+?}][*+]"), "invalid nested repetition operator"),
)
_TOKEN = re.compile(
    r"\\p\{(?P<property>\^?\w+)\}|\\p(?P<short>\w)|\[:(?P<posix>\w+):\]|(?P<flags>\(\?[ims]+\))|(?P<end>\\z)"
    r"|(?P<escape>\\.)|(?P<open>\[\^?\]?)|(?P<close>\])|(?P<dollar>\$)"
)


class BadPattern(ValueError):
    """A pattern that RE2 would not compile."""


def is_plain(pattern: str) -> bool:
    """Whether the pattern means the same to the JSON Schema engine as to RE2."""
    try:
        _linear(pattern)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> Matcher:
    """A function that tells whether a text contains a match; raises `BadPattern`."""
    for forbidden, problem in _FORBIDDEN:
        if found := forbidden.search(pattern):
            raise BadPattern(f"error parsing regexp: {problem}: `{found.group()}`")
    try:
        return _linear(pattern)
    except ValueError:
        compiled = python_pattern(pattern)
    return lambda text: compiled.search(text) is not None


@lru_cache(maxsize=4096)
def python_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for Python's engine; raises `BadPattern`."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except re.error as error:
        raise BadPattern(f"error parsing regexp: {error}: `{pattern}`") from error


def _linear(pattern: str) -> Matcher:
    validator = jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    return validator.is_valid


def _translated(pattern: str) -> str:
    flags, inside = "", False
    parts, last = [], 0
    for token in _TOKEN.finditer(pattern):
        parts.append(pattern[last : token.start()])
        last = token.end()
        text = token.group()
        if token["property"] or token["short"]:
            letters = _LETTER.get(token["property"] or token["short"], _ANY_LETTER)
            text = letters if inside else f"[{letters}]"
        elif token["posix"] and inside:
            text = _POSIX.get(token["posix"], "")
        elif token["flags"]:
            flags, text = flags + text[2:-1], ""
        elif token["end"] or (token["dollar"] and not inside):
            text = r"\Z"
        elif token["open"] and not inside:
            inside = True
        elif token["close"]:
            inside = False
        parts.append(text)
    parts.append(pattern[last:])
    return (f"(?{flags})" if flags else "") + "".join(parts)
