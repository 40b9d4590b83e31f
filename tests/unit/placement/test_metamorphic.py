"""Changes of a problem that must not change the answer, or never for the worse: 1,000 checks."""

from __future__ import annotations

import pytest

from unit.placement.metamorphic_kit import CHECKS, broken_promises

CHUNK = 25
FIRST = 10_000


@pytest.mark.parametrize("start", range(FIRST, FIRST + 1000 // len(CHECKS), CHUNK))
@pytest.mark.parametrize("check", CHECKS)
def test_r2_what_must_not_matter_does_not(check: str, start: int) -> None:
    wrong = [each for seed in range(start, start + CHUNK) for each in broken_promises(check, seed)]
    assert not wrong, "\n".join(wrong)
