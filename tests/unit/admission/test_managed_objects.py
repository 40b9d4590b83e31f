"""The authorizer: what the operator made for a set is changed by the operator, and by nobody who is not exempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from spinney.api.operator_configuration import load_configuration
from spinney.core.admission.managed_rules import CLUSTER_USERS, PROTECTED
from spinney.core.admission.review import OperatorAdmission
from spinney.core.admission.settings import settings_of
from spinney.serve.webhook.configurations import Address, webhook_configurations
from unit.admission.admission_kit import ON, OPERATOR, Json, View, pcs, podclique, request, view

GUARDED = replace(
    ON, protects_managed=True, operator_users=frozenset({OPERATOR}), exempt_users=frozenset({"kai-binder"})
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


def test_scaling_and_status_are_not_guarded() -> None:
    assert allows(asked(subresource="scale"))
    assert allows(asked(subresource="status"))


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
    (condition,) = guard["matchConditions"]
    assert all(f'"{user}"' in condition["expression"] for user in (*CLUSTER_USERS, OPERATOR, "kai-binder"))
    covered = {
        (group, plural) for rule in guard["rules"] for group in rule["apiGroups"] for plural in rule["resources"]
    }
    assert covered == PROTECTED
