"""Who a request is from: service-account tokens, and acting as somebody else (`kubectl --as`).

Tokens are ES256-signed JWTs as the TokenRequest API hands them out. Signatures are deterministic; the time and the
token's own id are given, never taken.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from kube_embedded.access.attributes import Attributes, refused
from kube_embedded.access.rbac import Authorizer
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.base.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    Authenticator,
    Identity,
    service_account,
    split_service_account,
)

# Every part of the other identity (user, each group, uid, each extra value) must be allowed on its own. That may be
# for everything (verb `impersonate`), or for this request only (verbs `impersonate-on:MODE:VERB` and
# `impersonate:MODE`).

IMPERSONATES = "impersonate-user"
"""The header without which nobody is impersonated."""
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE = "system:node:"


def impersonated(
    who: Identity, headers: Mapping[str, str], authorizer: Authorizer, asked: Attributes | None = None
) -> Identity:
    """Who the request is to be taken for; without impersonation headers, who sent it.

    Header names are lower case; a header sent several times is one value, joined by commas. `asked` is the request
    itself; without it only those pass who may impersonate for everything.
    """
    wanted = _wanted(headers)
    if wanted is None:
        return who
    mode = _mode(wanted) if asked is not None else ""
    if asked is None or not mode:
        _check_parts(who, wanted, authorizer, "")
        return replace(wanted, groups=_groups(wanted))
    try:
        authorizer.check(who, replace(asked, verb=f"impersonate-on:{mode}:{asked.verb}"))
        _check_parts(who, wanted, authorizer, mode)
        return replace(wanted, groups=("system:nodes", AUTHENTICATED) if mode == "arbitrary-node" else _groups(wanted))
    except ApiError as constrained:
        try:
            _check_parts(who, wanted, authorizer, "")
        except ApiError:
            raise constrained from None
    return replace(wanted, groups=_groups(wanted))


def _wanted(headers: Mapping[str, str]) -> Identity | None:
    """The identity that the headers describe, as they describe it."""
    user, uid = headers.get(IMPERSONATES, ""), headers.get(_UID, "")
    groups, extra = _values(headers.get(_GROUP)), _extra(headers)
    if user:
        return Identity(user, uid, tuple(groups), extra)
    if groups or extra or uid:
        raise bad_request("requested groups, uid or extra without impersonating a user name")
    return None


def _mode(wanted: Identity) -> str:
    """How this identity may be taken on for one request; empty: not at all."""
    bare = not (wanted.uid or wanted.groups or wanted.extra)
    if split_service_account(wanted.name):
        return "serviceaccount" if bare else ""
    if wanted.name.startswith(_NODE):
        return "arbitrary-node" if bare else ""
    return "user-info"


def _check_parts(who: Identity, wanted: Identity, authorizer: Authorizer, mode: str) -> None:
    for asked in _parts(wanted, mode):
        if mode and asked.resource == "groups" and asked.name == MASTERS:
            raise refused(who, asked, "impersonating the system:masters group is not allowed")
        authorizer.check(who, asked)


def _parts(wanted: Identity, mode: str) -> Iterator[Attributes]:
    verb, group = (f"impersonate:{mode}", _AUTHENTICATION) if mode else ("impersonate", "")
    account = split_service_account(wanted.name)
    if account is not None:
        yield Attributes(verb, group, "serviceaccounts", namespace=account[0], name=account[1])
    elif mode == "arbitrary-node":
        yield Attributes(verb, group, "nodes", name=wanted.name.removeprefix(_NODE))
    else:
        yield Attributes(verb, group, "users", name=wanted.name)
    if wanted.uid:
        yield Attributes(verb, _AUTHENTICATION, "uids", name=wanted.uid)
    for one in wanted.groups:
        yield Attributes(verb, group, "groups", name=one)
    for key in sorted(wanted.extra):
        for value in wanted.extra[key]:
            yield Attributes(verb, _AUTHENTICATION, "userextras", key, name=value)


def _groups(wanted: Identity) -> tuple[str, ...]:
    """What is given, or what a service account has anyway; and the group that everybody is in who is somebody."""
    account = split_service_account(wanted.name)
    given = wanted.groups or (service_account(*account).groups[:-1] if account else ())
    if wanted.name == ANONYMOUS.name:
        return given if UNAUTHENTICATED in given else (*given, UNAUTHENTICATED)
    known = AUTHENTICATED in given or UNAUTHENTICATED in given
    return given if known else (*given, AUTHENTICATED)


def _extra(headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        unquote(name[len(_EXTRA) :]): tuple(_values(value))
        for name, value in headers.items()
        if name.startswith(_EXTRA)
    }


def _values(header: str | None) -> list[str]:
    return [part.strip() for part in header.split(",") if part.strip()] if header else []


Exists = Callable[[str, str, str], bool]
"""Whether the service account of this (namespace, name) still has this uid."""

_HALF = 32  # bytes of r and of s on P-256
_REMEMBERED = 1024
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class Issued:
    token: str
    expires_s: int


class ServiceAccountTokens:
    """Issues and verifies tokens with one key; verified ones are remembered until they expire."""

    def __init__(
        self, key_pem: bytes, issuer: str, audiences: Sequence[str] = (), exists: Exists | None = None
    ) -> None:
        key = serialization.load_pem_private_key(key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
            raise ValueError("the service-account key must be an EC P-256 key")
        self._key = key
        self._public = key.public_key()
        self._key_id = _encode(hashlib.sha256(_public_bytes(self._public)).digest())
        self._issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._exists = exists or (lambda namespace, name, uid: True)
        self._verified: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def issue(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        token_id: str,
        now_s: float,
        seconds: int = 3600,
        audiences: Sequence[str] = (),
        bound_to: dict[str, Any] | None = None,
    ) -> Issued:
        """A token for this account; `bound_to` is a further claim such as {"pod": {"name": ..., "uid": ...}}."""
        issued_at = int(now_s)
        claims = {
            "aud": list(audiences or self.audiences),
            "exp": issued_at + seconds,
            "iat": issued_at,
            "iss": self._issuer,
            "jti": token_id,
            "kubernetes.io": {
                "namespace": namespace,
                **(bound_to or {}),
                "serviceaccount": {"name": name, "uid": uid},
            },
            "nbf": issued_at,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return Issued(self._sign(claims), issued_at + seconds)

    def identify(self, token: str, now_s: float) -> Identity | None:
        found = self.review(token, self.audiences, now_s)
        return found[0] if found else None

    def review(self, token: str, audiences: Sequence[str], now_s: float) -> tuple[Identity, list[str]] | None:
        """Who it is and for which of these audiences the token is; None where it is not to be trusted."""
        claims = self._claims(token)
        if claims is None or not claims["nbf"] <= now_s < claims["exp"]:
            return None
        common = [one for one in audiences if one in claims["aud"]]
        account = claims["kubernetes.io"]["serviceaccount"]
        namespace = claims["kubernetes.io"]["namespace"]
        if not common or not self._exists(namespace, account["name"], account["uid"]):
            return None
        who = service_account(namespace, account["name"], account["uid"])
        return replace(who, extra={_CREDENTIAL: (f"JTI={claims['jti']}",)}), common

    def audiences_of(self, token: str) -> list[str]:
        """Whom a token of ours is for; empty where it is none of ours."""
        claims = self._claims(token)
        return list(claims["aud"]) if claims else []

    def _claims(self, token: str) -> dict[str, Any] | None:
        remembered = self._verified.get(token)
        if remembered is not None:
            return remembered
        claims = self._verify(token)
        if claims is not None:
            self._verified[token] = claims
            if len(self._verified) > _REMEMBERED:
                self._verified.popitem(last=False)
        return claims

    def _sign(self, claims: dict[str, Any]) -> str:
        header = {"alg": "ES256", "kid": self._key_id}
        signed = f"{_encode(msgspec.json.encode(header))}.{_encode(msgspec.json.encode(claims))}"
        der = self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        r, s = decode_dss_signature(der)
        return f"{signed}.{_encode(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def _verify(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that this key has signed; nothing of it is believed before the signature is."""
        signed, _, signature_part = token.rpartition(".")
        header_part, dot, claims_part = signed.partition(".")
        try:
            signature = _decode(signature_part)
            header = msgspec.json.decode(_decode(header_part))
            if not dot or len(signature) != 2 * _HALF or header.get("alg") != "ES256":
                return None
            r, s = int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
            self._public.verify(encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))
            claims: dict[str, Any] = msgspec.json.decode(_decode(claims_part))
        except (ValueError, InvalidSignature, AttributeError, msgspec.DecodeError):
            return None
        return claims if claims.get("iss") == self._issuer else None


@dataclass(frozen=True, slots=True)
class Authentication:
    """Who callers are, and by whom tokens are issued: without `issuer` by nobody."""

    callers: Authenticator = field(default_factory=Authenticator)
    issuer: ServiceAccountTokens | None = None


def create_key() -> bytes:
    """A new signing key, PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _public_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
