"""What only our roles write, through the front door: in process, by webhook on both servers, by policies on one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.admission import Ruled, behind_webhook, in_process, with_default
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space
from contract.grouper_kinds import install
from spinney.api.crds import crd
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import users_in
from spinney.core.admission.settings import settings_of
from spinney.serve.webhook.policies import admission_policies

Json = dict[str, Any]
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
GANGS = "scheduler.grove.io/v1alpha1/podgangs"
CLIQUES = "grove.io/v1alpha1/podcliques"
USERS = users_in()
TENANT, EXEMPT = "tenant", "system:serviceaccount:kai-scheduler:podgroup-controller"
SETTINGS = settings_of(
    load_configuration(f"authorizer: {{exemptServiceAccountUserNames: ['{EXEMPT}']}}"),
    USERS,
)
MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Place:
    """A namespace where everybody has every right, so that what is refused is refused by admission."""

    ruled: Ruled

    @property
    def space(self) -> Space:
        return self.ruled.space

    def send(self, user: str, method: str, kind: str, name: str, body: Json, sub: str = "", **query: str) -> Reply:
        headers = {"Impersonate-User": user, "Impersonate-Group": "system:authenticated"}
        if method == "PATCH":
            headers["Content-Type"] = MERGE
        return self.space.server.http(method, self.space.path(kind, name, sub), body, headers=headers, query=query)

    def create(self, user: str, kind: str, body: Json, **query: str) -> Reply:
        return self.send(user, "POST", kind, "", body, **query)

    def patch(self, user: str, kind: str, name: str, body: Json, sub: str = "", **query: str) -> Reply:
        return self.send(user, "PATCH", kind, name, body, sub, **query)


@contextmanager
def everybody_may_do_everything(cluster: Space, namespace: str) -> Iterator[None]:
    """Everybody who is in no group of administrators."""
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    name = {"metadata": {"name": f"tenants-{namespace}"}}
    rbac = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": rbac, "kind": "ClusterRole", **name, "rules": [everything]}
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"tenants-{namespace}"}
    binding = {"apiVersion": rbac, "kind": "RoleBinding", **name, "subjects": subjects, "roleRef": reference}
    cluster.create("clusterroles", role).ok(201)
    Space(cluster.server, namespace).create("rolebindings", binding).ok(201)
    yield


def narrowed(policies: Sequence[Json], ruled: Ruled) -> Iterator[Json]:
    """The same for what this test makes alone, under names of its own."""
    for one in policies:
        one["metadata"]["name"] = f"{ruled.mark}-{one['metadata']['name']}"
        if one["kind"] == "ValidatingAdmissionPolicy":
            own = f'request.namespace == "{ruled.space.namespace}"'
            one["spec"]["matchConditions"].append({"name": "own", "expression": own})
        else:
            one["spec"]["policyName"] = one["metadata"]["name"]
        yield one


@contextmanager
def behind_policies(ruled: Ruled) -> Iterator[None]:
    for one in narrowed(admission_policies(ruled.settings), ruled):
        plural = (
            "validatingadmissionpolicies" if one["kind"].endswith("Policy") else "validatingadmissionpolicybindings"
        )
        ruled.cluster.create(f"admissionregistration.k8s.io/v1/{plural}", one).ok(201)
    yield


@pytest.fixture(
    params=[
        "in process",
        "webhook",
        pytest.param("real webhook", marks=pytest.mark.real),
        pytest.param("real policies", marks=pytest.mark.real),
    ]
)
def place(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> Iterator[Place]:
    settings = with_default(SETTINGS, unique)
    with ExitStack() as stack:
        if request.param == "in process":
            server = stack.enter_context(in_process(settings, tmp_path))
        else:
            server = request.getfixturevalue("_real" if request.param.startswith("real") else "_embedded")
        install(server)
        cluster = Space(server, "")
        for kind in ("PodGang", "PodClique"):
            cluster.apply("customresourcedefinitions", crd(kind), force="true")
            cluster.established(crd(kind)["metadata"]["name"])
        namespaces = "/api/v1/namespaces"
        server.http("POST", namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique}}).ok(201)
        stack.callback(server.http, "DELETE", f"{namespaces}/{unique}")
        ruled = Ruled(Space(server, unique), cluster, settings, unique)
        stack.callback(cluster.clean)
        stack.enter_context(everybody_may_do_everything(cluster, unique))
        if request.param.endswith("webhook"):
            stack.enter_context(behind_webhook(ruled))
        elif request.param.endswith("policies"):
            stack.enter_context(behind_policies(ruled))
        found = Place(ruled)
        eventually(lambda: is_in_force(found), "the rules are in force")
        yield found


def is_in_force(place: Place) -> bool:
    """The first and the last of them."""
    forged = group("probe", annotations={"spinney.dev/plan": "0"})
    if place.create(TENANT, GROUPS, forged, dryRun="All").status != 403:
        return False
    place.space.create(GROUPS, group("probe"))
    change = {"status": {"phase": "Running"}}
    return place.patch(TENANT, GROUPS, "probe", change, "status", dryRun="All").status == 403


def pod(name: str, **metadata: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "a.b/c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def group(name: str, **metadata: Any) -> Json:
    metadata = {"name": name, **metadata}
    body = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata}
    return {**body, "spec": {"minMember": 1}}


def noted(**annotations: str | None) -> Json:
    return {"metadata": {"annotations": {f"spinney.dev/{key}": value for key, value in annotations.items()}}}


def test_a_forged_record_is_refused_on_create_and_on_a_metadata_only_update(place: Place) -> None:
    forged = {"spinney.dev/plan": "{}", "spinney.dev/epoch": "4000000000"}
    for key, value in forged.items():
        reply = place.create(TENANT, GROUPS, group("g", annotations={key: value}))
        reply.refused(403, "Forbidden", f"metadata.annotations[{key}]", "may not set, change or remove it", TENANT)
    place.create(TENANT, GROUPS, group("g", annotations={"mine": "1"})).ok(201)
    for key in (
        "plan",
        "epoch",
        "fenced",
        "tied-to",
        "scaled-gangs",
        "explanation",
        "members",
        "consolidate",
        "never-heard-of",
    ):
        place.patch(TENANT, GROUPS, "g", noted(**{key: "1"})).refused(403, "Forbidden", f"spinney.dev/{key}")
    place.patch(TENANT, GROUPS, "g", {"metadata": {"labels": {"spinney.dev/plan": "1"}}}).refused(403, "Forbidden")
    assert place.space.get(GROUPS, "g").ok(200)["metadata"]["annotations"] == {"mine": "1"}


def test_inv9_a_dry_run_is_refused_as_well(place: Place) -> None:
    place.create(TENANT, GROUPS, group("g", annotations={"spinney.dev/plan": "{}"}), dryRun="All").refused(403)


def test_our_roles_write_what_is_theirs_and_nothing_else(place: Place) -> None:
    scheduler, operator = USERS["scheduler"], USERS["operator"]
    place.create(scheduler, GROUPS, group("g", annotations={"spinney.dev/mirrored": "a"})).ok(201)
    place.patch(scheduler, GROUPS, "g", noted(plan="{}", epoch="1", fenced="1", explanation="{}", members="w=1")).ok(
        200
    )
    place.patch(operator, GROUPS, "g", noted(**{"tied-to": "base,zone", "scaled-gangs": "[]"})).ok(200)
    place.patch(operator, GROUPS, "g", noted(plan="{1}")).refused(403, "Forbidden", "spinney.dev/plan", operator)
    place.create(operator, "pods", pod("p", annotations={"spinney.dev/node-keys": "a"})).ok(201)
    place.patch(scheduler, "pods", "p", noted(**{"node-keys": "b"})).refused(403, "Forbidden")
    place.patch(scheduler, "pods", "p", noted(rank="0", domain="z/b", released="7")).ok(200)
    place.patch(scheduler, "pods", "p", {"metadata": {"labels": {"spinney.dev/rank": "0"}}}).ok(200)
    place.patch(USERS["dynamo"], "pods", "p", noted(rank="1")).refused(403, "Forbidden", USERS["dynamo"])


def test_what_is_there_may_be_sent_back_and_only_its_change_or_removal_is_refused(place: Place) -> None:
    place.create(USERS["scheduler"], GROUPS, group("g", annotations={"spinney.dev/plan": "{}"})).ok(201)
    found = place.space.get(GROUPS, "g").ok(200)
    found["metadata"]["annotations"]["mine"] = "1"
    found["spec"]["minMember"] = 2
    place.send(TENANT, "PUT", GROUPS, "g", found).ok(200)
    place.patch(TENANT, GROUPS, "g", noted(plan="{1}")).refused(403, "Forbidden")
    place.patch(TENANT, GROUPS, "g", noted(plan=None)).refused(403, "Forbidden", "spinney.dev/plan")
    place.space.patch(GROUPS, "g", noted(plan=None)).ok(200)


def test_an_exempt_user_and_an_administrator_get_through(place: Place) -> None:
    place.create(EXEMPT, GROUPS, group("g", annotations={"spinney.dev/plan": "{}"})).ok(201)
    place.patch(EXEMPT, GROUPS, "g", {"status": {"phase": "Running"}}, "status").ok(200)
    place.space.patch(GROUPS, "g", noted(plan=None)).ok(200)


def test_a_pod_is_marked_by_no_way_around(place: Place) -> None:
    place.create(TENANT, "pods", pod("p", labels={"spinney.dev/rank": "0"})).refused(403, "Forbidden", "labels")
    place.create(TENANT, "pods", pod("p")).ok(201)
    for sub in ("", "status"):
        place.patch(TENANT, "pods", "p", noted(rank="0"), sub).refused(403, "Forbidden", "spinney.dev/rank")
    place.space.patch("pods", "p", {"spec": {"schedulingGates": []}}).ok(200)
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n"}}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **noted(rank="0")["metadata"]},
        **target,
    }
    place.send(TENANT, "POST", "pods", "p", binding, "binding").refused(403, "Forbidden", "spinney.dev/rank")
    place.send(TENANT, "POST", "bindings", "", binding).refused(403, "Forbidden", "spinney.dev/rank")
    place.send(USERS["scheduler"], "POST", "pods", "p", binding, "binding").ok(201)
    place.patch(TENANT, "pods", "p", {"status": {"phase": "Running"}}, "status").ok(200)
    assert place.space.get("pods", "p").ok(200)["metadata"]["annotations"]["spinney.dev/rank"] == "0"


def test_pods_like_those_of_others_are_judged_as_well(place: Place) -> None:
    """The embedded server remembers specs that came before; what the metadata says is looked at each time."""
    for number in range(4):
        place.space.create("pods", pod(f"a-{number}", annotations={"spinney.dev/rank": "0"})).ok(201)
    place.create(TENANT, "pods", pod("b", annotations={"spinney.dev/rank": "0"})).refused(403, "Forbidden")
    place.create(TENANT, "pods", pod("b")).ok(201)


def test_a_status_is_refused_from_anybody_but_its_role(place: Place) -> None:
    place.create(TENANT, GROUPS, group("g")).ok(201)
    change = {"status": {"phase": "Running"}}
    place.patch(TENANT, GROUPS, "g", change, "status").refused(403, "Forbidden", "status: is written by", TENANT)
    place.patch(USERS["operator"], GROUPS, "g", change, "status").refused(403, "Forbidden")
    place.patch(USERS["scheduler"], GROUPS, "g", change, "status").ok(200)


def test_gangs_and_cliques_are_tied_by_the_operator_alone(place: Place) -> None:
    gang = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "x"}}
    parts = [{"name": "w", "minReplicas": 1, "podReferences": []}]
    tied = {
        **gang,
        "metadata": {"name": "x", "annotations": {"spinney.dev/tied-to": "y,z"}},
        "spec": {"podgroups": parts},
    }
    place.create(TENANT, GANGS, tied).refused(403, "Forbidden", "spinney.dev/tied-to")
    place.create(USERS["operator"], GANGS, tied).ok(201)
    spec = {"replicas": 1, "minAvailable": 1, "podSpec": {"containers": [{"name": "c", "image": "i"}]}}
    clique = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": {"name": "x"}, "spec": spec}
    place.create(TENANT, CLIQUES, clique).ok(201)
    place.patch(TENANT, CLIQUES, "x", noted(mirrored="a")).refused(403, "Forbidden", "spinney.dev/mirrored")


def test_kubectl_shows_a_tenant_which_key_it_is(place: Place) -> None:
    place.create(USERS["scheduler"], GROUPS, group("g", annotations={"spinney.dev/plan": "{}"})).ok(201)
    annotate = ("annotate", "podgroups.scheduling.run.ai", "g", "--overwrite", "--as", TENANT)
    groups = ("--as-group", "system:authenticated")
    done = place.ruled.kubectl(*annotate, *groups, "spinney.dev/plan=x", check=False)
    assert done.returncode == 1
    assert "metadata.annotations[spinney.dev/plan]" in done.stderr
    place.ruled.kubectl(*annotate, *groups, "mine=1")
    place.ruled.kubectl("annotate", "podgroups.scheduling.run.ai", "g", "spinney.dev/plan-")
