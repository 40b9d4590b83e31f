"""Who holds room near whom, counted as pods come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.core.scheduling.affinity.index import AffinityIndex, AffinityQuery, PlacedPod
from spinney.core.scheduling.affinity.terms import read_affinity
from spinney.core.scheduling.gang.pod_shape import shapes_on
from unit.scheduling.reading_kit import RESOURCES, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def apart(app: str, key: str = "zone") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def neighbour(name: str, node: str, app: str = "web", leaving: bool = False, **spec: Any) -> PlacedPod:
    one = pod(name, spec, labels={"app": app})
    return PlacedPod(one, node, shapes_on(RESOURCES).of(one), leaving)


WEB = read_affinity(pod("p", apart("web"))).apart[0].pod_selector
EVERYBODY = read_affinity(
    pod("p", {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]}}})
).apart[0].pod_selector  # fmt: skip
WATCHES = [
    AffinityQuery((WEB,)),
    AffinityQuery((WEB,), near=True),
    AffinityQuery((EVERYBODY, WEB)),
    AffinityQuery((EVERYBODY,)),
]
COMERS = [
    neighbour(f"p-{number}", node, app, leaving, **spec)
    for number, (node, app, leaving, spec) in enumerate(
        (node, app, leaving, spec)
        for node in ("n1", "n2")
        for app in ("web", "db")
        for leaving in (False, True)
        for spec in ({}, apart("web"), apart("db"))
    )
]


@given(st.lists(st.tuples(st.integers(0, len(COMERS) - 1), st.integers(0, len(WATCHES))), max_size=40))
def test_counts_are_those_of_whoever_is_there(history: list[tuple[int, int]]) -> None:
    there: dict[str, PlacedPod] = {}
    met = AffinityIndex(there.values)
    for number, asked in history:
        one = COMERS[number]
        if there.pop(one.pod.metadata.uid, None) is not None:
            met.leave(one)
        else:
            there[one.pod.metadata.uid] = one
            met.enter(one)
        for query in WATCHES[:asked]:
            assert met.nodes(query) == Counter(each.node for each in there.values() if query.sees(each))
        newcomer = pod("new", labels={"app": "web"})
        carriers = [
            each.node for each in there.values() if any(b.pod_selector == WEB for b in each.shape.affinity_terms.apart)
        ]
        assert sum((nodes for _, nodes in met.repelling(newcomer, frozenset())), Counter()) == Counter(carriers)


def test_only_somebody_who_is_waited_for_is_news_and_only_once() -> None:
    met = AffinityIndex(list)
    query = AffinityQuery((WEB,), near=True)
    met.nodes(query)
    assert not met.enter(neighbour("a", "n1"))
    met.want(query)
    assert not met.enter(neighbour("b", "n1", "db"))
    assert met.enter(neighbour("c", "n1"))
    assert not met.enter(neighbour("d", "n1"))


@pytest.mark.parametrize(("key", "repelled"), [("kubernetes.io/hostname", False), ("zone", True)])
def test_who_shares_the_number_of_a_host_is_not_kept_off_twice(key: str, repelled: bool) -> None:
    met = AffinityIndex(list)
    there = neighbour("a", "n1", **apart("web", key))
    met.enter(there)
    assert bool(list(met.repelling(there.pod, there.shape.host_ports))) is repelled
    assert met.repels(pod("b", labels={"app": "web"}))
