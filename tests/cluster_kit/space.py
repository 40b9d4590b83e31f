"""Objects of one namespace, or of the cluster, spoken of by plural: `space.create("pods", pod("p"))`."""

from __future__ import annotations

import builtins
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from cluster_kit.server import PATCH_TYPES, Reply, Server, Watch, eventually

GROUPS = {
    "/api/v1": (
        "bindings configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes "
        "pods podtemplates replicationcontrollers resourcequotas secrets serviceaccounts services"
    ),
    "/apis/apps/v1": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "/apis/batch/v1": "cronjobs jobs",
    "/apis/autoscaling/v2": "horizontalpodautoscalers",
    "/apis/policy/v1": "poddisruptionbudgets",
    "/apis/node.k8s.io/v1": "runtimeclasses",
    "/apis/scheduling.k8s.io/v1": "priorityclasses",
    "/apis/coordination.k8s.io/v1": "leases",
    "/apis/storage.k8s.io/v1": "storageclasses",
    "/apis/resource.k8s.io/v1": "resourceclaims resourceclaimtemplates resourceslices deviceclasses",
    "/apis/rbac.authorization.k8s.io/v1": "roles rolebindings clusterroles clusterrolebindings",
    "/apis/apiextensions.k8s.io/v1": "customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1": "mutatingwebhookconfigurations validatingwebhookconfigurations",
    "/apis/authorization.k8s.io/v1": "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    "/apis/authentication.k8s.io/v1": "selfsubjectreviews tokenreviews",
}
PREFIX = {plural: prefix for prefix, plurals in GROUPS.items() for plural in plurals.split()}


def prefix_of(collection: str) -> tuple[str, str]:
    """(/apis/group/version, plural) of "pods" or of "example.com/v1/widgets"."""
    if "/" in collection:
        group, version, plural = collection.split("/")
        return (f"/apis/{group}/{version}" if group else f"/api/{version}"), plural
    return PREFIX[collection], collection


@dataclass(slots=True)
class Space:
    """A server seen from one namespace (or, with an empty one, from the cluster) as one user."""

    server: Server
    namespace: str
    user: str | None = "admin"
    _made: list[str] = field(default_factory=list)

    def path(self, collection: str, name: str = "", sub: str = "") -> str:
        prefix, plural = prefix_of(collection)
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{prefix}{within}/{plural}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")

    def as_user(self, user: str | None) -> Space:
        return Space(self.server, self.namespace, user, self._made)

    def create(self, collection: str, body: Any, *, name: str = "", sub: str = "", **query: Any) -> Reply:
        path = self.path(collection, name, sub)
        reply = self.server.http("POST", path, body, query=query, user=self.user)
        if not self.namespace and not sub and reply.status == 201 and "dryRun" not in query:
            made = reply.body.get("metadata", {}).get("name")
            if made:
                self._made.append(f"{path}/{made}")
        return reply

    def get(self, collection: str, name: str = "", sub: str = "", *, accept: str = "", **query: Any) -> Reply:
        headers = {"Accept": accept} if accept else None
        return self.server.http("GET", self.path(collection, name, sub), query=query, headers=headers, user=self.user)

    def list(self, collection: str, **query: Any) -> Any:
        return self.get(collection, **query).ok(200)

    def names(self, collection: str, **query: Any) -> builtins.list[str]:
        return [item["metadata"]["name"] for item in self.list(collection, **query)["items"]]

    def replace(self, collection: str, body: Any, *, name: str = "", sub: str = "", **query: Any) -> Reply:
        path = self.path(collection, name or body["metadata"]["name"], sub)
        return self.server.http("PUT", path, body, query=query, user=self.user)

    def patch(self, collection: str, name: str, body: Any, type: str = "merge", sub: str = "", **query: Any) -> Reply:
        headers = {"Content-Type": PATCH_TYPES.get(type, type)}
        path = self.path(collection, name, sub)
        return self.server.http("PATCH", path, body, query=query, headers=headers, user=self.user)

    def apply(self, collection: str, body: Any, *, manager: str = "tester", sub: str = "", **query: Any) -> Reply:
        """Server-side apply."""
        return self.patch(collection, body["metadata"]["name"], body, "apply", sub, fieldManager=manager, **query)

    def delete(self, collection: str, name: str = "", body: Any = None, **query: Any) -> Reply:
        return self.server.http("DELETE", self.path(collection, name), body, query=query, user=self.user)

    def watch(self, collection: str, *, accept: str = "", **query: Any) -> AbstractContextManager[Watch]:
        headers = {"Accept": accept} if accept else None
        query = {"watch": "true", "timeoutSeconds": 15, **query}
        return self.server.stream(self.path(collection), query=query, headers=headers, user=self.user)

    def gone(self, collection: str, name: str) -> None:
        """Wait until it is not found."""
        eventually(lambda: self.get(collection, name).status == 404, f"{collection}/{name} is gone")

    def exists(self, collection: str, name: str) -> bool:
        return self.get(collection, name).status == 200

    def establish(self, definition: Any) -> Any:
        """Create a CustomResourceDefinition and wait until its kind is served and listable."""
        name = self.create("customresourcedefinitions", definition).ok(201)["metadata"]["name"]
        return self.established(name)

    def established(self, name: str) -> Any:
        def served() -> Any:
            now = self.get("customresourcedefinitions", name).ok(200)
            conditions = {each["type"]: each["status"] for each in now["status"].get("conditions") or []}
            if conditions.get("Established") != "True":
                return None
            spec = now["spec"]
            paths = [
                f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                for version in spec["versions"]
                if version["served"]
            ]
            return now if all(self.server.http("GET", path).status == 200 for path in paths) else None

        return eventually(served, f"{name} is served")

    def clean(self) -> None:
        """Delete what was made in the cluster's scope, newest first."""
        for path in reversed(self._made):
            self.server.http("PATCH", path, [{"op": "remove", "path": "/metadata/finalizers"}], headers=JSON_PATCH)
            self.server.http("DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        self._made.clear()


JSON_PATCH = {"Content-Type": PATCH_TYPES["json"]}
