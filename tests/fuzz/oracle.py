"""A real kube-apiserver that is asked whether it would accept an object, and in which form it would store it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_kit.server import Server
from cluster_kit.space import Space
from fuzz.objects import BASES, CLUSTER_WIDE, Json
from stack_kit.bare import bare_server

FOREIGN = frozenset(
    (
        *("noderesourcetopologies", "computedomains", "jobsets", "rayclusters", "rayjobs", "leaderworkersets"),
        *("pytorchjobs", "mpijobs"),
    )
)
"""Kinds of others, whose definitions need not say anything of their shape."""


class Oracle:
    def __init__(self, server: Server) -> None:
        self._spaces = {True: Space(server, ""), False: Space(server, "ns")}

    def prepare(self) -> None:
        cluster, space = self._spaces[True], self._spaces[False]
        cluster.create("namespaces", {"metadata": {"name": "ns"}}).ok(201)
        space.create("serviceaccounts", {"metadata": {"name": "default"}}).ok(201)
        definitions = [_definition(plural) for plural in sorted(FOREIGN)]
        for definition in definitions:
            cluster.apply("customresourcedefinitions", definition).ok(201)
        for definition in definitions:
            cluster.established(definition["metadata"]["name"])

    def stored(self, plural: str, found: Json) -> Json | None:
        """The object as it would be stored; None where it would be refused."""
        space = self._spaces[plural in CLUSTER_WIDE]
        reply = space.create(_collection(plural), _sendable(plural, found), dryRun="All", fieldValidation="Ignore")
        assert reply.status < 500, (reply.status, reply.body)
        body: Json = reply.body
        return body if reply.status == 201 else None


@contextmanager
def oracle(directory: Path) -> Iterator[Oracle]:
    with bare_server("real", directory) as server:
        found = Oracle(server)
        found.prepare()
        yield found


def _collection(plural: str) -> str:
    version = BASES[plural]["apiVersion"]
    return f"{version}/{plural}" if "/" in version else f"/{version}/{plural}"


def _sendable(plural: str, found: Json) -> Json:
    """Pods name a service account, which nobody does for them here, and no priority, which they may not."""
    spec: Any = found.get("spec")
    if plural != "pods" or not isinstance(spec, dict):
        return found
    kept = {key: value for key, value in spec.items() if key != "priority"}
    return {**found, "spec": {**kept, "serviceAccountName": "default", "automountServiceAccountToken": False}}


def _definition(plural: str) -> Json:
    base = BASES[plural]
    group, _, version = base["apiVersion"].rpartition("/")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": base["kind"], "plural": plural}
    scope = "Cluster" if plural in CLUSTER_WIDE else "Namespaced"
    spec = {"group": group, "scope": scope, "names": names, "versions": [served]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    approval = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}
    return {**kind, "metadata": {"name": f"{plural}.{group}", "annotations": approval}, "spec": spec}
