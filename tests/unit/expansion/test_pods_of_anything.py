"""Whatever pod specification is admitted: the operator can make a pod of it without stumbling."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.expansion.backends.kai import Kai
from spinney.core.expansion.podclique.desired_pod import PodInput, parents_of, pod
from spinney.core.expansion.podcliqueset.set_layout import standalone_members
from unit.admission.admission_kit import clique, errors, pcs, stored

Json = dict[str, Any]
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
SPEC: Json = {
    "containers": [
        {
            "name": "main",
            "image": "serve",
            "env": [{"name": "A", "value": "b"}],
            "resources": {"limits": {"nvidia.com/gpu": 1}, "claims": [{"name": "net"}]},
        }
    ],
    "initContainers": [{"name": "first", "image": "fetch", "env": [{"name": "A"}]}],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "schedulingGates": [{"name": "example.com/gate"}],
    "resourceClaims": [{"name": "net", "resourceClaimName": "net"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
}
ODD: list[Any] = [None, 0, 1.5, True, "", "x", [], {}, [None], ["a"], {"a": 1}, {"name": None}, [{}], [[]]]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in _paths(each, (*path, key)))]


def _with(spec: Json, path: tuple[Any, ...], value: Any) -> Json:
    changed = deepcopy(spec)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(_paths(SPEC)[1:]), value=st.sampled_from(ODD))
def test_r8_what_is_admitted_can_be_made_into_a_pod(path: tuple[Any, ...], value: Any) -> None:
    claims = [{"name": "t", "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}}]
    shared = [{"name": "t", "scope": "AllReplicas"}]
    template: Json = {"resourceClaimTemplates": claims, "resourceSharing": shared}
    order: dict[str, Any] = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
    whole = pcs(clique("v"), clique("w", pod=_with(SPEC, path, value)), **template, **order)
    if errors(whole):
        return
    podcliqueset = msgspec.convert(stored(whole), PodCliqueSet)
    member = standalone_members(podcliqueset, 0)[1]
    metadata = {"name": member.name, "namespace": "ns", "uid": "u"}
    spec = msgspec.to_builtins(member.template.spec)
    live = msgspec.convert({"metadata": metadata, "spec": spec}, PodClique)
    parents = parents_of(podcliqueset, member)
    pod_input = PodInput(podcliqueset, live, member, Kai(), ("example.com/rack",), "image", mnnvl=True, parents=parents)
    made = pod(pod_input, 0, "p")
    assert made.body["spec"]["containers"]
