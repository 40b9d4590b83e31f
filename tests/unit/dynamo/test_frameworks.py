"""Deployments know no back-end: another one takes their place without another field (D2, D4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from spinney.api.changes import Change, Create, Patch, Resource, SetStatus
from spinney.api.crds import crd
from spinney.core.expansion.dynamo.deployment import expand
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import ConditionText, Framework, Observed
from spinney.core.expansion.dynamo.status import Progress
from unit.dynamo.dynamo_kit import Json, component, deployment, packed

GROVE_WORDS = ("grove", "pcs", "podclique", "clique", "podgang", "gang", "scalinggroup", "pcsg")
ESCAPES = ("grove", "forceScalingGroup")
"""`experimental.grove.forceScalingGroup`, which upstream has; with `providerOverride` the only way around the API."""


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_d2_the_typed_api_has_no_word_of_grove(version: str) -> None:
    (found,) = [each for each in crd("DynamoGraphDeployment")["spec"]["versions"] if each["name"] == version]
    spec = found["schema"]["openAPIV3Schema"]["properties"]["spec"]
    named = {name for name in _fields(spec) if any(word in name.lower() for word in GROVE_WORDS)}
    assert named == (set(ESCAPES) if version == "v1beta1" else set())


def _fields(schema: Json) -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        yield name
        yield from _fields(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key])


class Labelled:
    """A back-end that knows no topology of its own: domains are labels of nodes, told by its operator."""

    resource = Resource("apps", "v1", "deployments", "Deployment")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def name_of(self, deployment: Json) -> str:
        return str(deployment["metadata"]["name"])

    def render(self, deployment: Json, observed: Observed, restarts: Mapping[str, str]) -> Json:
        domain = (deployment["spec"].get("topologyConstraint") or {}).get("packDomain")
        keys = [self._labels[domain]] if domain else []
        metadata = {"name": self.name_of(deployment), "labels": {}, "annotations": {}}
        return {"metadata": metadata, "spec": {"packedBy": keys, "marks": dict(restarts)}}

    def scale(self, deployment: Json, observed: Observed) -> list[Change]:
        return []

    def progress(self, deployment: Json, observed: Observed) -> list[Progress]:
        return [Progress(each["name"], None) for each in deployment["spec"]["components"]]

    def restarted(self, observed: Observed) -> dict[str, str]:
        return dict(((observed.workload or {}).get("spec") or {}).get("marks") or {})

    def is_settled(self, observed: Observed) -> bool:
        return True

    def topology(self, observed: Observed) -> ConditionText:
        return "True", "AllTopologyLevelsAvailable", "labels are always there"


OTHER: Framework = Labelled({"rack": "example.com/rack"})


def test_d4_another_back_end_says_the_same_constraint_in_its_own_words() -> None:
    obj = deployment("d", component("w"), topologyConstraint=packed("rack"))
    changes = expand(obj, Observed(DynamoSettings(), 5.0), OTHER).changes
    (made,) = [each for each in changes if isinstance(each, Create) and each.target.resource == Labelled.resource]
    assert made.body["spec"]["packedBy"] == ["example.com/rack"]
    assert (made.body["apiVersion"], made.body["kind"]) == ("apps/v1", "Deployment")
    status = next(each for each in changes if isinstance(each, SetStatus)).status
    told = {each["type"]: each["status"] for each in status["conditions"]}
    assert told == {"Ready": "True", "TopologyConstraintsEnforced": "True", "TopologyLevelsAvailable": "True"}


def test_d4_restarts_work_for_any_back_end() -> None:
    obj = deployment("d", component("a"), component("b"), restart={"id": "r1"})
    seen = _after(obj, {})
    assert seen == {"a": "r1"}
    seen = _after(obj, seen)
    assert seen == {"a": "r1", "b": "r1"}
    del obj["spec"]["restart"]
    live: Any = {"metadata": {"uid": "x", "resourceVersion": "1"}, "spec": {"packedBy": [], "marks": seen}}
    again = expand(obj, Observed(DynamoSettings(), 5.0, live), OTHER).changes
    assert [each.patch["spec"] for each in again if isinstance(each, Patch)] == [{}], "only its annotations are new"


def _after(obj: Json, carried: Mapping[str, str]) -> dict[str, str]:
    live = {"metadata": {"uid": "x", "resourceVersion": "1"}, "spec": {"packedBy": [], "marks": dict(carried)}}
    changes = expand(obj, Observed(DynamoSettings(), 5.0, live), OTHER).changes
    found: dict[str, str] = dict(carried)
    for each in changes:
        if isinstance(each, Patch):
            found |= each.patch["spec"].get("marks") or {}
    return found
