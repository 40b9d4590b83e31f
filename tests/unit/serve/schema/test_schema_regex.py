from __future__ import annotations

import pytest

from kube_embedded.schema.formats import BadPattern, matcher, python_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("(?i)^ABC$", "abc", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[[:alpha:]]+$", "ab1", False),
        (r"^\pL+$", "aé", True),
        (r"\Aab\z", "ab", True),
        (r"\Aab\z", "ab\n", False),
        ("^(?P<n>a)b$", "ab", True),
        (r"^\d$", "١", False),
        (r"^a\$[$]$", "a$$", True),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, matches: bool) -> None:
    assert matcher(pattern)(text) is matches


@pytest.mark.parametrize("pattern", ["[a", "(?=a)", "(?<!a)b", r"(a)\1", "a**", "x{2,1}"])
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        matcher(pattern)


def test_a_pattern_for_searching_is_translated_too() -> None:
    found = python_pattern("(?i)[[:digit:]]+X$").search("a12x")
    assert found is not None
    assert found.group() == "12x"
