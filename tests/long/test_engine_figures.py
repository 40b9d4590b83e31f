"""Every line of the engine's contract as figures: the benchmark suite, printed; nothing it places may break a rule."""

from __future__ import annotations

import pytest
from benchmarks import engine

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]


def test_every_line_of_the_contract_is_printed_and_no_rule_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    rows = engine.run(lambda text: None)
    with capsys.disabled():
        for case, figures, goal in rows:
            print(f"{case}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
            print(f"    goal: {goal}")
    assert rows[-1][1] == {"violations": 0}
