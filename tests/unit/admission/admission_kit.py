"""Objects to be judged, a view of a cluster in memory, and the way of an object through both steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionRequest, Verdict
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings

Json = dict[str, Any]

ON = AdmissionSettings()
OFF = AdmissionSettings(topology_enabled=False)
OPERATOR = "system:serviceaccount:grove-system:grove-operator"
KEYS = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "datacenter": "example.com/datacenter",
    "block": "example.com/block",
    "rack": "example.com/rack",
    "host": "kubernetes.io/hostname",
    "numa": "example.com/numa",
}


@dataclass
class View:
    """A cluster: objects by group, plural, namespace and name."""

    objects: dict[tuple[str, str, str, str], Json] = field(default_factory=dict)

    def add(self, plural: str, obj: Json, group: str = "grove.io") -> View:
        metadata = obj["metadata"]
        self.objects[group, plural, metadata.get("namespace", ""), metadata["name"]] = obj
        return self

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Json | None:
        return copy.deepcopy(self.objects.get((group, plural, namespace, name)))

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> list[Json]:
        return [
            copy.deepcopy(obj)
            for key, obj in sorted(self.objects.items())
            if key[:2] == (group, plural)
            and namespace in ("", key[2])
            and (labels or {}).items() <= obj["metadata"].get("labels", {}).items()
        ]


def topology(*domains: str, name: str = "grove-topology") -> Json:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": [{"domain": domain, "key": KEYS[domain]} for domain in domains]},
    }


def view(*topologies: Json) -> View:
    found = View()
    for one in topologies or (topology(*KEYS),):
        found.add("clustertopologies", one)
    return found


def pack(domain: str) -> Json:
    return {"packDomain": domain}


def clique(name: str = "w", constraint: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    pod_spec = {"containers": [{"name": "main", "image": "example.com/app:1"}], **(pod or {})}
    made: Json = {"name": name, "spec": {"podSpec": pod_spec, "replicas": 2, **spec}}
    return made | {"topologyConstraint": constraint} if constraint is not None else made


def group(name: str, *cliques: str, constraint: Json | None = None, **more: Any) -> Json:
    made: Json = {"name": name, "cliqueNames": list(cliques), **more}
    return made | {"topologyConstraint": constraint} if constraint is not None else made


def pcs(
    *cliques: Json,
    name: str = "p",
    namespace: str = "ns",
    constraint: Json | None = None,
    groups: tuple[Json, ...] = (),
    labels: Json | None = None,
    annotations: Json | None = None,
    **template: Any,
) -> Json:
    content: Json = {"cliques": list(cliques or (clique(),)), **template}
    if groups:
        content["podCliqueScalingGroups"] = list(groups)
    if constraint is not None:
        content["topologyConstraint"] = constraint
    metadata: Json = {"name": name, "namespace": namespace}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata,
        "spec": {"replicas": 1, "template": content},
    }


def podclique(of: str, scheduled: int, namespace: str = "ns", name: str = "") -> Json:
    return {
        "metadata": {"name": name or f"{of}-0-w", "namespace": namespace, "labels": {"app.kubernetes.io/part-of": of}},
        "spec": {},
        "status": {"scheduledReplicas": scheduled},
    }


RESOURCES = {"ClusterTopology": "clustertopologies", "ClusterTopologyBinding": "clustertopologybindings"}


def request(obj: Any, old: Any = None, *, user: str = "alice", kind: str = "") -> AdmissionRequest:
    kind = kind or (obj.get("kind") if isinstance(obj, dict) else "") or "PodCliqueSet"
    metadata = obj.get("metadata") if isinstance(obj, dict) else {}
    metadata = metadata if isinstance(metadata, dict) else {}
    return AdmissionRequest(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        group="grove.io",
        version="v1alpha1",
        kind=kind,
        resource=RESOURCES.get(kind, "podcliquesets"),
        subresource="",
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        user=user,
        groups=(),
        object=obj,
        old_object=old,
    )


def stored(obj: Json, settings: AdmissionSettings = ON, lookup: View | None = None, old: Json | None = None) -> Json:
    """The object as it would be stored, whether or not it is allowed."""
    verdict = OperatorAdmission(settings).mutate(request(obj, old), lookup or view())
    return obj if verdict.object is None else verdict.object


def judge(
    obj: Json,
    old: Json | None = None,
    *,
    settings: AdmissionSettings = ON,
    lookup: View | None = None,
    user: str = "alice",
) -> Verdict:
    """Both steps, as a server takes them."""
    rules, seen, asked = OperatorAdmission(settings), lookup or view(), request(obj, old, user=user)
    changed = rules.mutate(asked, seen).object
    return rules.validate(asked if changed is None else replace(asked, object=changed), seen)


def errors(obj: Json, old: Json | None = None, **how: Any) -> list[str]:
    """Every error as its text; none means allowed."""
    verdict = judge(obj, old, **how)
    assert verdict.allowed == (not verdict.errors), verdict
    return [str(error) for error in verdict.errors]


def warnings(obj: Json, old: Json | None = None, **how: Any) -> list[str]:
    return list(judge(obj, old, **how).warnings)


def changed(obj: Json, **template: Any) -> Json:
    """A copy with other fields of the template; None takes a field away."""
    made = copy.deepcopy(obj)
    for key, value in template.items():
        if value is None:
            made["spec"]["template"].pop(key, None)
        else:
            made["spec"]["template"][key] = value
    return made
