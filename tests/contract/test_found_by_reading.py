"""Corners that nobody runs into by chance: each was found by reading the servers side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster_kit.objects import (
    CONTAINER,
    Json,
    binding,
    budget,
    config,
    crd,
    deployment,
    eviction,
    merged,
    pod,
    role,
    role_binding,
)
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space
from cluster_kit.webhook import Webhooks, deny, rule
from contract.test_drill_gaps import meanwhile
from contract.test_eviction import allowed, evict

NOBODY = "11111111-2222-3333-4444-555555555555"
"""A uid that no object has."""


def conditions(space: Space, name: str) -> set[str]:
    status = space.get("pods", name).ok()["status"]
    return {each["type"] for each in status.get("conditions", [])}


def test_an_eviction_that_fails_its_precondition_marks_nobody(space: Space, running: Callable[..., None]) -> None:
    running("p")
    evict(space, preconditions={"uid": NOBODY}).refused(409, "Conflict")
    assert "DisruptionTarget" not in conditions(space, "p")


def test_an_eviction_of_the_version_that_is_there_is_accepted(space: Space, running: Callable[..., None]) -> None:
    running("p")
    version = space.get("pods", "p").ok()["metadata"]["resourceVersion"]
    evict(space, preconditions={"resourceVersion": version}).ok(201)
    assert "deletionTimestamp" in space.get("pods", "p").ok()["metadata"]


def test_an_evicted_pod_that_was_pending_is_marked_too(space: Space) -> None:
    space.create("pods", pod("p", finalizers=["example.com/hold"])).ok(201)
    evict(space).ok(201)
    marks = conditions(space, "p")
    space.patch("pods", "p", {"metadata": {"finalizers": None}}).ok(200)
    assert "DisruptionTarget" in marks


def test_an_eviction_that_fails_its_precondition_costs_the_budget(space: Space, running: Callable[..., None]) -> None:
    running("p", "q")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 1)
    evict(space, preconditions={"uid": NOBODY}).refused(409, "Conflict")
    status = space.get("poddisruptionbudgets", "b").ok()["status"]
    assert status["disruptionsAllowed"] == 0
    assert "p" in status["disruptedPods"]


def test_a_watch_that_wants_no_initial_events_gets_none(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    wish: dict[str, Any] = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": 1}
    with space.watch("configmaps", **wish) as watch:
        assert watch.rest() == []


def test_a_watch_of_a_kind_nobody_has_used_starts_at_any_version(space: Space) -> None:
    version = space.list("configmaps")["metadata"]["resourceVersion"]
    space.create("configmaps", config("a")).ok(201)
    with space.watch("horizontalpodautoscalers", resourceVersion=version, timeoutSeconds=1) as watch:
        assert watch.rest() == []


HELD = {"held": "yes"}


def hold(webhooks: Webhooks) -> str:
    """Refuse deletions of configmaps that are labelled so; the name of the configuration."""
    return webhooks.validating(
        {
            "path": "hold",
            "judge": deny("not yet"),
            "rules": [rule("configmaps", operations=("DELETE",))],
            "objectSelector": {"matchLabels": HELD},
        }
    )


def await_denial(webhooks: Webhooks) -> None:
    eventually(lambda: webhooks.server.requests("hold"), "a deletion was denied")


def family(space: Space, *children: Json) -> None:
    """A parent, and children that it owns."""
    uid = space.create("configmaps", config("parent")).ok(201)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": uid}
    for child in children:
        space.create("configmaps", merged(child, {"metadata": {"ownerReferences": [owner]}})).ok(201)


def test_a_dependent_that_may_not_go_does_not_hold_the_others(space: Space, webhooks: Webhooks) -> None:
    hold(webhooks)
    family(space, config("a", labels=HELD), config("b"))
    space.delete("configmaps", "parent").ok(200)
    space.gone("configmaps", "b")
    await_denial(webhooks)
    assert space.exists("configmaps", "a")


def test_a_dependent_goes_as_soon_as_it_may(space: Space, cluster: Space, webhooks: Webhooks) -> None:
    name = hold(webhooks)
    family(space, config("a", labels=HELD))
    space.delete("configmaps", "parent").ok(200)
    await_denial(webhooks)
    cluster.delete("validatingwebhookconfigurations", name).ok(200)
    eventually(lambda: not space.exists("configmaps", "a"), "the dependent is gone", 30)


def test_a_namespace_goes_as_soon_as_its_content_may(space: Space, cluster: Space, webhooks: Webhooks) -> None:
    name = hold(webhooks)
    space.create("configmaps", config("a", labels=HELD)).ok(201)
    cluster.delete("namespaces", space.namespace).ok(200)
    await_denial(webhooks)
    cluster.delete("validatingwebhookconfigurations", name).ok(200)
    eventually(lambda: cluster.get("namespaces", space.namespace).status == 404, "the namespace is gone", 40)


def test_an_apply_that_lost_the_race_to_create_is_merged(space: Space, webhooks: Webhooks) -> None:
    theirs, ours = config("a", {"theirs": "x"}), config("a", {"ours": "x"})
    act = meanwhile("CREATE", lambda: space.apply("configmaps", theirs, manager="them").ok(201))
    webhooks.mutating({"judge": act})
    space.apply("configmaps", ours, manager="us").ok(200, 201)
    assert space.get("configmaps", "a").ok()["data"] == {"theirs": "x", "ours": "x"}


DRY: dict[str, Callable[[Space], Reply]] = {
    "status": lambda at: at.patch("deployments", "d", {"status": {"replicas": 5}}, sub="status", dryRun="Some"),
    "scale": lambda at: at.patch("deployments", "d", {"spec": {"replicas": 5}}, sub="scale", dryRun="Some"),
    "binding": lambda at: at.create("pods", binding("p", "n"), name="p", sub="binding", dryRun="Some"),
    "eviction": lambda at: at.create("pods", eviction("p"), name="p", sub="eviction", dryRun="Some"),
    "deletion": lambda at: at.delete("configmaps", "c", dryRun="Some"),
}


@pytest.mark.parametrize("row", DRY)
def test_a_dry_run_that_is_not_all_is_refused(row: str, space: Space) -> None:
    for plural, body in (("deployments", deployment("d")), ("pods", pod("p")), ("configmaps", config("c"))):
        space.create(plural, body).ok(201)
    DRY[row](space).refused(422, "Invalid", "dryRun: Unsupported value: ", 'supported values: "All"')
    assert space.exists("configmaps", "c")
    assert "nodeName" not in space.get("pods", "p").ok()["spec"]


def test_who_may_list_one_name_may_list_with_that_name_selected(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    one = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"], "resourceNames": ["a"]}
    space.create("roles", role("one", one)).ok(201)
    space.create("rolebindings", role_binding("one", "one", "alice")).ok(201)
    alice = space.as_user("alice")
    eventually(lambda: alice.get("configmaps", fieldSelector="metadata.name=a").status == 200, "alice may list it")
    alice.get("configmaps", fieldSelector="metadata.name=b").refused(403, "Forbidden")
    alice.get("configmaps").refused(403, "Forbidden")


def test_names_that_become_free_are_given_to_the_definition_that_waits(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    waiting = merged(crd(group), {"metadata": {"name": f"gadgets.{group}"}})
    waiting["spec"]["names"] = {"plural": "gadgets", "kind": "Widget", "listKind": "WidgetList"}
    cluster.create("customresourcedefinitions", waiting).ok(201)
    eventually(lambda: names_accepted(cluster, f"gadgets.{group}") == "False", "the kind is taken")
    cluster.delete("customresourcedefinitions", f"widgets.{group}").ok(200)
    cluster.established(f"gadgets.{group}")


def names_accepted(cluster: Space, name: str) -> Any:
    status = cluster.get("customresourcedefinitions", name).ok()["status"]
    return next((each["status"] for each in status.get("conditions") or [] if each["type"] == "NamesAccepted"), None)


def test_a_binding_in_its_own_collection_is_no_creation_of_a_pod(space: Space, webhooks: Webhooks) -> None:
    space.create("pods", pod("p")).ok(201)
    webhooks.validating({"judge": deny("no pods"), "rules": [rule("pods")]})
    space.create("bindings", binding("p", "n")).ok(201)
    assert space.get("pods", "p").ok()["spec"]["nodeName"] == "n"


def container(**fields: Any) -> Json:
    return {"containers": [{**CONTAINER, **fields}]}


def test_what_is_odd_in_a_pod_is_warned_of(space: Space) -> None:
    reply = space.create("pods", pod("p", {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}))
    expected = 'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'
    assert (reply.status, reply.warnings) == (201, [expected])
