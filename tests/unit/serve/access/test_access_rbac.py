"""May they? Roles, bindings, aggregation, and the words of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.access import bootstrap_policy
from kube_embedded.access.attributes import Attributes, on_path, on_resource, refused
from kube_embedded.base.errors import ApiError
from kube_embedded.base.identity import ADMIN, ANONYMOUS, AUTHENTICATED, Identity, service_account
from unit.serve.access.policy_kit import ALICE, BOB, Object, Policy, account, group, rule, user

POD = on_resource("get", "", "pods", namespace="shop", name="web")


def with_rule(given: Object) -> Policy:
    policy = Policy()
    policy.cluster_role("role", given)
    policy.bind_everywhere("role", user("alice"))
    return policy


RULES: dict[str, tuple[Object, Attributes, bool]] = {
    "the verb": (rule("get", "pods"), POD, True),
    "another verb": (rule("list watch", "pods"), POD, False),
    "every verb": (rule("*", "pods"), POD, True),
    "another group": (rule("get", "pods", group="apps"), POD, False),
    "every group": (rule("get", "pods", group="*"), POD, True),
    "every resource": (rule("get", "*"), POD, True),
    "every resource and its subresources": (rule("get", "*"), on_resource("get", "", "pods", "log"), True),
    "a resource is not its subresource": (rule("get", "pods"), on_resource("get", "", "pods", "log"), False),
    "the subresource": (rule("get", "pods/log"), on_resource("get", "", "pods", "log"), True),
    "a subresource is not its resource": (rule("get", "pods/log"), POD, False),
    "a subresource of everything": (
        rule("update", "*/scale", group="apps"),
        on_resource("update", "apps", "deployments", "scale"),
        True,
    ),
    "another of everything": (
        rule("update", "*/scale", group="apps"),
        on_resource("update", "apps", "deployments", "status"),
        False,
    ),
    "the name": (rule("get", "pods", resourceNames=["web"]), POD, True),
    "another name": (rule("get", "pods", resourceNames=["db"]), POD, False),
    "no name for a name": (rule("list", "pods", resourceNames=["web"]), on_resource("list", "", "pods"), False),
    "the path": ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, on_path("GET", "/metrics"), True),
    "below a path": ({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}, on_path("GET", "/logs/a/b"), True),
    "beside a path": ({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}, on_path("GET", "/log"), False),
    "every path": ({"verbs": ["*"], "nonResourceURLs": ["*"]}, on_path("POST", "/anything"), True),
    "resources are no paths": (rule("*", "*", group="*"), on_path("GET", "/metrics"), False),
}


@pytest.mark.parametrize(("given", "asked", "allowed"), RULES.values(), ids=RULES)
def test_a_rule_allows(given: Object, asked: Attributes, allowed: bool) -> None:
    assert with_rule(given).authorizer.allowed(ALICE, asked)[0] is allowed


SUBJECTS: dict[str, tuple[Object, Identity, bool]] = {
    "the user": (user("alice"), ALICE, True),
    "another user": (user("bob"), ALICE, False),
    "a group": (group("devs"), ALICE, True),
    "another group": (group("ops"), ALICE, False),
    "a group is no user": (group("alice"), ALICE, False),
    "a service account of here": (account("robot"), service_account("shop", "robot"), True),
    "a service account of elsewhere": (account("robot", "lab"), service_account("lab", "robot"), True),
    "its name elsewhere": (account("robot", "lab"), service_account("shop", "robot"), False),
    "everybody": (group(AUTHENTICATED), BOB, True),
    "not nobody": (group(AUTHENTICATED), ANONYMOUS, False),
}


@pytest.mark.parametrize(("subject", "who", "allowed"), SUBJECTS.values(), ids=SUBJECTS)
def test_a_binding_is_for(subject: Object, who: Identity, allowed: bool) -> None:
    policy = Policy()
    policy.role("shop", "reader", rule("get", "pods"))
    policy.bind("shop", "Role", "reader", subject)
    assert policy.authorizer.allowed(who, POD)[0] is allowed


def test_a_binding_in_a_namespace_ends_at_its_border() -> None:
    policy = Policy()
    policy.cluster_role("reader", rule("get list", "pods namespaces"))
    policy.bind("shop", "ClusterRole", "reader", user("alice"))
    allowed = policy.authorizer.allowed
    assert allowed(ALICE, on_resource("list", "", "pods", namespace="shop"))[0]
    assert not allowed(ALICE, on_resource("list", "", "pods", namespace="lab"))[0]
    assert not allowed(ALICE, on_resource("list", "", "pods"))[0]
    assert allowed(ALICE, on_resource("get", "", "namespaces", name="shop"))[0]
    assert not allowed(ALICE, on_resource("get", "", "namespaces", name="lab"))[0]


def test_a_role_of_another_namespace_is_not_meant() -> None:
    policy = Policy()
    policy.role("lab", "reader", rule("get", "pods"))
    policy.bind("shop", "Role", "reader", user("alice"))
    assert policy.authorizer.allowed(ALICE, POD) == (
        False,
        'RBAC: role.rbac.authorization.k8s.io "reader" not found',
    )


def test_a_yes_says_by_what() -> None:
    policy = with_rule(rule("get", "pods"))
    policy.role("shop", "writer", rule("create", "pods"))
    policy.bind("shop", "Role", "writer", account("robot"))
    allowed = policy.authorizer.allowed
    assert allowed(ALICE, POD)[1] == (
        'RBAC: allowed by ClusterRoleBinding "role-all" of ClusterRole "role" to User "alice"'
    )
    assert allowed(service_account("shop", "robot"), on_resource("create", "", "pods", namespace="shop"))[1] == (
        'RBAC: allowed by RoleBinding "writer-here/shop" of Role "writer" to ServiceAccount "robot/shop"'
    )


def test_masters_are_not_looked_up() -> None:
    policy = Policy()
    assert policy.authorizer.allowed(ADMIN, POD) == (True, "")
    assert policy.reads == 0


def test_rules_are_read_once_until_something_changes() -> None:
    policy = with_rule(rule("get", "pods"))
    policy.authorizer.allowed(ALICE, POD)
    before = policy.reads
    policy.authorizer.allowed(ALICE, POD)
    policy.authorizer.allowed(BOB, POD)
    assert policy.reads == before
    policy.bind_everywhere("role", user("bob"))
    assert policy.authorizer.allowed(BOB, POD)[0]


def test_a_change_of_something_else_is_not_one() -> None:
    policy = with_rule(rule("get", "pods"))
    policy.authorizer.allowed(ALICE, POD)
    before = policy.reads
    policy.authorizer.changed("", "pods")
    policy.authorizer.allowed(ALICE, POD)
    assert policy.reads == before


def test_a_gathering_role_has_the_rules_of_those_it_selects() -> None:
    policy = Policy()
    selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    policy.cluster_role("all", aggregationRule=selector, labels={"to": "all"})
    policy.cluster_role("pods", rule("get", "pods"), labels={"to": "all"})
    policy.cluster_role("nodes", rule("get", "nodes"), labels={"to": "none"})
    policy.bind_everywhere("all", user("alice"))
    assert policy.authorizer.allowed(ALICE, POD)[0]
    assert not policy.authorizer.allowed(ALICE, on_resource("get", "", "nodes", name="n"))[0]


def default_policy() -> Policy:
    policy = Policy()
    policy.objects["clusterroles"] = bootstrap_policy.cluster_roles()
    policy.objects["clusterrolebindings"] = bootstrap_policy.cluster_role_bindings()
    return policy


DEFAULTS: dict[str, tuple[str, Attributes, bool]] = {
    "view reads pods": ("view", on_resource("list", "", "pods", namespace="shop"), True),
    "view reads logs": ("view", on_resource("get", "", "pods", "log", "shop", "web"), True),
    "view reads no secrets": ("view", on_resource("list", "", "secrets", namespace="shop"), False),
    "view writes nothing": ("view", on_resource("create", "", "pods", namespace="shop"), False),
    "edit reads what view reads": ("edit", on_resource("list", "batch", "jobs", namespace="shop"), True),
    "edit reads secrets": ("edit", on_resource("get", "", "secrets", namespace="shop", name="s"), True),
    "edit writes": ("edit", on_resource("patch", "apps", "deployments", namespace="shop", name="d"), True),
    "edit scales": ("edit", on_resource("update", "apps", "deployments", "scale", "shop", "d"), True),
    "edit evicts": ("edit", on_resource("create", "", "pods", "eviction", "shop", "web"), True),
    "edit does not bind": ("edit", on_resource("create", "", "pods", "binding", "shop", "web"), False),
    "edit grants nothing": (
        "edit",
        on_resource("create", "rbac.authorization.k8s.io", "roles", namespace="shop"),
        False,
    ),
    "admin does": ("admin", on_resource("create", "rbac.authorization.k8s.io", "roles", namespace="shop"), True),
    "admin is no cluster-admin": ("admin", on_resource("create", "", "nodes"), False),
    "cluster-admin is": ("cluster-admin", on_resource("create", "", "resourcequotas", namespace="shop"), True),
}


@pytest.mark.parametrize(("role", "asked", "allowed"), DEFAULTS.values(), ids=DEFAULTS)
def test_the_roles_that_are_there_from_the_start(role: str, asked: Attributes, allowed: bool) -> None:
    policy = default_policy()
    policy.bind("shop", "ClusterRole", role, user("alice"))
    assert policy.authorizer.allowed(ALICE, asked)[0] is allowed


def test_everybody_may_discover_and_ask_about_themselves() -> None:
    allowed = default_policy().authorizer.allowed
    assert allowed(BOB, on_path("GET", "/apis/apps/v1"))[0]
    assert allowed(BOB, on_resource("create", "authorization.k8s.io", "selfsubjectaccessreviews"))[0]
    assert allowed(ANONYMOUS, on_path("GET", "/readyz"))[0]
    assert not allowed(ANONYMOUS, on_path("GET", "/apis"))[0]


REFUSALS: dict[str, tuple[Attributes, str, dict[str, Any]]] = {
    "in a namespace": (
        on_resource("list", "", "pods", namespace="shop"),
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "shop"',
        {"kind": "pods"},
    ),
    "everywhere": (
        on_resource("watch", "apps", "deployments"),
        'deployments.apps is forbidden: User "bob" cannot watch resource "deployments" in API group "apps" '
        "at the cluster scope",
        {"group": "apps", "kind": "deployments"},
    ),
    "one object": (
        on_resource("get", "", "pods", "log", "shop", "web"),
        'pods "web" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "shop"',
        {"name": "web", "kind": "pods"},
    ),
    "a path": (on_path("GET", "/metrics"), 'forbidden: User "bob" cannot get path "/metrics"', {}),
}


@pytest.mark.parametrize(("asked", "message", "details"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_who_may_not_do_what_where(asked: Attributes, message: str, details: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        Policy().authorizer.check(BOB, asked)
    error = caught.value
    assert (error.code, error.reason, error.message, error.details) == (403, "Forbidden", message, details)


def test_a_name_cannot_smuggle_markup_into_a_refusal() -> None:
    assert 'User "&lt;b&gt;"' in refused(Identity("<b>"), POD).message
