"""Nobody grants more than they have: roles and bindings are checked against the rules of whoever writes them.

A plug-in of admission, so that it runs where every other rule about a write runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.access.attributes import Attributes
from kube_embedded.access.rbac import GROUP, Authorizer, RoleNotFound
from kube_embedded.access.rules import Rule, compact, not_covered, quoted, read_rules
from kube_embedded.base import errors
from kube_embedded.base.identity import Identity

_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")
_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), paths=("*",)))
_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}
_UNCHANGED = Verdict()


class NoEscalation:
    """The verbs `escalate` on roles and `bind` on the role of a binding lift the check, as in Kubernetes."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.group == GROUP
            and request.operation in ("CREATE", "UPDATE")
            and request.resource in (*_ROLES, *_BINDINGS)
        )

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return _UNCHANGED

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        who = Identity(request.user, groups=request.groups)
        if who.is_master or request.object is None or _only_ownership(request.object, request.old_object):
            return _UNCHANGED
        if request.resource in _ROLES:
            self._check_role(who, request, request.object)
        else:
            self._check_binding(who, request, request.object)
        return _UNCHANGED

    def _check_role(self, who: Identity, request: AdmissionRequest, role: Object) -> None:
        name = request.name if request.operation == "UPDATE" else ""
        asked = Attributes("escalate", GROUP, request.resource, "", request.namespace, name)
        if self._authorizer.allowed(who, asked)[0]:
            return
        self._confirm(who, request, read_rules(role.get("rules")))
        if any((one or {}).get("aggregationRule") for one in (role, request.old_object)):
            owned, _ = self._authorizer.rules_for(who, request.namespace)
            if not_covered(owned, _EVERYTHING):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(GROUP, request.resource, request.name, why)

    def _check_binding(self, who: Identity, request: AdmissionRequest, binding: Object) -> None:
        reference = binding.get("roleRef") or {}
        plural = _PLURALS.get(reference.get("kind", ""), "")
        asked = Attributes("bind", GROUP, plural, "", request.namespace, reference.get("name", ""))
        if plural and self._authorizer.allowed(who, asked)[0]:
            return
        try:
            rules = self._authorizer.rules_of(reference, request.namespace)
        except RoleNotFound as error:
            raise errors.not_found(GROUP, request.resource, error.name) from error
        self._confirm(who, request, rules)

    def _confirm(self, who: Identity, request: AdmissionRequest, wanted: Sequence[Rule]) -> None:
        owned, missing_roles = self._authorizer.rules_for(who, request.namespace)
        missing = not_covered(owned, wanted)
        if not missing:
            return
        shown = "\n".join(sorted({rule.shown() for rule in compact(missing)}))
        user = f'user "{who.name}" (groups={quoted(who.groups)})'
        why = f"{user} is attempting to grant RBAC permissions not currently held:"
        resolution = f"; resolution errors: [{', '.join(missing_roles)}]" if missing_roles else ""
        raise errors.forbidden(GROUP, request.resource, request.name, f"{why}\n{shown}{resolution}")


def _only_ownership(new: Object, old: Object | None) -> bool:
    """An update that touches nothing but what garbage collection needs grants nothing."""
    if old is None:
        return False
    return _without_ownership(new) == _without_ownership(old) and new != old


def _without_ownership(obj: Object) -> Object:
    skipped = ("ownerReferences", "finalizers", "managedFields")
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in skipped}}
