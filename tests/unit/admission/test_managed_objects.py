"""The authorizer: what the operator made for a set is changed by the operator, and by nobody who is not exempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from spinney.api.operator_configuration import load_configuration
from spinney.core.admission.authorizer import CLUSTER_USERS, PROTECTED
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of
from spinney.serve.webhook.configurations import Address, webhook_configurations
from unit.admission.admission_kit import ON, OPERATOR, Json, View, pcs, podclique, request, view

SCHEDULER = "system:serviceaccount:spinney-system:scheduler"
GUARDED = replace(
    ON,
    protects_managed=True,
    operator_users=frozenset({OPERATOR}),
    scheduler_users=frozenset({SCHEDULER}),
    exempt_users=frozenset({"kai-binder"}),
)
LABELS = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "p"}


def child() -> Json:
    made = podclique("p", 0)
    made["metadata"]["labels"] = dict(LABELS)
    return made


def asked(resource: str = "podcliques", group: str = "grove.io", **how: Any) -> Any:
    given = {"operation": "UPDATE", "object": child(), "old_object": child(), **how}
    if given["operation"] == "DELETE":
        given["object"] = None
    return msgspec.structs.replace(request(child(), child()), resource=resource, group=group, **given)


def owned(**metadata: Any) -> View:
    owner = pcs()
    owner["metadata"].update(metadata)
    return view().add("podcliquesets", owner)


def allows(asked_for: Any, lookup: View | None = None, settings: Any = GUARDED) -> bool:
    rules = OperatorAdmission(settings)
    return not rules.handles(asked_for) or rules.validate(asked_for, lookup or owned()).allowed


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
@pytest.mark.parametrize(("group", "resource"), sorted(PROTECTED - {("", "pods")}))
def test_r10_children_of_a_set_are_protected(group: str, resource: str, operation: str) -> None:
    assert not allows(asked(resource, group, operation=operation))


def test_the_refusal_says_whose_it_is_and_what_to_do() -> None:
    verdict = OperatorAdmission(GUARDED).validate(asked(operation="DELETE"), owned())
    assert verdict.message == (
        'it is managed for PodCliqueSet "ns/p" and may not be deleted by "alice": '
        "change the PodCliqueSet, or annotate it with grove.io/disable-managed-resource-protection=true"
    )


@pytest.mark.parametrize("user", [OPERATOR, "kai-binder", *CLUSTER_USERS])
def test_inv8_the_operator_the_exempt_and_those_who_clean_up_get_through(user: str) -> None:
    assert allows(asked(user=user, operation="DELETE"))


def test_pods_may_be_deleted_but_not_changed() -> None:
    assert allows(asked("pods", "", operation="DELETE"))
    assert not allows(asked("pods", ""))


def pod(**metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p-0-w-0", "namespace": "ns", "labels": dict(LABELS), **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def with_image(image: str) -> Json:
    changed = pod()
    changed["spec"]["containers"] = [{"name": "c", "image": image}]
    return changed


SCHEDULING: dict[str, Json] = {
    "marked with its gang": pod(annotations={"pod-group-name": "p-0"}),
    "in a part of its gang": pod(labels={**LABELS, "kai.scheduler/subgroup-name": "w"}),
    "told of its place": pod(annotations={"spinney.dev/rank": "3", "spinney.dev/domain": "z/b/r"}),
    "told of it by a label": pod(labels={**LABELS, "spinney.dev/rank": "3", "spinney.dev/segment": "0"}),
    "given up": pod(annotations={"spinney.dev/released": "77"}, resourceVersion="78", managedFields=[{}]),
}
NOT_SCHEDULING: dict[str, Json] = {
    "another label": pod(labels={**LABELS, "app": "mine"}),
    "a label less": pod(labels={}),
    "another annotation": pod(annotations={"grove.io/ignore": "true"}),
    "an annotation of the operator's": pod(annotations={"spinney.dev/node-keys": "a"}),
    "another image": with_image("j"),
    "another owner": pod(ownerReferences=[{"name": "x"}]),
    "a finalizer": pod(finalizers=["a.b/c"]),
}


@pytest.mark.parametrize("row", SCHEDULING)
def test_r10_the_scheduler_marks_managed_pods_as_it_has_to(row: str) -> None:
    change = {"object": SCHEDULING[row], "old_object": pod()}
    assert allows(asked("pods", "", user=SCHEDULER, **change))
    assert not allows(asked("pods", "", user="alice", **change))


@pytest.mark.parametrize("row", NOT_SCHEDULING)
def test_r10_the_scheduler_changes_nothing_else_of_managed_pods(row: str) -> None:
    change = {"object": NOT_SCHEDULING[row], "old_object": pod()}
    assert not allows(asked("pods", "", user=SCHEDULER, **change))


@pytest.mark.parametrize(("group", "resource"), sorted(PROTECTED - {("", "pods")}))
def test_r10_the_scheduler_changes_no_other_managed_object(group: str, resource: str) -> None:
    change = {"object": SCHEDULING["given up"], "old_object": pod()}
    assert not allows(asked(resource, group, user=SCHEDULER, **change))


def test_inv8_whoever_takes_a_finalizer_from_what_is_being_deleted_gets_through() -> None:
    leaving = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    held = pod(finalizers=["a.b/c"], **leaving)
    assert allows(asked("pods", "", object=pod(**leaving), old_object=held))
    assert not allows(asked("pods", "", object=pod(), old_object=pod(finalizers=["a.b/c"])))
    assert not allows(asked("pods", "", object=pod(**leaving, annotations={"a": "b"}), old_object=held))


def test_scaling_is_not_guarded_and_status_is_the_operators() -> None:
    assert allows(asked(subresource="scale"))
    assert allows(asked(subresource="status", user=OPERATOR))


def test_what_is_not_managed_is_nobodys_business() -> None:
    other = child()
    other["metadata"]["labels"] = {}
    assert allows(asked(object=other, old_object=other))


OWNERS: dict[str, View] = {
    "gone": view(),
    "leaving": owned(deletionTimestamp="2030-01-01T00:00:00Z"),
    "released": owned(annotations={"grove.io/disable-managed-resource-protection": "true"}),
}


@pytest.mark.parametrize("row", OWNERS)
def test_r10_the_protection_ends_with_its_set(row: str) -> None:
    assert allows(asked(operation="DELETE"), OWNERS[row])


def test_a_user_cannot_take_the_labels_off_to_get_through() -> None:
    bare = child()
    bare["metadata"]["labels"] = {}
    assert not allows(asked(object=bare))


def test_nothing_is_protected_unless_it_is_switched_on() -> None:
    assert allows(asked(operation="DELETE"), settings=ON)
    assert settings_of(load_configuration("authorizer: {enabled: true}")).protects_managed


def test_nothing_of_it_is_changed_on_entry() -> None:
    assert OperatorAdmission(GUARDED).mutate(asked(), owned()).object is None


def test_a_dead_webhook_does_not_hold_up_those_who_clean_up() -> None:
    _, validating = webhook_configurations(Address(b"pem", url="https://127.0.0.1:1"), [], settings=GUARDED)
    guard = validating["webhooks"][-1]
    assert guard["objectSelector"] == {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}}
    condition, scheduling = guard["matchConditions"]
    assert f'"{SCHEDULER}"' in scheduling["expression"]
    assert all(f'"{user}"' in condition["expression"] for user in (*CLUSTER_USERS, OPERATOR, "kai-binder"))
    covered = {
        (group, plural) for rule in guard["rules"] for group in rule["apiGroups"] for plural in rule["resources"]
    }
    assert covered == PROTECTED
