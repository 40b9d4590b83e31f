"""Every line of the engine's contract as figures: the benchmark suite, printed; nothing it places may break a rule."""

from __future__ import annotations

import os

import pytest
from benchmarks import engine

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]


@pytest.fixture(autouse=True)
def only_when_asked(request: pytest.FixtureRequest) -> None:
    if "long" not in (request.config.getoption("markexpr") or "") and os.environ.get("SPINNEY_LONG") != "1":
        pytest.skip("the long suite runs with -m long or SPINNEY_LONG=1")


def test_every_line_of_the_contract_is_printed_and_no_rule_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    rows = engine.run(lambda text: None)
    with capsys.disabled():
        for case, figures, goal in rows:
            print(f"{case}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
            print(f"    goal: {goal}")
    assert rows[-1][1] == {"violations": 0}
