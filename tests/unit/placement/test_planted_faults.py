"""Wrong engines, each with one fault planted in it: the tests must notice every one of them."""

from __future__ import annotations

import pytest

from unit.placement import test_rules
from unit.placement.faults.fault import Fault, Ground
from unit.placement.faults.judges import Judge, rule
from unit.placement.planted import FAULTS

UNHARMED = rule(test_rules.test_k9_a_million_pods_on_fifty_nodes_are_infeasible_at_once)
"""Has nothing to say, whatever is planted: an engine that fails at everything would prove nothing."""

JUDGES: dict[str, Judge] = {str(judge): judge for fault in FAULTS.values() for judge in (*fault.judges, UNHARMED)}


def _notices(judge: Judge) -> bool:
    return any(judge.figure in complaint for complaint in judge.complaints())


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_r13_the_tests_notice(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault.judges, f"nobody is named who would notice {fault.name}"
    with monkeypatch.context() as patch:
        fault.plant(Ground(patch, fault.name))
        silent = [str(judge) for judge in fault.judges if not _notices(judge)]
        harmed = UNHARMED.complaints()
    assert not silent, f"{fault.name} is not noticed by {'; '.join(silent)}"
    assert not harmed, f"{fault.name} spoils everything: {harmed}"


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_r13_without_a_fault_there_is_nothing_to_notice(judge: Judge) -> None:
    assert judge.complaints() == []


def test_r13_a_fault_whose_function_is_gone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"the fault lost cannot be planted: .*SearchSpace\.flown"):
        Ground(monkeypatch, "lost").swap(
            "placement.search.search_space", "SearchSpace.flown", lambda original: original
        )
