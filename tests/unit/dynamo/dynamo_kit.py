"""Deployments in few words, and a view of the cluster for rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Unreadable
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission

Json = dict[str, Any]
LEVELS = ("zone", "block", "rack", "host")


def component(name: str, kind: str = "worker", gpus: int = 0, line: str = "", **more: Any) -> Json:
    """A component with an image; `line` is what a shell runs in it."""
    main: Json = {"name": "main", "image": "serve:1.0.0"}
    if gpus:
        main["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    if line:
        main["args"] = [line]
    return {"name": name, "type": kind, "podTemplate": {"spec": {"containers": [main]}}, **more}


def deployment(name: str, *components: Json, annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": "u-1",
            "resourceVersion": "7",
            "generation": 1,
            "annotations": annotations or {},
        },
        "spec": {"components": list(components), **spec},
    }


def packed(domain: str, name: str = "") -> Json:
    return {"packDomain": domain, "clusterTopologyName": name} if name else {"packDomain": domain}


class View:
    """Topologies by name with their domains; a name in `forbidden` cannot be read."""

    def __init__(self, topologies: Mapping[str, Sequence[str]] | None = None, forbidden: str = "") -> None:
        self._topologies = {"grove-topology": LEVELS} if topologies is None else topologies
        self._forbidden = forbidden

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Json | None:
        assert group == "grove.io"
        if plural != "clustertopologies":
            assert plural == "clustertopologybindings"
            return None
        if name == self._forbidden:
            raise Unreadable("clustertopologies is forbidden")
        domains = self._topologies.get(name)
        if domains is None:
            return None
        levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
        return {"metadata": {"name": name}, "spec": {"levels": levels}}

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[Json]:
        raise AssertionError("no rule for deployments lists anything")


def request(obj: Json, old: Json | None = None, user: str = "jane") -> AdmissionRequest:
    return AdmissionRequest(
        uid="r",
        operation="CREATE" if old is None else "UPDATE",
        group="nvidia.com",
        version=obj["apiVersion"].partition("/")[2],
        kind="DynamoGraphDeployment",
        resource="dynamographdeployments",
        subresource="",
        namespace="ml",
        name=obj["metadata"]["name"],
        user=user,
        groups=(),
        object=obj,
        old_object=old,
    )


def errors(
    obj: Json, old: Json | None = None, view: View | None = None, user: str = "jane", **settings: Any
) -> list[str]:
    """What a deployment is refused for, after it was defaulted."""
    rules = DynamoAdmission(DynamoAdmissionSettings(**settings))
    found = view or View()
    asked = request(obj, old, user)
    changed = rules.mutate(asked, found).object
    verdict = rules.validate(request(changed or obj, old, user), found)
    return [str(error) for error in verdict.errors] or ([verdict.message] if not verdict.allowed else [])
