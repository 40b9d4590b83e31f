"""The scheduler's benchmarks measure what they say: everybody is bound, and nothing is written but what it takes."""

from __future__ import annotations

import json

import pytest
from benchmarks import scheduler as bench


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, object]]:
    return {case: figures for case, figures, _ in bench.run(lambda text: None, 64, 32, 0, gangs=4)}


def test_every_pod_is_bound_with_few_writes_and_none_refused(rows: dict[str, dict[str, object]]) -> None:
    figures = rows["embedded, 64 pods with PodGroups, 32 nodes"]
    assert figures["refused"] == 0
    assert 1.0 <= float(str(figures["writes_per_pod"])) <= 1.0 + 2 / bench.GANG


def test_sets_come_to_bound_pods_through_the_operator(rows: dict[str, dict[str, object]]) -> None:
    assert float(str(rows["embedded, 64 pods as PodCliqueSets, 32 nodes"]["pods_per_s"])) > 0


def test_single_gangs_have_their_percentiles_in_order(rows: dict[str, dict[str, object]]) -> None:
    figures = rows["embedded, one gang on a busy cluster of 32 nodes"]
    assert figures["gangs"] == 4
    assert float(str(figures["p50_ms"])) <= float(str(figures["p99_ms"])) <= float(str(figures["max_ms"]))


def test_figures_can_be_printed_as_json(rows: dict[str, dict[str, object]]) -> None:
    assert json.loads(json.dumps(rows)) == rows
