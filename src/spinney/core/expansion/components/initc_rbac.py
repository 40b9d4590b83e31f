"""What an init container needs to watch its parents: an account that may read pods and nothing else, and its token.

Made only for sets with a startup order. Secrets are never looked at: the binding, made last, says that the token was
made, and it is made again before pods that need it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spinney.api import generated_names
from spinney.api.changes import Change, Create, Json, Resource
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import (
    COMPONENT_POD_ROLE,
    COMPONENT_POD_ROLE_BINDING,
    COMPONENT_POD_SERVICE_ACCOUNT,
    COMPONENT_POD_TOKEN_SECRET,
)
from spinney.api.meta import ObjectMeta, PartialObject, Slim
from spinney.core.expansion.objects import (
    PODCLIQUESETS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    managed_labels,
    new_object,
    owner_reference,
    patch_object,
)
from spinney.core.expansion.podclique.desired_pod import has_order

_GROUP = "rbac.authorization.k8s.io"
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"


class Rule(Slim, frozen=True):
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class Role(Slim, frozen=True):
    """A Role as far as it is compared."""

    metadata: ObjectMeta
    rules: tuple[Rule, ...] | None = None


_RULES = (Rule(("",), ("pods", "pods/status"), ("get", "list", "watch")),)


@dataclass(frozen=True, slots=True)
class Access:
    """The existing objects."""

    account: PartialObject | None = None
    role: Role | None = None
    binding: PartialObject | None = None


def expand(podcliqueset: PodCliqueSet, access: Access) -> list[Change]:
    if not has_order(podcliqueset):
        return []
    name = podcliqueset.metadata.name
    changes: list[Change] = []
    if access.account is None:
        account = generated_names.service_account(name)
        changes.append(_new(podcliqueset, SERVICE_ACCOUNTS, account, COMPONENT_POD_SERVICE_ACCOUNT))
    if access.role is None:
        changes.append(_new(podcliqueset, ROLES, generated_names.role(name), COMPONENT_POD_ROLE, rules=_rules()))
    elif access.role.rules != _RULES:
        changes += patch_object(ROLES, access.role.metadata, {"rules": _rules()})
    if access.account is None or access.binding is None:
        changes.append(token(podcliqueset))
    if access.binding is None:
        changes.append(_binding(podcliqueset))
    return changes


def _rules() -> list[Json]:
    return [
        {"apiGroups": list(rule.api_groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
        for rule in _RULES
    ]


def token(podcliqueset: PodCliqueSet) -> Create:
    """The creation of the account's token Secret; it may exist already."""
    name = podcliqueset.metadata.name
    annotations = {_ACCOUNT_ANNOTATION: generated_names.service_account(name)}
    secret = generated_names.token_secret(name)
    create = _new(podcliqueset, SECRETS, secret, COMPONENT_POD_TOKEN_SECRET, type="kubernetes.io/service-account-token")
    create.body["metadata"]["annotations"] = annotations
    return replace(create, may_exist=True)


def _binding(podcliqueset: PodCliqueSet) -> Create:
    metadata = podcliqueset.metadata
    role = {"apiGroup": _GROUP, "kind": "Role", "name": generated_names.role(metadata.name)}
    account = generated_names.service_account(metadata.name)
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": metadata.namespace}]
    name = generated_names.role(metadata.name)
    return _new(podcliqueset, ROLE_BINDINGS, name, COMPONENT_POD_ROLE_BINDING, roleRef=role, subjects=subjects)


def _new(podcliqueset: PodCliqueSet, resource: Resource, name: str, component: str, **content: Any) -> Create:
    metadata = podcliqueset.metadata
    label = name.replace(":", ".")
    return new_object(
        resource.at(name, metadata.namespace),
        labels=managed_labels(metadata.name, label, component),
        owner=owner_reference(PODCLIQUESETS, metadata),
        **content,
    )
