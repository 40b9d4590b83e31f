"""Acting as somebody else: `kubectl --as`, for those who may impersonate.

Every part of the other identity (user, each group, uid, each extra value) must be allowed on its own. That may be for
everything (verb `impersonate`), or for this request only (verbs `impersonate-on:MODE:VERB` and `impersonate:MODE`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

from kube_embedded.access.attributes import Attributes, refused
from kube_embedded.access.rbac import Authorizer
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.base.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    Identity,
    service_account,
    split_service_account,
)

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
