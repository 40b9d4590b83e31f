"""Names that are almost right are answered with the one that was probably meant."""

from __future__ import annotations

import pytest

from spinney.core.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("rak", ("zone", "rack", "host"), "; did you mean rack?"),
        ("defalt-queue", ("default-queue", "default-parent-queue"), "; did you mean default-queue?"),
        ("something", ("zone", "rack"), ""),
        ("rak", (), ""),
        ("rak", tuple(f"rack{number}" for number in range(1000)), ""),
    ],
)
def test_the_nearest_name_is_suggested_if_it_is_near(word: str, known: tuple[str, ...], said: str) -> None:
    assert did_you_mean(word, known) == said
