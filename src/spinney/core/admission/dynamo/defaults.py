"""What is filled in, and the settings that decide it (2.1).

Never a topology or its name: what applies by default is not written down (S2).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from kube_apimachinery.admission import Object
from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.labels import DYNAMO_ENABLE_GROVE, DYNAMO_ORIGIN_VERSION, DYNAMO_WORKLOAD_PROVIDER
from spinney.core.admission.decoding import items, part

# What the rules for deployments go by beside the objects.


@dataclass(frozen=True, slots=True)
class DynamoAdmissionSettings:
    """`grove`: whether sets can be generated at all; `operator_users` may change replicas that an adapter owns."""

    grove: bool = True
    default_topology: str = DEFAULT_TOPOLOGY
    origin_version: str = "1.0.0"
    operator_users: frozenset[str] = frozenset()


GROVE, COMPONENT = "grove", "component"
SET, CLIQUE, GROUP = "PodCliqueSet", "PodCliqueTemplateSpec", "PodCliqueScalingGroupConfig"
_DECIDED = (DYNAMO_WORKLOAD_PROVIDER, DYNAMO_ORIGIN_VERSION)


def provider_of(obj: Object) -> str:
    """Who renders the deployment, as was decided when it was created."""
    return str(part(obj, "metadata", "annotations").get(DYNAMO_WORKLOAD_PROVIDER) or GROVE)


def defaulted(obj: Object, old: Object | None, settings: DynamoAdmissionSettings) -> Object:
    """The object with everything filled in; the same one where nothing is missing."""
    result = copy.deepcopy(obj)
    _decide_provider(result, old, settings)
    on_grove = provider_of(result) == GROVE
    spec = part(result, "spec")
    _fill_target(spec, SET)
    for component in items(spec.get("components")):
        if isinstance(component, dict):
            _default_component(component, on_grove)
    return obj if result == obj else result


def _default_component(component: dict[str, Any], on_grove: bool) -> None:
    if component.get("replicas") is None:
        component["replicas"] = 1
    if on_grove and component.get("minAvailable") is None:
        component["minAvailable"] = 1
    _fill_target(component, target_of(component))
    for role in ("leader", "worker"):
        _fill_target(part(component, "multinode", role), CLIQUE)


def target_of(component: dict[str, Any]) -> str:
    """What a fragment of a component is laid over."""
    grouped = component.get("multinode") is not None
    return GROUP if grouped or part(component, "experimental", "grove").get("forceScalingGroup") else CLIQUE


def _decide_provider(obj: Object, old: Object | None, settings: DynamoAdmissionSettings) -> None:
    """Once, at creation, whatever the user wrote. Who writes the object anew without it gets it back."""
    metadata = part(obj, "metadata")
    annotations = dict(part(obj, "metadata", "annotations"))
    if old is not None:
        before = part(old, "metadata", "annotations")
        lost = {key: before[key] for key in _DECIDED if key in before and key not in annotations}
        if not lost:
            return
        annotations |= lost
    else:
        opted_out = str(annotations.get(DYNAMO_ENABLE_GROVE, "")).lower() == "false"
        annotations[DYNAMO_WORKLOAD_PROVIDER] = GROVE if settings.grove and not opted_out else COMPONENT
        annotations.setdefault(DYNAMO_ORIGIN_VERSION, settings.origin_version)
    metadata["annotations"] = annotations


def _fill_target(holder: dict[str, Any], target: str) -> None:
    fragment = holder.get("providerOverride")
    if isinstance(fragment, dict) and not fragment.get("target"):
        fragment["target"] = target
