"""Roles and their bindings, kinds that are asked and never kept (reviews, bindings), and CustomResourceDefinitions.

The rules of CustomResourceDefinitions live elsewhere; here they are only shaped and shown.
"""

from __future__ import annotations

from collections.abc import Callable

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.builtins.common.field_checks import check_selector, check_subdomain, unsupported
from kube_embedded.builtins.common.metadata import PATH_SEGMENT, GoInternal, Naming
from kube_embedded.builtins.common.printing import AGE, CREATED, NAME, cell, table, wide
from kube_embedded.builtins.common.rules import Rules, spec_changed

_ANY_NAME = Naming(lambda name: (), lambda prefix: ())


_CREATED = table(NAME, CREATED)


def asked(component: str, namespaced: bool = False) -> Rules:
    """A kind that is only ever posted."""
    return Rules(component=component, table=_CREATED, naming=_ANY_NAME, namespaced=namespaced)


DEFINITIONS = Rules(
    component="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    table=_CREATED,
    namespaced=False,
    bumps=spec_changed,
    has_status=True,
)


GROUP = "rbac.authorization.k8s.io"
_API = "io.k8s.api.rbac.v1."


def _check_rules(role: Object, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(role.get("rules") or ()):
        errors += _check_rule(rule, f"rules[{index}]", namespaced)
    return errors


def _check_rule(rule: Object, path: str, namespaced: bool) -> list[FieldError]:
    errors = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(where, urls, detail))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _check_cluster_role(role: Object) -> list[FieldError]:
    errors = _check_rules(role, namespaced=False)
    rule = role.get("aggregationRule")
    if rule is None:
        return errors
    path = "aggregationRule.clusterRoleSelectors"
    if not rule.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, detail))
    for index, selector in enumerate(rule.get("clusterRoleSelectors") or ()):
        errors += check_selector(f"{path}[{index}]", selector)
    return errors


ROLES = Rules(
    component=_API + "Role",
    table=_CREATED,
    naming=PATH_SEGMENT,
    check=lambda role: _check_rules(role, namespaced=True),
)
CLUSTER_ROLES = Rules(
    component=_API + "ClusterRole",
    table=_CREATED,
    naming=PATH_SEGMENT,
    namespaced=False,
    check=_check_cluster_role,
)


def _default_binding(binding: Object) -> None:
    if not binding["roleRef"].get("apiGroup"):
        binding["roleRef"]["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def _check_binding(binding: Object, namespaced: bool) -> list[FieldError]:
    role = binding["roleRef"]
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    errors: list[FieldError] = []
    if role.get("apiGroup") != GROUP:
        errors.append(unsupported("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,)))
    if role.get("kind") not in kinds:
        errors.append(unsupported("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        errors.append(required("roleRef.name"))
    else:
        errors += [invalid("roleRef.name", role["name"], text) for text in PATH_SEGMENT.of_name(role["name"])]
    for index, subject in enumerate(binding.get("subjects") or ()):
        errors += _check_subject(subject, f"subjects[{index}]", namespaced)
    return errors


def _check_subject(subject: Object, path: str, namespaced: bool) -> list[FieldError]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    errors = [] if name else [required(f"{path}.name")]
    match subject.get("kind"):
        case "ServiceAccount":
            if name:
                errors += check_subdomain(f"{path}.name", name)
            if group:
                errors.append(unsupported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        case "User" | "Group":
            if group != GROUP:
                errors.append(unsupported(f"{path}.apiGroup", group, (GROUP,)))
        case kind:
            errors.append(unsupported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group")))
    return errors


def _check_same_role(binding: Object, old: Object) -> list[FieldError]:
    role = binding["roleRef"]
    if role == old["roleRef"]:
        return []
    shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
    return [invalid("roleRef", GoInternal(shown), "cannot change roleRef")]


def _subjects(kind: str) -> Callable[[Object], str]:
    return lambda binding: ", ".join(
        f"{one.get('namespace', '')}/{one.get('name', '')}" if kind == "ServiceAccount" else one.get("name", "")
        for one in binding.get("subjects") or ()
        if one.get("kind") == kind
    )


_BINDINGS = table(
    NAME,
    cell("Role", lambda binding: f"{binding['roleRef'].get('kind', '')}/{binding['roleRef'].get('name', '')}"),
    AGE,
    wide(cell("Users", _subjects("User"))),
    wide(cell("Groups", _subjects("Group"))),
    wide(cell("ServiceAccounts", _subjects("ServiceAccount"))),
)
ROLE_BINDINGS = Rules(
    component=_API + "RoleBinding",
    table=_BINDINGS,
    naming=PATH_SEGMENT,
    defaults=_default_binding,
    check=lambda binding: _check_binding(binding, namespaced=True),
    check_update=_check_same_role,
)
CLUSTER_ROLE_BINDINGS = Rules(
    component=_API + "ClusterRoleBinding",
    table=_BINDINGS,
    naming=PATH_SEGMENT,
    namespaced=False,
    defaults=_default_binding,
    check=lambda binding: _check_binding(binding, namespaced=False),
    check_update=_check_same_role,
)
