"""Nobody grants more than they have."""

from __future__ import annotations

from typing import Any

import pytest

from kube_apimachinery.admission import AdmissionRequest
from kube_embedded.access.rbac import GROUP, NoEscalation
from kube_embedded.base.errors import ApiError
from kube_embedded.base.identity import ADMIN, Identity
from unit.serve.access.policy_kit import ALICE, Object, Policy, role_ref, rule, user

KINDS = {
    "roles": "Role",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "clusterrolebindings": "ClusterRoleBinding",
}


def writing(plural: str, obj: Object, who: Identity = ALICE, **changes: Any) -> AdmissionRequest:
    fields: dict[str, Any] = {
        "uid": "",
        "operation": "CREATE",
        "group": GROUP,
        "version": "v1",
        "kind": KINDS[plural],
        "resource": plural,
        "subresource": "",
        "namespace": "" if plural.startswith("cluster") else "shop",
        "name": "new",
        "user": who.name,
        "groups": who.groups,
        "object": {"metadata": {"name": "new"}, **obj},
        "old_object": None,
        **changes,
    }
    return AdmissionRequest(**fields)


@pytest.fixture
def policy() -> Policy:
    """Alice reads pods everywhere and may bind `viewer`; `viewer` reads nodes."""
    policy = Policy()
    bind_viewer = rule("bind", "clusterroles", group=GROUP, resourceNames=["viewer"])
    policy.cluster_role("alice", rule("get list", "pods pods/log"), bind_viewer)
    policy.cluster_role("reader", rule("get", "pods"))
    policy.cluster_role("viewer", rule("get", "nodes"))
    policy.cluster_role("boss", rule("*", "*", group="*"))
    policy.bind_everywhere("alice", user("alice"))
    return policy


def verdict(policy: Policy, request: AdmissionRequest) -> ApiError | None:
    plugin = NoEscalation(policy.authorizer)
    assert plugin.handles(request)
    try:
        plugin.validate(request, lambda *key: None)  # type: ignore[arg-type]
    except ApiError as error:
        return error
    return None


def binding_to(kind: str, name: str) -> Object:
    return {"roleRef": role_ref(kind, name), "subjects": [user("alice")]}


GRANTED: dict[str, tuple[str, Object]] = {
    "what one has": ("roles", {"rules": [rule("get", "pods")]}),
    "a part of what one has": ("clusterroles", {"rules": [rule("get", "pods", resourceNames=["web"])]}),
    "nothing": ("roles", {"rules": []}),
    "a role one covers": ("clusterrolebindings", binding_to("ClusterRole", "reader")),
    "a role one may bind": ("clusterrolebindings", binding_to("ClusterRole", "viewer")),
    "a role one may bind, here": ("rolebindings", binding_to("ClusterRole", "viewer")),
}


@pytest.mark.parametrize(("plural", "obj"), GRANTED.values(), ids=GRANTED)
def test_one_may_grant(policy: Policy, plural: str, obj: Object) -> None:
    assert verdict(policy, writing(plural, obj)) is None


REFUSED: dict[str, tuple[str, Object, str]] = {
    "another verb": (
        "roles",
        {"rules": [rule("get delete update", "pods")]},
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "update"]}',
    ),
    "several resources": (
        "roles",
        {"rules": [rule("get", "pods secrets nodes")]},
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}',
    ),
    "a path": (
        "clusterroles",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]},
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
    ),
    "everything": (
        "clusterrolebindings",
        binding_to("ClusterRole", "boss"),
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}',
    ),
}


@pytest.mark.parametrize(("plural", "obj", "missing"), REFUSED.values(), ids=REFUSED)
def test_one_may_not_grant(policy: Policy, plural: str, obj: Object, missing: str) -> None:
    error = verdict(policy, writing(plural, obj))
    assert error is not None and error.code == 403
    assert error.message == (
        f'{plural}.{GROUP} "new" is forbidden: user "alice" (groups=["devs" "system:authenticated"]) '
        f"is attempting to grant RBAC permissions not currently held:\n{missing}"
    )


def test_masters_grant_everything(policy: Policy) -> None:
    assert verdict(policy, writing("clusterroles", {"rules": [rule("*", "*", group="*")]}, who=ADMIN)) is None


def test_escalate_lifts_the_check(policy: Policy) -> None:
    policy.cluster_role("escalator", rule("escalate", "clusterroles", group=GROUP))
    policy.put("clusterrolebindings", {"metadata": {"name": "e"}, **binding_to("ClusterRole", "escalator")})
    assert verdict(policy, writing("clusterroles", {"rules": [rule("*", "*", group="*")]})) is None


def test_a_binding_to_a_role_that_is_not_there_is_not_found(policy: Policy) -> None:
    error = verdict(policy, writing("rolebindings", binding_to("Role", "nope")))
    assert error is not None and (error.code, error.message) == (404, f'rolebindings.{GROUP} "nope" not found')


def test_gathering_rules_needs_everything(policy: Policy) -> None:
    gathering = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "rules": []}
    error = verdict(policy, writing("clusterroles", gathering))
    assert error is not None and error.message.endswith("must have cluster-admin privileges to use the aggregationRule")


def test_taking_a_finalizer_off_grants_nothing(policy: Policy) -> None:
    rules = [rule("*", "*", group="*")]
    old = {"metadata": {"name": "new", "finalizers": ["a/b"]}, "rules": rules}
    request = writing("clusterroles", {"rules": rules}, operation="UPDATE", old_object=old)
    assert verdict(policy, request) is None


def test_other_objects_are_not_looked_at(policy: Policy) -> None:
    request = writing("roles", {}, group="", resource="pods", kind="Pod")
    assert not NoEscalation(policy.authorizer).handles(request)
