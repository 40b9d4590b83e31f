"""Questions about access, answered without storing anything."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.access.tokens import ServiceAccountTokens, create_key
from kube_embedded.base.errors import ApiError
from kube_embedded.base.identity import ADMIN, Authenticator, Identity, StaticTokens
from kube_embedded.subresources import review_endpoints
from unit.serve.access.policy_kit import ALICE, Object, Policy, rule, user

NOW = 1_800_000_000.0


def review_of(kind: str, **spec: Any) -> Object:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": {}, "spec": spec}


@pytest.fixture
def policy() -> Policy:
    policy = Policy()
    policy.role("shop", "reader", rule("get", "pods", resourceNames=["web"]))
    policy.bind("shop", "Role", "reader", user("alice"))
    policy.cluster_role("path", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]})
    policy.bind_everywhere("path", user("alice"))
    return policy


POD = {"verb": "get", "resource": "pods", "namespace": "shop", "name": "web"}


def test_one_may_ask_about_oneself(policy: Policy) -> None:
    asked = review_of("SelfSubjectAccessReview", resourceAttributes=POD)
    answer = review_endpoints.self_subject_access_review(asked, ALICE, policy.authorizer)
    assert answer == {
        **asked,
        "status": {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "reader-here/shop" of Role "reader" to User "alice"',
        },
    }
    other = review_of("SelfSubjectAccessReview", resourceAttributes={**POD, "namespace": "lab"})
    assert review_endpoints.self_subject_access_review(other, ALICE, policy.authorizer)["status"] == {"allowed": False}


def test_one_may_ask_about_a_path(policy: Policy) -> None:
    asked = review_of("SelfSubjectAccessReview", nonResourceAttributes={"path": "/metrics", "verb": "get"})
    assert review_endpoints.self_subject_access_review(asked, ALICE, policy.authorizer)["status"]["allowed"]


def test_one_may_ask_about_others(policy: Policy) -> None:
    asked = review_of("SubjectAccessReview", user="alice", resourceAttributes=POD)
    assert review_endpoints.subject_access_review(asked, policy.authorizer)["status"]["allowed"]
    masters = review_of("SubjectAccessReview", groups=["system:masters"], resourceAttributes=POD)
    assert review_endpoints.subject_access_review(masters, policy.authorizer)["status"] == {"allowed": True}


def test_a_local_question_stays_in_its_namespace(policy: Policy) -> None:
    asked = review_of("LocalSubjectAccessReview", user="alice", resourceAttributes=POD)
    here = {**asked, "metadata": {"namespace": "shop"}}
    assert review_endpoints.local_subject_access_review(here, "shop", policy.authorizer)["status"]["allowed"]
    elsewhere = {**asked, "metadata": {"namespace": "lab"}}
    with pytest.raises(ApiError, match='Invalid value: "shop": must match metadata'):
        review_endpoints.local_subject_access_review(elsewhere, "lab", policy.authorizer)


BAD: dict[str, tuple[Object, str]] = {
    "nothing asked": (
        review_of("SubjectAccessReview", user="alice"),
        "spec.resourceAttributes: Invalid value: null: "
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    ),
    "both asked": (
        review_of(
            "SubjectAccessReview",
            user="alice",
            resourceAttributes=POD,
            nonResourceAttributes={"path": "/x", "verb": "get"},
        ),
        'spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: '
        "cannot be specified in combination with resourceAttributes",
    ),
    "about nobody": (
        review_of("SubjectAccessReview", resourceAttributes=POD),
        'spec.user: Invalid value: "": at least one of user or group must be specified',
    ),
    "with a name": (
        {**review_of("SubjectAccessReview", user="alice", resourceAttributes=POD), "metadata": {"name": "x"}},
        'metadata: Invalid value: {"name":"x"}: must be empty',
    ),
}


@pytest.mark.parametrize(("asked", "message"), BAD.values(), ids=BAD)
def test_a_question_that_makes_no_sense_is_invalid(policy: Policy, asked: Object, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        review_endpoints.subject_access_review(asked, policy.authorizer)
    error = caught.value
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == f'.authorization.k8s.io "" is invalid: {message}'
    assert "kind" not in (error.details or {})


def test_all_rules_of_a_namespace_are_listed(policy: Policy) -> None:
    asked = review_of("SelfSubjectRulesReview", namespace="shop")
    assert review_endpoints.self_subject_rules_review(asked, ALICE, policy.authorizer)["status"] == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["web"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
        "incomplete": False,
    }


def test_rules_are_asked_for_one_namespace(policy: Policy) -> None:
    with pytest.raises(ApiError, match="no namespace on request"):
        review_endpoints.self_subject_rules_review(review_of("SelfSubjectRulesReview"), ALICE, policy.authorizer)


def test_who_am_i() -> None:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = Identity("alice", "u1", ("devs",), {"scope": ("a",)})
    assert review_endpoints.self_subject_review(asked, who)["status"] == {
        "userInfo": {"username": "alice", "uid": "u1", "groups": ["devs"], "extra": {"scope": ["a"]}}
    }


ACCOUNTS = ServiceAccountTokens(create_key(), "https://issuer")
STATIC = StaticTokens({"secret": Identity("alice", "u1")})


def token_status(token: str, **spec: Any) -> Object:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, **spec}}
    status: Object = review_endpoints.token_review(asked, Authenticator([STATIC, ACCOUNTS]), ACCOUNTS, NOW)["status"]
    return status


def account_token(*audiences: str) -> str:
    return ACCOUNTS.issue("shop", "robot", "u2", token_id="i", now_s=NOW, audiences=audiences).token


def test_a_token_says_who_it_is() -> None:
    assert token_status("secret") == {
        "authenticated": True,
        "user": {"username": "alice", "uid": "u1", "groups": ["system:authenticated"]},
        "audiences": ["https://issuer"],
    }
    assert token_status(account_token())["user"]["username"] == "system:serviceaccount:shop:robot"


def test_a_token_is_good_for_the_audiences_asked_for() -> None:
    assert token_status(account_token("vault"), audiences=["vault", "other"])["audiences"] == ["vault"]
    assert token_status(account_token(), audiences=["vault"]) == {
        "user": {},
        "error": '[invalid bearer token, token audiences ["https://issuer"] is invalid for '
        'the target audiences ["vault"]]',
    }


def test_a_token_nobody_knows_is_invalid() -> None:
    assert token_status("zzz") == {"user": {}, "error": "invalid bearer token"}
    assert token_status("secret", audiences=["vault"]) == {"user": {}, "error": "invalid bearer token"}


def test_a_token_review_needs_a_token() -> None:
    with pytest.raises(ApiError, match="token is required for TokenReview in authentication"):
        token_status("")


def test_masters_may_everything(policy: Policy) -> None:
    asked = review_of("SelfSubjectAccessReview", resourceAttributes={"verb": "*", "resource": "*", "group": "*"})
    assert review_endpoints.self_subject_access_review(asked, ADMIN, policy.authorizer)["status"] == {"allowed": True}
