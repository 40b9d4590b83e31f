"""Versions and conflicts: a write that is based on something old never wins."""

from __future__ import annotations

import pytest

from cluster_kit.kinds import KINDS, Kind, body_of
from cluster_kit.objects import config, crd, custom, lease, merged, pod
from cluster_kit.space import Space

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def scope_of(kind: Kind, space: Space, cluster: Space) -> Space:
    return space if kind.namespaced else cluster


def each_kind(*skip: str) -> pytest.MarkDecorator:
    rows = [pytest.param(kind, id=kind.plural) for kind in KINDS if kind.plural not in skip]
    return pytest.mark.parametrize("kind", rows)


@each_kind("namespaces", "customresourcedefinitions")
def test_a_stale_replace_is_refused(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = scope_of(kind, space, cluster)
    old = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)
    name = old["metadata"]["name"]
    changed = at.patch(kind.plural, name, kind.change).ok(200)
    stale = merged(old, {"metadata": {"annotations": {"stale": "yes"}}})
    group = stale["apiVersion"].rpartition("/")[0] if "apiVersion" in stale else ""
    qualified = f"{kind.plural}.{group}" if group else kind.plural
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {MODIFIED}'
    refused = at.replace(kind.plural, stale).refused(409, "Conflict", message)
    assert refused.body["details"]["name"] == name
    assert refused.body["details"]["kind"] == kind.plural
    assert "stale" not in at.get(kind.plural, name).ok()["metadata"].get("annotations", {})
    assert changed["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]


@each_kind()
def test_every_change_raises_the_version(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = scope_of(kind, space, cluster)
    made = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)["metadata"]
    changed = at.patch(kind.plural, made["name"], kind.change).ok(200)["metadata"]
    assert int(changed["resourceVersion"]) > int(made["resourceVersion"])
    assert (changed["uid"], changed["creationTimestamp"]) == (made["uid"], made["creationTimestamp"])


# Controllers write to the first four; the real server moves the status of a claim from one manager to another.
@each_kind("namespaces", "customresourcedefinitions", "jobs", "poddisruptionbudgets", "persistentvolumeclaims")
def test_a_write_that_changes_nothing_keeps_the_version(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = scope_of(kind, space, cluster)
    made = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)
    again = at.replace(kind.plural, made).ok(200)
    patched = at.patch(kind.plural, made["metadata"]["name"], {"metadata": {"labels": None}}).ok(200)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


STATUS_KINDS = [pytest.param(kind, id=kind.plural) for kind in KINDS if kind.status]


@pytest.mark.parametrize("kind", STATUS_KINDS)
def test_a_stale_status_write_is_refused(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = scope_of(kind, space, cluster)
    old = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)
    name = old["metadata"]["name"]
    at.patch(kind.plural, name, {"metadata": {"labels": {"moved": "on"}}}).ok(200)
    before = at.get(kind.plural, name, "status").ok()
    at.replace(kind.plural, merged(old, kind.status), sub="status").refused(409, "Conflict", MODIFIED)
    assert at.get(kind.plural, name).ok().get("status") == before.get("status")


def test_a_replace_without_a_version_is_unconditional_for_built_in_kinds(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    replaced = space.replace("configmaps", config("a", {"k": "w"})).ok(200)
    assert replaced["data"] == {"k": "w"}
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_replace_without_a_version_is_refused_for_custom_kinds(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "a")).ok(201)
    refused = space.replace(f"{group}/v1/widgets", custom(group, "a", spec={"size": 1}))
    refused.refused(422, "Invalid", "metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    assert "spec" not in space.get(f"{group}/v1/widgets", "a").ok()


def test_a_patch_that_carries_an_old_version_is_refused(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    space.patch("configmaps", "a", {"data": {"k": "w"}}).ok(200)
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "x"}}
    space.patch("configmaps", "a", stale).refused(409, "Conflict", MODIFIED)
    assert space.get("configmaps", "a").ok()["data"] == {"k": "w"}


def test_a_patch_that_carries_the_current_version_is_accepted(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "x"}}
    assert space.patch("configmaps", "a", patch).ok(200)["data"] == {"k": "x"}


def test_a_json_patch_test_of_the_version_fails_when_it_moved(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    space.patch("configmaps", "a", {"data": {"k": "w"}}).ok(200)
    version = made["metadata"]["resourceVersion"]
    patch = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
    space.patch("configmaps", "a", patch, "json").refused(422, "Invalid")


def test_a_replace_with_another_uid_is_refused(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    other = merged(made, {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})
    space.replace("configmaps", other).refused(409, "Conflict", "Precondition failed: UID in precondition")


def test_a_create_with_a_version_is_refused(space: Space) -> None:
    refused = space.create("configmaps", config("a", resourceVersion="5"))
    refused.refused(500, "", "resourceVersion should not be set on objects to be created")
    assert not space.exists("configmaps", "a")


def test_creating_what_exists_is_refused(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    refused = space.create("configmaps", config("a", {"k": "w"}))
    refused.refused(409, "AlreadyExists", 'configmaps "a" already exists')
    assert refused.body["details"] == {"name": "a", "kind": "configmaps"}
    assert space.get("configmaps", "a").ok()["data"] == {"k": "v"}


@pytest.mark.parametrize("verb", ["get", "replace", "patch", "delete", "status", "scale"])
def test_what_does_not_exist_is_not_found(verb: str, space: Space) -> None:
    reply = {
        "get": lambda: space.get("pods", "absent"),
        "replace": lambda: space.replace("pods", pod("absent")),
        "patch": lambda: space.patch("pods", "absent", {"metadata": {"labels": {"a": "b"}}}),
        "delete": lambda: space.delete("pods", "absent"),
        "status": lambda: space.get("pods", "absent", "status"),
        "scale": lambda: space.get("replicasets", "absent", "scale"),
    }[verb]()
    kind = "replicasets.apps" if verb == "scale" else "pods"
    reply.refused(404, "NotFound", f'{kind} "absent" not found')


def test_a_lease_is_created_by_replace(space: Space) -> None:
    made = space.replace("leases", lease("l")).ok(201)
    assert made["metadata"]["uid"]
    assert space.get("leases", "l").ok()["spec"]["holderIdentity"] == "me"


def test_a_lease_is_created_by_replace_even_with_an_old_version(space: Space) -> None:
    made = space.replace("leases", merged(lease("l"), {"metadata": {"resourceVersion": "1"}})).ok(201)
    assert made["metadata"]["resourceVersion"] != "1"


def test_of_two_racing_holders_one_gets_the_lease(space: Space) -> None:
    seen = space.create("leases", lease("l")).ok(201)
    space.replace("leases", merged(seen, {"spec": {"holderIdentity": "first"}})).ok(200)
    space.replace("leases", merged(seen, {"spec": {"holderIdentity": "second"}})).refused(409, "Conflict")
    assert space.get("leases", "l").ok()["spec"]["holderIdentity"] == "first"


def test_versions_are_shared_by_all_kinds(space: Space) -> None:
    first = space.create("configmaps", config("a")).ok(201)["metadata"]["resourceVersion"]
    second = space.create("pods", pod("p")).ok(201)["metadata"]["resourceVersion"]
    third = space.create("configmaps", config("b")).ok(201)["metadata"]["resourceVersion"]
    assert int(first) < int(second) < int(third)
