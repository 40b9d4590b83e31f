"""Acting as somebody else."""

from __future__ import annotations

import pytest

from kube_embedded.access.attributes import on_resource
from kube_embedded.access.tokens import impersonated
from kube_embedded.base.errors import ApiError
from kube_embedded.base.identity import ADMIN, Identity
from unit.serve.access.policy_kit import ALICE, Policy, rule, user

LISTING = on_resource("list", "", "pods", namespace="shop")

TAKEN: dict[str, tuple[dict[str, str], Identity]] = {
    "a user": ({"impersonate-user": "bob"}, Identity("bob", groups=("system:authenticated",))),
    "groups": (
        {"impersonate-user": "bob", "impersonate-group": "ops, devs"},
        Identity("bob", groups=("ops", "devs", "system:authenticated")),
    ),
    "a service account": (
        {"impersonate-user": "system:serviceaccount:shop:robot"},
        Identity(
            "system:serviceaccount:shop:robot",
            groups=("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
        ),
    ),
    "nobody": (
        {"impersonate-user": "system:anonymous"},
        Identity("system:anonymous", groups=("system:unauthenticated",)),
    ),
    "all of it": (
        {"impersonate-user": "bob", "impersonate-uid": "7", "impersonate-extra-a%2fb": "c"},
        Identity("bob", "7", ("system:authenticated",), {"a/b": ("c",)}),
    ),
}


@pytest.mark.parametrize(("headers", "taken"), TAKEN.values(), ids=TAKEN)
def test_an_admin_takes_the_place_of(headers: dict[str, str], taken: Identity) -> None:
    assert impersonated(ADMIN, headers, Policy().authorizer, LISTING) == taken


def test_without_headers_everybody_is_who_they_are() -> None:
    assert impersonated(ALICE, {"accept": "*/*"}, Policy().authorizer, LISTING) is ALICE


def test_a_group_alone_is_nobody() -> None:
    with pytest.raises(ApiError, match="without impersonating a user name"):
        impersonated(ADMIN, {"impersonate-group": "ops"}, Policy().authorizer, LISTING)


def allowing(*rules: dict[str, object]) -> Policy:
    policy = Policy()
    policy.cluster_role("role", *rules)
    policy.bind_everywhere("role", user("alice"))
    return policy


def test_every_part_must_be_allowed() -> None:
    policy = allowing(rule("impersonate", "users", resourceNames=["bob"]))
    assert impersonated(ALICE, {"impersonate-user": "bob"}, policy.authorizer).name == "bob"
    with pytest.raises(ApiError, match='groups "system:masters" is forbidden'):
        headers = {"impersonate-user": "bob", "impersonate-group": "system:masters"}
        impersonated(ALICE, headers, policy.authorizer)
    with pytest.raises(ApiError, match='users "carol" is forbidden'):
        impersonated(ALICE, {"impersonate-user": "carol"}, policy.authorizer)


AUTHENTICATION = "authentication.k8s.io"


def test_somebody_may_be_impersonated_for_one_kind_of_request() -> None:
    policy = allowing(
        rule("impersonate-on:user-info:list", "pods"),
        rule("impersonate:user-info", "users", group=AUTHENTICATION),
    )
    assert impersonated(ALICE, {"impersonate-user": "bob"}, policy.authorizer, LISTING).name == "bob"
    getting = on_resource("get", "", "pods", namespace="shop", name="web")
    with pytest.raises(ApiError, match='cannot impersonate-on:user-info:get resource "pods"'):
        impersonated(ALICE, {"impersonate-user": "bob"}, policy.authorizer, getting)


def test_masters_are_never_impersonated_for_one_kind_of_request() -> None:
    policy = allowing(
        rule("impersonate-on:user-info:list", "pods"),
        rule("impersonate:user-info", "users groups", group=AUTHENTICATION),
    )
    headers = {"impersonate-user": "bob", "impersonate-group": "system:masters"}
    with pytest.raises(ApiError, match="impersonating the system:masters group is not allowed"):
        impersonated(ALICE, headers, policy.authorizer, LISTING)


def test_a_refusal_names_the_request() -> None:
    with pytest.raises(ApiError) as caught:
        impersonated(ALICE, {"impersonate-user": "system:serviceaccount:a:b"}, Policy().authorizer, LISTING)
    assert caught.value.message == (
        'pods is forbidden: User "alice" cannot impersonate-on:serviceaccount:list resource "pods" '
        'in API group "" in the namespace "shop"'
    )
