"""Roles, bindings and an authorizer over them."""

from __future__ import annotations

from typing import Any

from kube_embedded.access.rbac import GROUP, Authorizer
from kube_embedded.base.identity import AUTHENTICATED, Identity

Object = dict[str, Any]

ALICE = Identity("alice", groups=("devs", AUTHENTICATED))
BOB = Identity("bob", groups=(AUTHENTICATED,))


class Policy:
    """What is stored. Every change is told to the authorizer."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Object]] = {}
        self.reads = 0
        self.authorizer = Authorizer(self._list)

    def _list(self, group: str, plural: str) -> list[Object]:
        assert group == GROUP
        self.reads += 1
        return self.objects.get(plural, [])

    def put(self, plural: str, obj: Object) -> None:
        self.objects.setdefault(plural, []).append(obj)
        self.authorizer.changed(GROUP, plural)

    def cluster_role(self, name: str, *rules: Object, **fields: Any) -> None:
        labels = fields.pop("labels", {})
        self.put("clusterroles", {"metadata": {"name": name, "labels": labels}, "rules": list(rules), **fields})

    def role(self, namespace: str, name: str, *rules: Object) -> None:
        self.put("roles", {"metadata": {"name": name, "namespace": namespace}, "rules": list(rules)})

    def bind_everywhere(self, role: str, *subjects: Object) -> None:
        binding = {"metadata": {"name": f"{role}-all"}, "roleRef": role_ref("ClusterRole", role)}
        self.put("clusterrolebindings", {**binding, "subjects": list(subjects)})

    def bind(self, namespace: str, kind: str, role: str, *subjects: Object) -> None:
        metadata = {"name": f"{role}-here", "namespace": namespace}
        binding = {"metadata": metadata, "roleRef": role_ref(kind, role), "subjects": list(subjects)}
        self.put("rolebindings", binding)


def role_ref(kind: str, name: str) -> Object:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def rule(verbs: str, resources: str = "", *, group: str = "", **fields: Any) -> Object:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split(), **fields}


def user(name: str) -> Object:
    return {"kind": "User", "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> Object:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}
