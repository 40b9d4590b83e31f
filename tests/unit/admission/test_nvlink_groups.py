"""Who may be in a group of multi-node NVLink: GPU cliques by their own wish, all others only by inheritance (2.11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.admission.admission_kit import ON, clique, errors, pcs

SWITCHED_ON = replace(ON, mnnvl_enabled=True)
GROUP = {"grove.io/mnnvl-group": "ring"}


def gpus(kind: str, amount: Any) -> dict[str, Any]:
    resources = {"resources": {kind: {"nvidia.com/gpu": amount}}}
    return {"containers": [{"name": "main", "image": "serve", **resources}]}


@pytest.mark.parametrize(("kind", "amount"), [("limits", "8"), ("requests", 1)])
def test_g1_a_clique_with_gpus_may_name_a_group(kind: str, amount: Any) -> None:
    assert errors(pcs(clique(pod=gpus(kind, amount)) | {"annotations": GROUP}), settings=SWITCHED_ON) == []


@pytest.mark.parametrize("pod", [{}, gpus("limits", "0")], ids=["no resources", "no GPUs"])
def test_g1_a_group_that_a_clique_without_gpus_names_is_admitted_as_in_grove(pod: dict[str, Any]) -> None:
    assert errors(pcs(clique(pod=pod) | {"annotations": GROUP}), settings=SWITCHED_ON) == []


def test_g1_a_clique_without_gpus_may_be_in_a_set_with_a_group_or_opt_out() -> None:
    assert errors(pcs(clique(), annotations=GROUP), settings=SWITCHED_ON) == []
    out = {"annotations": {"grove.io/mnnvl-group": "none"}}
    assert errors(pcs(clique() | out, annotations=GROUP), settings=SWITCHED_ON) == []


@pytest.mark.parametrize(
    "containers",
    [
        None,
        "x",
        7,
        {"a": 1},
        ["x", None, 3],
        [{"resources": "x"}],
        [{"resources": {"limits": [1]}}],
        [{"resources": 5}],
    ],
)
def test_r8_whatever_the_pod_looks_like_there_is_an_answer(containers: Any) -> None:
    found = errors(pcs(clique(pod={"containers": containers}) | {"annotations": GROUP}), settings=SWITCHED_ON)
    assert not any("mnnvl-group" in error for error in found)
