"""Who is asking: tokens, service accounts, and requests that show nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kube_embedded.access.tokens import ServiceAccountTokens, create_key
from kube_embedded.base import identity
from kube_embedded.base.errors import ApiError
from kube_embedded.base.identity import ADMIN, ANONYMOUS, AnonymousAccess, Authenticator, Identity, StaticTokens

NOW = 1_800_000_000.0
KEY = create_key()


def tokens(**options: Any) -> ServiceAccountTokens:
    return ServiceAccountTokens(options.pop("key", KEY), options.pop("issuer", "https://issuer"), **options)


def issued(source: ServiceAccountTokens, **options: Any) -> str:
    return source.issue("shop", "robot", "uid-1", token_id="id-1", now_s=NOW, **options).token


def test_a_static_token_is_somebody_and_authenticated() -> None:
    source = StaticTokens({"secret": Identity("alice", "u1", ("devs",))})
    found = source.identify("secret", NOW)
    assert found == Identity("alice", "u1", ("devs", "system:authenticated"))
    assert source.identify("Secret", NOW) is None


CREDENTIALS: dict[str, tuple[AnonymousAccess, str | None, bool, Identity | None]] = {
    "nothing, on loopback": (AnonymousAccess.ADMIN_ON_LOOPBACK, None, True, ADMIN),
    "nothing, from elsewhere": (AnonymousAccess.ADMIN_ON_LOOPBACK, None, False, ANONYMOUS),
    "nothing, nobody trusted": (AnonymousAccess.ANONYMOUS, None, True, ANONYMOUS),
    "nothing, refused": (AnonymousAccess.REFUSED, None, True, None),
    "a wrong token is not nothing": (AnonymousAccess.ADMIN_ON_LOOPBACK, "Bearer wrong", True, None),
    "a right token": (
        AnonymousAccess.REFUSED,
        "bearer right",
        False,
        Identity("bob", groups=("system:authenticated",)),
    ),
    "another scheme counts as nothing": (AnonymousAccess.ANONYMOUS, "Basic cm9vdA==", False, ANONYMOUS),
}


@pytest.mark.parametrize(("nobody", "header", "loopback", "found"), CREDENTIALS.values(), ids=CREDENTIALS)
def test_credentials_become_an_identity(
    nobody: AnonymousAccess, header: str | None, loopback: bool, found: Identity | None
) -> None:
    authenticator = Authenticator([StaticTokens({"right": Identity("bob")})], nobody)
    if found is not None:
        assert authenticator.identify(header, loopback=loopback, now_s=NOW) == found
        return
    with pytest.raises(ApiError) as caught:
        authenticator.identify(header, loopback=loopback, now_s=NOW)
    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


def test_a_service_account_is_in_the_groups_of_its_namespace() -> None:
    found = tokens().identify(issued(tokens()), NOW)
    assert found is not None and (found.name, found.uid) == ("system:serviceaccount:shop:robot", "uid-1")
    assert found.groups == ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    assert found.extra == {"authentication.kubernetes.io/credential-id": ("JTI=id-1",)}


def test_the_same_token_is_issued_twice_in_the_same_way() -> None:
    assert issued(tokens()) == issued(tokens())


def tampered(token: str) -> str:
    header, claims, signature = token.split(".")
    parsed = json.loads(base64.urlsafe_b64decode(claims + "=="))
    parsed["kubernetes.io"]["serviceaccount"]["name"] = "admin"
    forged = base64.urlsafe_b64encode(json.dumps(parsed).encode()).rstrip(b"=").decode()
    return f"{header}.{forged}.{signature}"


def unsigned(token: str) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


DISTRUSTED: dict[str, str] = {
    "changed claims": tampered(issued(tokens())),
    "no signature": unsigned(issued(tokens())),
    "another key": issued(tokens(key=create_key())),
    "another issuer": issued(tokens(issuer="https://other")),
    "another audience": issued(tokens(), audiences=["vault"]),
    "half a token": issued(tokens())[:50],
    "no token": "x",
    "dots": "..",
    "nothing in it": "e30.e30.",
}


@pytest.mark.parametrize("token", DISTRUSTED.values(), ids=DISTRUSTED)
def test_a_token_that_is_not_ours_is_nobodys(token: str) -> None:
    assert tokens().identify(token, NOW) is None


@pytest.mark.parametrize(("at", "good"), [(-1, False), (0, True), (599, True), (600, False)])
def test_a_token_lives_as_long_as_it_says_even_once_verified(at: int, good: bool) -> None:
    source = tokens()
    token = issued(source, seconds=600)
    assert source.identify(token, NOW) is not None
    assert (source.identify(token, NOW + at) is not None) is good


def test_a_token_ends_with_its_service_account() -> None:
    alive = {("shop", "robot", "uid-1")}
    source = tokens(exists=lambda *account: account in alive)
    token = issued(source)
    assert source.identify(token, NOW) is not None
    alive.clear()
    assert source.identify(token, NOW) is None


def test_our_roles_are_service_accounts() -> None:
    who = identity.role_identity("scheduler")
    assert who.name == "system:serviceaccount:spinney-system:scheduler"
    assert identity.split_service_account(who.name) == ("spinney-system", "scheduler")


@pytest.mark.parametrize("name", ["alice", "system:serviceaccount:shop", "system:serviceaccount::robot"])
def test_other_names_are_no_service_accounts(name: str) -> None:
    assert identity.split_service_account(name) is None
