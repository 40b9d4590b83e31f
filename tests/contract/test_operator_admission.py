"""The operator's admission through the front door: in process on the embedded server, by webhook on both servers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from cluster_kit.admission import (
    CLIQUES,
    SETS,
    TOPOLOGIES,
    Ruled,
    behind_webhook,
    in_process,
    install,
    topology,
    with_default,
    workload,
)
from cluster_kit.server import Reply, Server, eventually
from cluster_kit.space import Space
from spinney.cli.main import cli
from spinney.core.admission.settings import AdmissionSettings

Json = dict[str, Any]
LABEL = "grove.io/topology-name"
KEYS = {"zone": "example.com/zone", "block": "example.com/block", "rack": "example.com/rack"}
ON = AdmissionSettings()
Rule = Callable[..., Ruled]


@contextmanager
def namespaced(server: Server, name: str) -> Iterator[tuple[Space, Space]]:
    path = "/api/v1/namespaces"
    server.http("POST", path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).ok(201)
    cluster = Space(server, "")
    yield Space(server, name), cluster
    cluster.clean()
    server.http("DELETE", f"{path}/{name}")


@pytest.fixture(params=["in process", "webhook", pytest.param("real", marks=pytest.mark.real)])
def rule(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> Iterator[Rule]:
    """Put rules with given settings in force; once in a test."""
    with ExitStack() as stack:

        def begin(settings: AdmissionSettings = ON) -> Ruled:
            own = with_default(settings, unique)
            if request.param == "in process":
                server = stack.enter_context(in_process(own, tmp_path))
            else:
                server = request.getfixturevalue("_real" if request.param == "real" else "_embedded")
            install(server)
            space, cluster = stack.enter_context(namespaced(server, unique))
            ruled = Ruled(space, cluster, own, unique)
            if request.param != "in process":
                stack.enter_context(behind_webhook(ruled))
            return ruled

        yield begin


def levels(*domains: str) -> list[Json]:
    return [{"domain": domain, "key": KEYS[domain]} for domain in domains]


def clique(name: str = "w", **more: Any) -> Json:
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "c", "image": "i"}]}}, **more}


def packed(domain: str, *cliques: Json, **template: Any) -> Json:
    return {"topologyConstraint": {"packDomain": domain}, "cliques": list(cliques or (clique(),)), **template}


def given(ruled: Ruled, name: str, *domains: str) -> str:
    return ruled.cluster.create(TOPOLOGIES, topology(ruled, name, *levels(*domains))).ok(201)["metadata"]["name"]


def schedule(ruled: Ruled, of: str, count: int = 1) -> None:
    """A PodClique of the set that counts so many scheduled pods, as the operator would write it."""
    body = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": f"{of}-0-w", "labels": {"app.kubernetes.io/part-of": of}},
        "spec": {"podSpec": {"containers": []}, "replicas": 1, "minAvailable": 1},
    }
    if not ruled.space.exists(CLIQUES, f"{of}-0-w"):
        ruled.space.create(CLIQUES, body).ok(201)
    ruled.space.patch(CLIQUES, f"{of}-0-w", {"status": {"scheduledReplicas": count}}, sub="status").ok(200)


def test_g1_kubectl_is_told_of_a_pod_that_nobody_could_make(rule: Rule) -> None:
    ruled = rule()
    pod = {"containers": [{"name": "c", "image": "i", "env": {"A": "b"}, "command": "serve"}]}
    manifest = yaml.safe_dump(workload("p", {"cliques": [{"name": "w", "spec": {"podSpec": pod}}]}))
    done = ruled.kubectl("apply", "-f", "-", input=manifest, check=False)
    assert done.returncode == 1
    assert 'containers[0].env in body must be of type array: "object"' in done.stderr
    assert 'containers[0].command in body must be of type array: "string"' in done.stderr
    assert not ruled.space.exists(SETS, "p")


def test_p2_kubectl_is_told_which_domain_the_topology_does_not_have(rule: Rule) -> None:
    ruled = rule()
    given(ruled, "default", "zone", "block")
    manifest = yaml.safe_dump(workload("p", packed("rack")))
    done = ruled.kubectl("apply", "-f", "-", input=manifest, check=False)
    assert done.returncode == 1
    assert (
        "topologyConstraint.packDomain: Invalid value: \"rack\": topology domain 'rack' does not exist" in done.stderr
    )
    assert not ruled.space.exists(SETS, "p")


def test_every_error_is_told_at_once_with_its_field(rule: Rule) -> None:
    ruled = rule()
    given(ruled, "default", "zone", "rack")
    narrow = packed("rack", clique("w", topologyConstraint={"packDomain": "zone"}), clique("v"))
    narrow["cliques"][1]["spec"] |= {"replicas": 1, "minAvailable": 2}
    narrow["cliques"][1]["spec"]["podSpec"]["nodeName"] = "n"
    refused = ruled.space.create(SETS, workload("p", narrow)).refused(422, "Invalid", "is narrower than PodClique 'w'")
    assert [field for _, field in refused.causes] == [
        "spec.template.cliques[1].spec.minAvailable",
        "spec.template.cliques[1].spec.podSpec.nodeName",
        "spec.template.topologyConstraint",
    ]


def test_t4_levels_are_stored_in_order(rule: Rule) -> None:
    ruled = rule()
    made = ruled.cluster.create(TOPOLOGIES, topology(ruled, "x", *levels("rack", "zone"))).ok(201)
    assert made["spec"]["levels"] == levels("zone", "rack")
    name = made["metadata"]["name"]
    ruled.cluster.patch(TOPOLOGIES, name, {"spec": {"levels": levels("rack", "block", "zone")}}).ok(200)
    assert ruled.cluster.get(TOPOLOGIES, name).ok()["spec"]["levels"] == levels("zone", "block", "rack")


def test_c9_the_reserved_name_is_warned_of(rule: Rule) -> None:
    ruled = rule()
    reply = ruled.cluster.create(TOPOLOGIES, topology(ruled, "default", *levels("zone")))
    reply.ok(201)
    assert any("is reserved for the default ClusterTopology" in text for text in reply.warnings)


def test_p8_the_label_survives_kubectl_replace_of_a_manifest_without_it(rule: Rule) -> None:
    ruled = rule()
    name = given(ruled, "default", "zone", "rack")
    manifest = yaml.safe_dump(workload("p", packed("rack")))
    ruled.kubectl("create", "-f", "-", input=manifest)
    ruled.kubectl("replace", "-f", "-", input=manifest)
    assert ruled.space.get(SETS, "p").ok()["metadata"]["labels"] == {LABEL: name}
    ruled.kubectl("label", "pcs", "p", f"{LABEL}-")
    ruled.kubectl("label", "--overwrite", "pcs", "p", f"{LABEL}=mine")
    assert ruled.space.get(SETS, "p").ok()["metadata"]["labels"] == {LABEL: name}


def test_what_is_missing_is_filled_in(rule: Rule) -> None:
    ruled = rule()
    spec = ruled.space.create(SETS, workload("p", {"cliques": [clique()]})).ok(201)["spec"]
    assert spec["updateStrategy"] == {"type": "RollingRecreate"}
    assert spec["template"]["terminationDelay"] == "4h0m0s"
    assert (
        spec["template"]["cliques"][0]["spec"]["replicas"],
        spec["template"]["cliques"][0]["spec"]["minAvailable"],
    ) == (
        1,
        1,
    )


def test_p5_the_reference_moves_while_pending_and_not_after(rule: Rule) -> None:
    ruled = rule()
    first, second = given(ruled, "h100", "zone", "rack"), given(ruled, "gb200", "zone", "block", "rack")
    ruled.space.create(SETS, workload("p", packed("rack", clusterTopologyName=first))).ok(201)
    schedule(ruled, "p", 0)
    change = {"spec": {"template": {"clusterTopologyName": second}}}
    moved = ruled.space.patch(SETS, "p", change).ok(200)
    assert moved["metadata"]["labels"][LABEL] == second
    schedule(ruled, "p")
    back = {"spec": {"template": {"clusterTopologyName": first}}}
    ruled.space.patch(SETS, "p", back).refused(
        422, "Invalid", f'clusterTopologyName cannot be changed from "{second}" to "{first}" once pods are scheduled'
    )


def test_p4_constraints_cannot_be_removed(rule: Rule) -> None:
    ruled = rule()
    given(ruled, "default", "zone", "rack")
    ruled.space.create(SETS, workload("p", packed("rack"))).ok(201)
    ruled.space.patch(SETS, "p", {"spec": {"template": {"topologyConstraint": None}}}).refused(
        422, "Invalid", "topology constraint cannot be removed after creation"
    )


def test_p6_constraints_are_refused_with_topology_off(rule: Rule) -> None:
    ruled = rule(AdmissionSettings(topology_enabled=False))
    ruled.space.create(SETS, workload("p", packed("rack"))).refused(
        422, "Invalid", "topology support is not enabled in the operator"
    )
    ruled.space.create(SETS, workload("p", {"cliques": [clique()]})).ok(201)


@pytest.mark.parametrize("field", ["replicaSpreadConstraints", "schedulingPolicyConfig"])
def test_p9_removed_fields_are_refused_without_any_client_side_validation(field: str, rule: Rule) -> None:
    ruled = rule()
    body = workload("p", {"cliques": [clique()]})
    if field == "replicaSpreadConstraints":
        body["spec"][field] = []
    else:
        body["spec"]["template"][field] = {}
    done = ruled.kubectl("apply", "--validate=false", "-f", "-", input=yaml.safe_dump(body), check=False)
    assert done.returncode == 1
    assert f"{field} has been removed" in done.stderr


def test_l4_levels_change_only_while_no_user_is_scheduled(rule: Rule) -> None:
    ruled = rule()
    name = given(ruled, "h100", "zone", "rack")
    ruled.space.create(SETS, workload("p", packed("rack", clusterTopologyName=name))).ok(201)
    schedule(ruled, "p")
    change = {"spec": {"levels": levels("zone", "block", "rack")}}
    ruled.cluster.patch(TOPOLOGIES, name, change).refused(
        422, "Invalid", f'reference ClusterTopology "{name}": {ruled.space.namespace}/p'
    )
    ruled.cluster.patch(TOPOLOGIES, name, {"metadata": {"annotations": {"a": "b"}}}).ok(200)
    schedule(ruled, "p", 0)
    ruled.cluster.patch(TOPOLOGIES, name, change).ok(200)


def test_l4_the_operator_itself_may_write_its_default(rule: Rule) -> None:
    ruled = rule(AdmissionSettings(operator_users=frozenset({"admin", "system:admin"})))
    name = given(ruled, "default", "zone", "rack")
    ruled.space.create(SETS, workload("p", packed("rack"))).ok(201)
    schedule(ruled, "p")
    ruled.cluster.patch(TOPOLOGIES, name, {"spec": {"levels": levels("zone", "block", "rack")}}).ok(200)


def test_g10_a_scheduler_that_cannot_honour_a_constraint_is_refused(rule: Rule) -> None:
    ruled = rule()
    given(ruled, "default", "zone", "rack")
    bound = clique()
    bound["spec"]["podSpec"]["schedulerName"] = "default-scheduler"
    ruled.space.create(SETS, workload("p", packed("rack", bound))).refused(
        422, "Invalid", "default-scheduler scheduler backend does not support topologyConstraint on PodCliqueSet"
    )
    ruled.space.create(SETS, workload("p", {"cliques": [bound]})).ok(201)


def test_inv9_a_dry_run_is_judged_the_same_and_leaves_nothing(rule: Rule) -> None:
    ruled = rule()
    given(ruled, "default", "zone", "rack")
    good, bad = workload("p", packed("rack")), workload("p", packed("block"))
    tried = ruled.space.create(SETS, good, dryRun="All").ok(201)
    assert not ruled.space.exists(SETS, "p")
    made = ruled.space.create(SETS, good).ok(201)
    assert (tried["spec"], tried["metadata"]["labels"]) == (made["spec"], made["metadata"]["labels"])
    ruled.space.create(SETS, bad, dryRun="All").refused(422, "Invalid", "does not exist in cluster topology")


def test_inv8_a_topology_that_is_being_deleted_gets_rid_of_its_finalizer(rule: Rule) -> None:
    ruled = rule()
    name = given(ruled, "x", "zone", "rack")
    ruled.cluster.patch(TOPOLOGIES, name, {"metadata": {"finalizers": ["grove.io/clustertopology"]}}).ok(200)
    ruled.space.create(SETS, workload("p", packed("rack", clusterTopologyName=name))).ok(201)
    schedule(ruled, "p")
    ruled.cluster.delete(TOPOLOGIES, name).ok(200)
    ruled.cluster.patch(TOPOLOGIES, name, {"metadata": {"finalizers": None}}).ok(200)
    eventually(lambda: not ruled.cluster.exists(TOPOLOGIES, name), "the topology is gone")


def managed(ruled: Ruled) -> None:
    """A PodClique as the operator makes it, for a set that is there."""
    ruled.space.create(SETS, workload("p", {"cliques": [clique()]})).ok(201)
    schedule(ruled, "p", 0)
    label = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "grove-operator"}}}
    ruled.space.patch(CLIQUES, "p-0-w", label).ok(200)


def test_r10_what_the_operator_made_is_protected_while_its_set_wants_it(rule: Rule) -> None:
    ruled = rule(AdmissionSettings(protects_managed=True))
    managed(ruled)
    change = {"spec": {"replicas": 5}}
    ruled.space.patch(CLIQUES, "p-0-w", change).refused(403, "Forbidden", f'PodCliqueSet "{ruled.space.namespace}/p"')
    ruled.space.delete(CLIQUES, "p-0-w").refused(403, "Forbidden", "may not be deleted")
    ruled.space.patch(CLIQUES, "p-0-w", change, sub="scale").ok(200)
    released = {"metadata": {"annotations": {"grove.io/disable-managed-resource-protection": "true"}}}
    ruled.space.patch(SETS, "p", released).ok(200)
    ruled.space.delete(CLIQUES, "p-0-w").ok(200)


SCHEDULER = "system:serviceaccount:spinney-system:scheduler"


def patch_as(ruled: Ruled, user: str, kind: str, name: str, body: Json) -> Reply:
    """A merge patch of somebody who has every right: what is refused is refused by admission."""
    headers = {
        "Impersonate-User": user,
        "Impersonate-Group": "system:masters",
        "Content-Type": "application/merge-patch+json",
    }
    return ruled.server.http("PATCH", ruled.space.path(kind, name), body, headers=headers)


def test_r10_the_scheduler_marks_managed_pods_and_changes_nothing_else_of_them(rule: Rule) -> None:
    ruled = rule(AdmissionSettings(protects_managed=True, scheduler_users=frozenset({SCHEDULER})))
    managed(ruled)
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "p"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p-0-w-0", "labels": labels}}
    ruled.space.create("pods", {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}}).ok(201)
    marked = {
        "annotations": {"spinney.dev/released": "7", "pod-group-name": "p-0"},
        "labels": {"spinney.dev/rank": "1", "kai.scheduler/subgroup-name": "w"},
    }
    patch_as(ruled, SCHEDULER, "pods", "p-0-w-0", {"metadata": marked}).ok(200)
    patch_as(ruled, "somebody", "pods", "p-0-w-0", {"metadata": {"annotations": {"pod-group-name": "q"}}}).refused(
        403, "Forbidden", 'may not be changed by "somebody"'
    )
    for change in ({"labels": {"app": "mine"}}, {"labels": {"app.kubernetes.io/part-of": None}}):
        patch_as(ruled, SCHEDULER, "pods", "p-0-w-0", {"metadata": change}).refused(403, "Forbidden", SCHEDULER)
    image = {"spec": {"containers": [{"name": "c", "image": "j"}]}}
    patch_as(ruled, SCHEDULER, "pods", "p-0-w-0", image).refused(403, "Forbidden", SCHEDULER)


def test_inv8_the_garbage_collector_gets_through_the_protection(rule: Rule) -> None:
    ruled = rule(AdmissionSettings(protects_managed=True))
    managed(ruled)
    owner = ruled.space.get(SETS, "p").ok()["metadata"]
    reference = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "p", "uid": owner["uid"]}
    body = {
        "metadata": {
            "name": "child",
            "labels": {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "p"},
            "ownerReferences": [reference],
        },
        "apiVersion": "v1",
        "kind": "ServiceAccount",
    }
    ruled.space.create("serviceaccounts", body).ok(201)
    ruled.space.delete("serviceaccounts", "child").refused(403, "Forbidden", "may not be deleted")
    ruled.space.delete(SETS, "p").ok(200)
    # A collector looks for new kinds twice a minute.
    eventually(lambda: not ruled.space.exists("serviceaccounts", "child"), "the child is collected", 90.0)


def validate(ruled: Ruled, *documents: Json) -> Result:
    text = yaml.safe_dump_all(documents)
    return CliRunner().invoke(cli, ["validate", "-f", "-", "--kubeconfig", str(ruled.server.kubeconfig)], input=text)


def test_validate_looks_at_the_cluster_and_changes_nothing(rule: Rule) -> None:
    ruled = rule()
    first, second = given(ruled, "h100", "zone", "rack"), given(ruled, "gb200", "zone", "block")
    there = workload("p", packed("rack", clusterTopologyName=first))
    there["metadata"]["namespace"] = ruled.space.namespace
    assert validate(ruled, there).exit_code == 0
    assert not ruled.space.exists(SETS, "p")
    ruled.space.create(SETS, there).ok(201)
    schedule(ruled, "p")
    there["spec"]["template"]["clusterTopologyName"] = second
    done = validate(ruled, there)
    assert done.exit_code == 1
    assert "topology domain 'rack' does not exist in cluster topology [zone block]" in done.output
    assert "once pods are scheduled" in done.output


def test_the_example_of_the_design_is_admitted(rule: Rule) -> None:
    """The disaggregated workload of three levels, as users write it."""
    ruled = rule()
    given(ruled, "default", "zone", "block", "rack")
    roles = {"router": "block", "p-leader": "rack", "p-worker": "rack", "d-leader": "rack", "d-worker": "rack"}
    cliques = []
    for name, domain in roles.items():
        one = copy.deepcopy(clique(name, topologyConstraint={"packDomain": domain}))
        one["spec"] |= {"roleName": f"role-{name}", "replicas": 2}
        cliques.append(one)
    groups = [
        {"name": "prefill", "cliqueNames": ["p-worker", "p-leader"], "replicas": 2, "minAvailable": 1},
        {"name": "decode", "cliqueNames": ["d-worker", "d-leader"], "replicas": 2, "minAvailable": 1},
    ]
    groups[0]["topologyConstraint"], groups[1]["topologyConstraint"] = {"packDomain": "block"}, {"packDomain": "rack"}
    body = packed("zone", *cliques, podCliqueScalingGroups=groups)
    ruled.space.create(SETS, workload("disaggregated", body)).ok(201)
