from __future__ import annotations

import pytest

from kube_embedded.schema.formats import BadPattern, compile_pattern, matcher


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


def test_a_pattern_that_makes_a_backtracking_engine_blow_up_is_matched_in_linear_time() -> None:
    assert not matcher(r"^(\pL+)+$")("a" * 100_000 + "1")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[a-z", "missing closing ]: `[a-z`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("\\", "trailing backslash at end of expression"),
        (r"[b-a]", "invalid character class range: `b-a`"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_told_in_the_words_of_go(pattern: str, words: str) -> None:
    with pytest.raises(BadPattern) as caught:
        matcher(pattern)
    assert str(caught.value) == f"error parsing regexp: {words}"


@pytest.mark.parametrize("pattern", ["[a", "(?=a)", "(?<!a)b", r"(a)\1", "a**", "x{2,1}"])
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        matcher(pattern)


def test_a_pattern_finds_what_it_matches() -> None:
    found = compile_pattern("(?i)[[:digit:]]+X$").search("a12x")
    assert found is not None
    assert found.group() == "12x"
