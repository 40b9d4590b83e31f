"""Who makes a request: a name with groups, found by what the request shows.

Never decides what somebody may do; that is RBAC's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from kube_embedded.base.errors import unauthorized

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
SERVICE_ACCOUNTS = "system:serviceaccounts"
_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API speaks of one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


ADMIN = Identity("admin", groups=(MASTERS, AUTHENTICATED))
ANONYMOUS = Identity("system:anonymous", groups=(UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str = "") -> Identity:
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return Identity(f"{_ACCOUNT_PREFIX}{namespace}:{name}", uid, groups)


def role_identity(role: str) -> Identity:
    """The identity of one of our own roles (operator, scheduler, ...)."""
    return service_account("spinney-system", role)


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name, or None for anybody else."""
    if not user.startswith(_ACCOUNT_PREFIX):
        return None
    parts = user[len(_ACCOUNT_PREFIX) :].split(":")
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


class AnonymousAccess(Enum):
    """What a request without credentials is."""

    ADMIN_ON_LOOPBACK = "admin-on-loopback"  # anonymous when it comes from elsewhere
    ANONYMOUS = "anonymous"
    REFUSED = "refused"


class TokenSource(Protocol):
    """Knows some tokens; None for those it does not know or no longer accepts."""

    def identify(self, token: str, now_s: float) -> Identity | None: ...


class StaticTokens:
    """Tokens given at start. Only their digests are kept, so a look-up's duration says nothing about a token."""

    def __init__(self, tokens: Mapping[str, Identity]) -> None:
        self._by_digest = {_digest(token): _authenticated(who) for token, who in tokens.items()}

    def identify(self, token: str, now_s: float) -> Identity | None:
        return self._by_digest.get(_digest(token))


class Authenticator:
    """From the Authorization header to an identity; a token nobody knows is 401, never somebody else."""

    def __init__(
        self, sources: Iterable[TokenSource] = (), nobody: AnonymousAccess = AnonymousAccess.ADMIN_ON_LOOPBACK
    ) -> None:
        self._sources = tuple(sources)
        self._nobody = nobody

    def identify(self, authorization: str | None, *, loopback: bool, now_s: float) -> Identity:
        token = _bearer(authorization)
        if token is None:
            return self._without_credentials(loopback)
        found = self.find(token, now_s)
        if found is None:
            raise unauthorized()
        return found

    def find(self, token: str, now_s: float) -> Identity | None:
        for source in self._sources:
            found = source.identify(token, now_s)
            if found is not None:
                return found
        return None

    def _without_credentials(self, loopback: bool) -> Identity:
        match self._nobody:
            case AnonymousAccess.ADMIN_ON_LOOPBACK:
                return ADMIN if loopback else ANONYMOUS
            case AnonymousAccess.ANONYMOUS:
                return ANONYMOUS
            case AnonymousAccess.REFUSED:
                raise unauthorized()


def _authenticated(who: Identity) -> Identity:
    return who if AUTHENTICATED in who.groups else replace(who, groups=(*who.groups, AUTHENTICATED))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _bearer(authorization: str | None) -> str | None:
    """The token; None where no bearer token is shown (other schemes are not ours and count as nothing shown)."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
