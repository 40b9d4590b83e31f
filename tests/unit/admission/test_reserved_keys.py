"""What only roles of ours write: keys under our prefix and the status of our kinds, from anybody else refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kube_apimachinery.admission import AdmissionRequest, Verdict
from spinney.api.operator_configuration import load_configuration
from spinney.api.reserved_keys import RESERVED, SCHEDULER_POD_KEYS, ReservedKeys, is_reserved, status_writers
from spinney.api.roles import users_in
from spinney.core.admission.authorizer import CLUSTER_USERS
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of
from unit.admission.admission_kit import Json, clique, errors, judge, pcs, request, view

USERS = users_in()
SETTINGS = settings_of(
    load_configuration("authorizer: {exemptServiceAccountUserNames: ['system:serviceaccount:kai-scheduler:binder']}"),
    USERS,
)
RULES = OperatorAdmission(SETTINGS)
GROUPS = ("scheduling.run.ai", "podgroups")
PLAN, RANK = "spinney.dev/plan", "spinney.dev/rank"
ROWS = {f"{row.resource} {key}": (row, key) for row in RESERVED for key in (*row.writers, "spinney.dev/later")}


def thing(*, labels: Json | None = None, annotations: Json | None = None, **metadata: Any) -> Json:
    marks = {"labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": {"name": "x", "namespace": "ns", **marks, **metadata}, "spec": {"minMember": 1}}


def asked(new: Json | None, old: Json | None = None, kind: tuple[str, str] = GROUPS, **how: Any) -> AdmissionRequest:
    group, resource = kind
    given = {"user": "alice", "group": group, "resource": resource, **how}
    return msgspec.structs.replace(request(new, old), **given)


def verdict(*args: Any, **how: Any) -> Verdict:
    question = asked(*args, **how)
    return RULES.validate(question, view()) if RULES.handles(question) else Verdict()


def of(row: ReservedKeys) -> tuple[str, str]:
    return row.group, row.resource


@pytest.mark.parametrize("mark", ["annotations", "labels"])
@pytest.mark.parametrize("row", ROWS)
def test_a_reserved_key_is_written_by_its_roles_and_nobody_else(row: str, mark: str) -> None:
    kept, key = ROWS[row]
    bare, marked, other = thing(), thing(**{mark: {key: "1"}}), thing(**{mark: {key: "2"}})
    for user in ("alice", *CLUSTER_USERS, *USERS.values()):
        wanted = user in {USERS[role] for role in kept.roles(key)}
        for new, old in ((marked, None), (marked, bare), (other, marked), (bare, marked)):
            found = verdict(new, old, of(kept), user=user)
            assert found.allowed == wanted, (user, new, old, found)


@pytest.mark.parametrize("row", RESERVED, ids=lambda row: row.resource)
def test_whoever_sends_back_what_is_there_gets_through(row: ReservedKeys) -> None:
    keys = dict.fromkeys(row.writers, "1")
    old = thing(annotations=keys, labels=keys, finalizers=["a.b/c"])
    new = copy.deepcopy(old)
    del new["metadata"]["finalizers"]
    new["metadata"]["annotations"]["mine"] = "2"
    assert verdict(new, old, of(row)).allowed


def test_inv8_finalizers_and_owners_may_go_whatever_an_object_carries() -> None:
    old = thing(annotations={PLAN: "1"}, finalizers=["a.b/c"], deletionTimestamp="t", ownerReferences=[{"uid": "u"}])
    new = copy.deepcopy(old)
    del new["metadata"]["finalizers"], new["metadata"]["ownerReferences"]
    for user in CLUSTER_USERS:
        assert verdict(new, old, user=user).allowed
        assert verdict(None, old, user=user, operation="DELETE").allowed


def test_a_metadata_only_update_of_a_podgroup_is_judged() -> None:
    found = verdict(thing(annotations={PLAN: "forged", "spinney.dev/epoch": "4000000000"}), thing())
    assert not found.allowed
    assert found.message == (
        'metadata.annotations[spinney.dev/epoch]: is written by Spinney\'s scheduler only; "alice" may not set, change '
        'or remove it; metadata.annotations[spinney.dev/plan]: is written by Spinney\'s scheduler only; "alice" may '
        "not set, change or remove it"
    )


def test_a_refusal_is_short_however_many_keys_there_are() -> None:
    found = verdict(thing(annotations={f"spinney.dev/k{number}": "1" for number in range(1000)}))
    assert found.message.endswith("; and 992 more")
    assert len(found.message) < 2000


def test_administrators_and_the_exempt_get_through() -> None:
    new = thing(annotations={PLAN: "1"})
    assert verdict(new, groups=("system:masters",)).allowed
    assert verdict(new, user="system:serviceaccount:kai-scheduler:binder").allowed
    assert not verdict(new, groups=("system:authenticated",)).allowed


@pytest.mark.parametrize(
    "key", ["spinney.dev/sim-start-delay", "spinney.dev/configuration", "example.com/plan", "plan"]
)
def test_what_users_set_is_free(key: str) -> None:
    assert not is_reserved(key)
    assert verdict(thing(annotations={key: "1"}, labels={key: "1"})).allowed


@pytest.mark.parametrize("path", ["pods", "pods/status", "pods/binding", "bindings"])
def test_a_pod_is_marked_by_no_way_around(path: str) -> None:
    marked = thing(annotations={RANK: "0"})
    resource, _, sub = path.partition("/")
    is_binding = path.endswith(("binding", "bindings"))
    how = {"subresource": sub, "operation": "CREATE" if is_binding else "UPDATE"}
    old = None if is_binding else thing()
    found = verdict(marked, old, ("", resource), **how)
    assert not found.allowed
    assert RANK in found.message
    assert verdict(marked, old, ("", resource), user=USERS["scheduler"], **how).allowed


def test_other_subresources_carry_no_keys() -> None:
    for sub in ("scale", "eviction", "log"):
        assert verdict(thing(annotations={RANK: "0"}), None, ("", "pods"), subresource=sub).allowed


@pytest.mark.parametrize("kind", sorted(status_writers()), ids=lambda kind: kind[1])
def test_a_status_is_written_by_its_role_and_nobody_else(kind: tuple[str, str]) -> None:
    new, old = {**thing(), "status": {"phase": "Running"}}, thing()
    for user in ("alice", *USERS.values()):
        wanted = user in {USERS[role] for role in status_writers()[kind]}
        found = verdict(new, old, kind, user=user, subresource="status")
        assert found.allowed == wanted, user
        assert wanted or found.message.endswith(f'only; "{user}" may not write it')


def test_status_is_judged_where_others_decide_by_it() -> None:
    assert {plural for _, plural in status_writers()} == {
        "clustertopologies",
        "clustertopologybindings",
        "podcliques",
        "podcliquescalinggroups",
        "podcliquesets",
        "podgangs",
        "podgroups",
        "queues",
    }


def test_inv9_a_dry_run_has_the_same_verdict() -> None:
    new = thing(annotations={PLAN: "1"})
    assert verdict(new, dry_run=True) == verdict(new)


def test_nothing_is_changed_on_entry() -> None:
    assert RULES.mutate(asked(thing(annotations={RANK: "0"}), None, ("", "pods")), view()) == Verdict()


@pytest.mark.parametrize("broken", [None, [], "x", {"annotations": []}, {"annotations": {RANK: {"a": 1}}}])
def test_what_cannot_be_read_is_left_for_the_schema(broken: Any) -> None:
    for old in (None, thing()):
        question = asked({"metadata": broken}, old, ("", "pods"))
        if RULES.handles(question):
            RULES.validate(question, view())


def test_the_marks_of_the_scheduler_on_pods_are_its_own() -> None:
    pods = next(row for row in RESERVED if row.resource == "pods")
    assert {key for key in SCHEDULER_POD_KEYS if is_reserved(key)} == {
        key for key, roles in pods.writers.items() if roles == ("scheduler",)
    }


def test_a_set_cannot_carry_reserved_keys_into_its_pods() -> None:
    template = {**clique(), "annotations": {RANK: "0", "spinney.dev/sim-fail": "crash"}, "labels": {RANK: "0"}}
    assert errors(pcs(template)) == [
        f"spec.template.cliques[0].annotations[{RANK}]: Forbidden: is written by roles of Spinney only: leave it out",
        f"spec.template.cliques[0].labels[{RANK}]: Forbidden: is written by roles of Spinney only: leave it out",
    ]


def test_a_set_that_has_reserved_keys_from_before_can_be_changed() -> None:
    template = {**clique(), "annotations": {RANK: "0"}}
    more = copy.deepcopy(pcs(template))
    more["spec"]["replicas"] = 2
    assert judge(more, pcs(template), settings=replace(SETTINGS, exempt_users=frozenset())).errors == ()
