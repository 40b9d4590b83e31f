"""Who may do what: tokens, roles, bindings, and the questions about them."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import cluster_role, cluster_role_binding, config, crd, custom, pod, role, role_binding
from cluster_kit.server import eventually
from cluster_kit.space import Space


def allows(reply_of: Any, what: str = "the role is known") -> None:
    """Roles take effect soon, not at once."""
    eventually(lambda: reply_of().status < 400, what)


def grant(space: Space, user: str, *rules: dict[str, Any]) -> None:
    space.create("roles", role("granted", *rules)).ok(201)
    space.create("rolebindings", role_binding("granted", "granted", user)).ok(201)


def rules(resources: str, *verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs), **more}


def test_an_unknown_token_is_nobody(space: Space) -> None:
    refused = space.as_user("an-unknown-token").get("configmaps")
    refused.refused(401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic YTpi", "nonsense"])
def test_a_header_that_is_no_token_is_anonymous(header: str, space: Space) -> None:
    reply = space.server.http("GET", space.path("configmaps"), headers={"Authorization": header}, user=None)
    reply.refused(403, "Forbidden", 'User "system:anonymous" cannot list resource "configmaps"')


def test_without_a_token_one_is_anonymous(space: Space) -> None:
    refused = space.as_user(None).get("configmaps")
    message = (
        'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" '
        f'in the namespace "{space.namespace}"'
    )
    refused.refused(403, "Forbidden", message)


def test_anybody_may_ask_for_health_and_version(space: Space) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert space.server.http("GET", path, user=None).status == 200


DENIED: dict[str, tuple[Any, str]] = {
    "get": (
        lambda s: s.get("configmaps", "a"),
        'configmaps "a" is forbidden: User "bob" cannot get resource "configmaps"',
    ),
    "list": (lambda s: s.get("configmaps"), 'configmaps is forbidden: User "bob" cannot list resource "configmaps"'),
    "watch": (lambda s: s.get("configmaps", watch="true"), 'User "bob" cannot watch resource "configmaps"'),
    "create": (lambda s: s.create("configmaps", config("a")), 'User "bob" cannot create resource "configmaps"'),
    "update": (lambda s: s.replace("configmaps", config("a")), 'User "bob" cannot update resource "configmaps"'),
    "patch": (lambda s: s.patch("configmaps", "a", {}), 'User "bob" cannot patch resource "configmaps"'),
    "delete": (lambda s: s.delete("configmaps", "a"), 'User "bob" cannot delete resource "configmaps"'),
    "delete all": (lambda s: s.delete("configmaps"), 'User "bob" cannot deletecollection resource "configmaps"'),
    "status": (lambda s: s.patch("pods", "p", {}, sub="status"), 'User "bob" cannot patch resource "pods/status"'),
    "binding": (
        lambda s: s.create("pods", {}, name="p", sub="binding"),
        'User "bob" cannot create resource "pods/binding"',
    ),
    "scale": (
        lambda s: s.get("deployments", "d", "scale"),
        'deployments.apps "d" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps"',
    ),
}


@pytest.mark.parametrize("row", DENIED)
def test_without_a_role_nothing_is_allowed(row: str, space: Space) -> None:
    request, message = DENIED[row]
    refused = request(space.as_user("bob")).refused(403, "Forbidden", message)
    assert f'in the namespace "{space.namespace}"' in refused.message
    assert space.names("configmaps") == []


def test_at_the_scope_of_the_cluster(cluster: Space) -> None:
    refused = cluster.as_user("bob").get("nodes")
    refused.refused(
        403,
        "Forbidden",
        'nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope',
    )


def test_a_role_allows_what_it_says_and_nothing_more(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    grant(space, "alice", rules("configmaps", "get", "list"))
    alice = space.as_user("alice")
    allows(lambda: alice.get("configmaps", "a"))
    assert alice.names("configmaps") == ["a"]
    alice.create("configmaps", config("b")).refused(403, "Forbidden")
    alice.get("secrets").refused(403, "Forbidden")
    Space(space.server, "default", "alice").get("configmaps").refused(403, "Forbidden")


def test_a_role_may_name_objects(space: Space) -> None:
    for name in ("a", "b"):
        space.create("configmaps", config(name)).ok(201)
    grant(space, "alice", rules("configmaps", "get", resourceNames=["a"]))
    alice = space.as_user("alice")
    allows(lambda: alice.get("configmaps", "a"))
    alice.get("configmaps", "b").refused(403, "Forbidden")


def test_a_role_for_subresources(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    grant(space, "alice", rules("pods/status", "patch"))
    alice = space.as_user("alice")
    allows(lambda: alice.patch("pods", "p", {"status": {"message": "x"}}, sub="status"))
    alice.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}).refused(403, "Forbidden")


def test_a_group_may_be_bound(space: Space) -> None:
    space.create("roles", role("r", rules("configmaps", "list"))).ok(201)
    body = role_binding("b", "r", "x")
    body["subjects"] = [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}]
    space.create("rolebindings", body).ok(201)
    allows(lambda: space.as_user("alice").get("configmaps"))
    allows(lambda: space.as_user("carol").get("configmaps"))
    space.as_user("bob").get("configmaps").refused(403, "Forbidden")


def test_everybody_known_is_in_a_group(space: Space) -> None:
    space.create("roles", role("r", rules("configmaps", "list"))).ok(201)
    body = role_binding("b", "r", "x")
    body["subjects"] = [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}]
    space.create("rolebindings", body).ok(201)
    allows(lambda: space.as_user("bob").get("configmaps"))
    space.as_user(None).get("configmaps").refused(403, "Forbidden")


def test_a_cluster_role_bound_in_a_namespace(space: Space, cluster: Space, unique: str) -> None:
    cluster.create("clusterroles", cluster_role(unique, rules("configmaps", "*"))).ok(201)
    space.create("rolebindings", role_binding("b", unique, "alice", "ClusterRole")).ok(201)
    allows(lambda: space.as_user("alice").get("configmaps"))
    cluster.as_user("alice").get("configmaps").refused(403, "Forbidden")


def test_a_cluster_role_bound_in_the_cluster(space: Space, cluster: Space, unique: str) -> None:
    cluster.create("clusterroles", cluster_role(unique, rules("leases", "list", group="coordination.k8s.io"))).ok(201)
    cluster.create("clusterrolebindings", cluster_role_binding(unique, unique, "carol")).ok(201)
    allows(lambda: cluster.as_user("carol").get("leases"))
    allows(lambda: space.as_user("carol").get("leases"))


def test_a_role_for_custom_kinds(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    grant(space, "alice", rules("widgets", "create", "get", group=group))
    alice = space.as_user("alice")
    allows(lambda: alice.create(f"{group}/v1/widgets", custom(group, "a"), dryRun="All"))
    alice.delete(f"{group}/v1/widgets", "a").refused(403, "Forbidden", f"widgets.{group}")


def test_a_role_taken_away(space: Space) -> None:
    grant(space, "alice", rules("configmaps", "list"))
    allows(lambda: space.as_user("alice").get("configmaps"))
    space.delete("rolebindings", "granted").ok(200)
    eventually(lambda: space.as_user("alice").get("configmaps").status == 403, "the binding is forgotten")


def test_nobody_grants_more_than_he_has(space: Space) -> None:
    grant(space, "alice", rules("roles", "create", group="rbac.authorization.k8s.io"), rules("configmaps", "get"))
    alice = space.as_user("alice")
    allows(lambda: alice.create("roles", role("mine", rules("configmaps", "get")), dryRun="All"))
    refused = alice.create("roles", role("more", rules("secrets", "get")))
    refused.refused(403, "Forbidden", "is attempting to grant RBAC permissions not currently held")
    assert not space.exists("roles", "more")


def test_nobody_binds_a_role_he_does_not_have(space: Space) -> None:
    space.create("roles", role("power", rules("secrets", "*"))).ok(201)
    grant(space, "alice", rules("rolebindings", "create", group="rbac.authorization.k8s.io"))
    alice = space.as_user("alice")
    allows(lambda: alice.create("rolebindings", role_binding("b", "granted", "bob"), dryRun="All"))
    alice.create("rolebindings", role_binding("c", "power", "alice")).refused(403, "Forbidden")


def test_the_role_of_a_binding_cannot_be_changed(space: Space) -> None:
    space.create("rolebindings", role_binding("b", "r", "alice")).ok(201)
    refused = space.patch("rolebindings", "b", {"roleRef": {"name": "other"}})
    refused.refused(422, "Invalid", "cannot change roleRef")


BAD_ROLES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no verbs": ("roles", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}, "rules[0].verbs"),
    "no resources": ("roles", {"rules": [{"apiGroups": [""], "verbs": ["get"]}]}, "rules[0].resources"),
    "no groups": ("roles", {"rules": [{"resources": ["pods"], "verbs": ["get"]}]}, "rules[0].apiGroups"),
    "urls in a namespace": (
        "roles",
        {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        "rules[0].nonResourceURLs",
    ),
    "no role": ("rolebindings", {"roleRef": {"kind": "Role", "name": ""}}, "roleRef.name"),
    "a role of another kind": ("rolebindings", {"roleRef": {"kind": "Pod", "name": "x"}}, "roleRef.kind"),
    "a subject of another kind": (
        "rolebindings",
        {"roleRef": {"kind": "Role", "name": "x"}, "subjects": [{"kind": "Robot", "name": "x"}]},
        "subjects[0].kind",
    ),
}


@pytest.mark.parametrize("row", BAD_ROLES)
def test_a_bad_role_is_refused(row: str, space: Space) -> None:
    plural, body, field = BAD_ROLES[row]
    refused = space.create(plural, {"metadata": {"name": "r"}, **body}).refused(422, "Invalid")
    assert field in [each for _, each in refused.causes], refused.causes


@pytest.fixture
def reviews(space: Space, cluster: Space) -> Any:
    def ask(user: str, **attributes: str) -> bool:
        body = {"spec": {"resourceAttributes": {"namespace": space.namespace, **attributes}}}
        return bool(cluster.as_user(user).create("selfsubjectaccessreviews", body).ok(201)["status"]["allowed"])

    return ask


def test_one_may_ask_what_one_may(space: Space, reviews: Any) -> None:
    grant(space, "alice", rules("pods", "get"), rules("pods/log", "get"))
    eventually(lambda: reviews("alice", verb="get", resource="pods"))
    assert reviews("alice", verb="get", resource="pods", subresource="log")
    assert not reviews("alice", verb="delete", resource="pods")
    assert not reviews("alice", verb="get", resource="pods", group="apps")
    assert reviews("admin", verb="delete", resource="pods")


def test_a_review_repeats_its_question(cluster: Space) -> None:
    spec = {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
    answer = cluster.as_user("bob").create("selfsubjectaccessreviews", {"spec": spec}).ok(201)
    assert (answer["kind"], answer["spec"]) == ("SelfSubjectAccessReview", spec)
    assert answer["status"]["allowed"] is True


def test_a_review_without_a_question_is_refused(cluster: Space) -> None:
    cluster.create("selfsubjectaccessreviews", {"spec": {}}).refused(422, "Invalid")


def test_one_may_ask_about_others(space: Space, cluster: Space) -> None:
    grant(space, "alice", rules("pods", "get"))

    def allowed(user: str) -> bool:
        attributes = {"namespace": space.namespace, "verb": "get", "resource": "pods"}
        spec = {"user": user, "resourceAttributes": attributes}
        return bool(cluster.create("subjectaccessreviews", {"spec": spec}).ok(201)["status"]["allowed"])

    eventually(lambda: allowed("alice"))
    assert not allowed("bob")


def test_one_may_ask_who_one_is(cluster: Space) -> None:
    answer = cluster.as_user("carol").create("selfsubjectreviews", {}).ok(201)
    info = answer["status"]["userInfo"]
    assert info["username"] == "carol"
    assert sorted(info["groups"]) == ["dev", "ops", "system:authenticated"]


def test_one_may_list_ones_rules(space: Space, cluster: Space) -> None:
    grant(space, "alice", rules("pods", "get", "list"))

    def told() -> bool:
        body = {"spec": {"namespace": space.namespace}}
        status = cluster.as_user("alice").create("selfsubjectrulesreviews", body).ok(201)["status"]
        wanted = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
        return wanted in status["resourceRules"]

    eventually(told)


def test_impersonation_by_the_administrator(space: Space) -> None:
    reply = space.server.http("GET", space.path("configmaps"), headers={"Impersonate-User": "bob"})
    reply.refused(403, "Forbidden", 'User "bob" cannot list resource "configmaps"')


def test_impersonation_needs_permission(space: Space) -> None:
    headers = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    reply = space.server.http("GET", space.path("configmaps"), headers=headers, user="bob")
    reply.refused(403, "Forbidden", 'User "bob" cannot impersonate')


def test_a_service_account_gets_a_token(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "robot"}}).ok(201)
    answer = space.create("serviceaccounts", {"spec": {"expirationSeconds": 3600}}, name="robot", sub="token").ok(201)
    assert answer["kind"] == "TokenRequest"
    token = answer["status"]["token"]
    refused = space.as_user(token).get("configmaps")
    refused.refused(403, "Forbidden", f'User "system:serviceaccount:{space.namespace}:robot" cannot list')
    body = role_binding("b", "r", "x")
    body["subjects"] = [{"kind": "ServiceAccount", "name": "robot", "namespace": space.namespace}]
    space.create("roles", role("r", rules("configmaps", "list"))).ok(201)
    space.create("rolebindings", body).ok(201)
    allows(lambda: space.as_user(token).get("configmaps"))


def test_a_token_of_a_deleted_account_is_nobody(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "robot"}}).ok(201)
    answer = space.create("serviceaccounts", {"spec": {}}, name="robot", sub="token").ok(201)
    space.delete("serviceaccounts", "robot").ok(200)
    token = answer["status"]["token"]
    eventually(lambda: space.as_user(token).get("configmaps").status == 401, "the token is not accepted any more", 30)


def test_the_aggregated_roles_of_every_cluster(cluster: Space) -> None:
    assert {"cluster-admin", "admin", "edit", "view"} <= set(cluster.names("clusterroles"))
