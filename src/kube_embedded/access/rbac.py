"""Role-based access: who may do what, by the Roles and bindings that are stored.

Compiled per identity on first use and kept until `changed`; system:masters is never looked up. Nobody grants more than
they have: `NoEscalation` is a plug-in of admission, so that it runs where every other rule about a write runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_apimachinery.selectors import from_object
from kube_embedded.access.attributes import Attributes, refused
from kube_embedded.base import errors
from kube_embedded.base.identity import Identity


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of groups, or on paths; an asterisk stands for all."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def reaches(self, asked: Attributes) -> bool:
        """Everything but the object's name fits; the answer is the same for all names."""
        if not _has(self.verbs, asked.verb):
            return False
        if asked.path:
            return any(_path_covers(path, asked.path) for path in self.paths)
        return _has(self.groups, asked.group) and _resource_covered(self.resources, asked.full_resource)

    def names_fit(self, name: str) -> bool:
        return not self.names or name in self.names

    def covers(self, part: Rule) -> bool:
        """Whether whoever holds this rule may hand on that part (a rule with one of everything)."""
        return (
            all(_has(self.verbs, verb) for verb in part.verbs)
            and all(_has(self.groups, group) for group in part.groups)
            and all(_resource_covered(self.resources, resource) for resource in part.resources)
            and all(any(_path_covers(own, path) for own in self.paths) for path in part.paths)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
        )

    def parts(self) -> Iterator[Rule]:
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        yield Rule((verb,), (group,), (resource,), (name,) if name else ())
        for path in self.paths:
            for verb in self.verbs:
                yield Rule((verb,), paths=(path,))

    def shown(self) -> str:
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in fields.items() if values) + "}"


def read_rules(rules: Iterable[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    """The `rules` of a Role or ClusterRole object."""
    return tuple(
        Rule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in rules or ()
    )


def not_covered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of the wanted rules that none of the owned ones covers."""
    return [part for rule in wanted for part in rule.parts() if not any(own.covers(part) for own in owned)]


def compact(parts: Iterable[Rule]) -> list[Rule]:
    """Parts that differ by their verb only, as one; parts about paths as they are."""
    together: dict[Rule, Rule] = {}
    for part in parts:
        key = part if part.paths else replace(part, verbs=())
        before = together.get(key)
        together[key] = part if before is None else replace(before, verbs=(*before.verbs, *part.verbs))
    return list(together.values())


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Kubernetes prints one: `["a" "b"]`."""
    return "[" + " ".join(msgspec.json.encode(value).decode() for value in values) + "]"


def _has(allowed: Sequence[str], wanted: str) -> bool:
    return wanted in allowed or "*" in allowed


def _resource_covered(allowed: Sequence[str], wanted: str) -> bool:
    """`pods/log` is covered by itself, by `*/log` and by `*`, never by `pods`."""
    if _has(allowed, wanted):
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in allowed


def _path_covers(own: str, wanted: str) -> bool:
    return own == wanted or (own.endswith("*") and wanted.startswith(own.rstrip("*")))


GROUP = "rbac.authorization.k8s.io"
Listing = Callable[[str, str], Iterable[Object]]
"""All objects of a (group, plural), in every namespace."""

_KEPT = 4096


class RoleNotFound(Exception):
    """A binding refers to a role that is not there."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f'{kind.lower()}.{GROUP} "{name}" not found')
        self.kind = kind
        self.name = name


@dataclass(slots=True)
class Grants:
    """The rules of one identity in one scope, in the order of bindings, with the words that say where each is from."""

    rules: list[tuple[Rule, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    _reaching: dict[tuple[str, ...], list[tuple[Rule, str]]] = field(default_factory=dict)

    def source(self, asked: Attributes) -> str | None:
        """Where the first rule that allows it is from."""
        key = (asked.verb, asked.group, asked.resource, asked.subresource, asked.path)
        reaching = self._reaching.get(key)
        if reaching is None:
            if len(self._reaching) >= _KEPT:
                self._reaching.clear()
            reaching = self._reaching[key] = [pair for pair in self.rules if pair[0].reaches(asked)]
        for rule, source in reaching:
            if rule.names_fit(asked.name):
                return source
        return None


@dataclass(frozen=True, slots=True)
class _Policy:
    """What is stored, read once."""

    cluster_roles: dict[str, tuple[Rule, ...]]
    roles: dict[tuple[str, str], tuple[Rule, ...]]
    cluster_bindings: list[Object]
    bindings: dict[str, list[Object]]


class Authorizer:
    """Call `changed` after every write to an object of the RBAC group."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._policy: _Policy | None = None
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}

    def changed(self, group: str = GROUP, plural: str = "") -> None:
        if group == GROUP:
            self._policy = None
            self._grants.clear()

    def allowed(self, who: Identity, asked: Attributes) -> tuple[bool, str]:
        """Yes or no, and why; a no has a reason only where a binding's role is missing."""
        if who.is_master:
            return True, ""
        everywhere = self._granted(who, "")
        source = everywhere.source(asked)
        if source is not None:
            return True, f"RBAC: allowed by {source}"
        if not asked.namespace or asked.path:
            return False, _reason(everywhere.missing)
        here = self._granted(who, asked.namespace)
        source = here.source(asked)
        if source is not None:
            return True, f"RBAC: allowed by {source}"
        return False, _reason(everywhere.missing + here.missing)

    def check(self, who: Identity, asked: Attributes) -> None:
        """Raises the 403 for what is not allowed."""
        allowed, reason = self.allowed(who, asked)
        if not allowed:
            raise refused(who, asked, reason)

    def rules_for(self, who: Identity, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules that hold for somebody in a namespace (or only everywhere), and the roles that are missing."""
        scopes = [self._granted(who, "")] + ([self._granted(who, namespace)] if namespace else [])
        return [rule for one in scopes for rule, _ in one.rules], [text for one in scopes for text in one.missing]

    def rules_of(self, reference: Object, namespace: str) -> tuple[Rule, ...]:
        """The rules of the role that a binding in this namespace (or in none) refers to."""
        return _referenced(self._read(), reference, namespace)

    def _granted(self, who: Identity, namespace: str) -> Grants:
        key = (who.name, who.groups, namespace)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) >= _KEPT:
                self._grants.clear()
            found = self._grants[key] = _collect(self._read(), who, namespace)
        return found

    def _read(self) -> _Policy:
        if self._policy is None:
            self._policy = _read_policy(self._listing)
        return self._policy


def _reason(missing: list[str]) -> str:
    unmet = list(dict.fromkeys(missing))
    if not unmet:
        return ""
    return f"RBAC: {unmet[0] if len(unmet) == 1 else '[' + ', '.join(unmet) + ']'}"


def _read_policy(listing: Listing) -> _Policy:
    cluster_roles = list(listing(GROUP, "clusterroles"))
    bindings: dict[str, list[Object]] = {}
    for binding in sorted(listing(GROUP, "rolebindings"), key=_name):
        bindings.setdefault(binding["metadata"]["namespace"], []).append(binding)
    return _Policy(
        cluster_roles={_name(role): _all_rules(role, cluster_roles, frozenset()) for role in cluster_roles},
        roles={(r["metadata"]["namespace"], _name(r)): read_rules(r.get("rules")) for r in listing(GROUP, "roles")},
        cluster_bindings=sorted(listing(GROUP, "clusterrolebindings"), key=_name),
        bindings=bindings,
    )


def _all_rules(role: Object, cluster_roles: list[Object], inside: frozenset[str]) -> tuple[Rule, ...]:
    """A role's own rules and those it gathers, through other gathering roles too, each role once."""
    found = dict.fromkeys(read_rules(role.get("rules")))
    if role.get("aggregationRule") and _name(role) not in inside:
        selectors = [from_object(one) for one in role["aggregationRule"].get("clusterRoleSelectors") or ()]
        for other in sorted(cluster_roles, key=_name):
            labels = other["metadata"].get("labels") or {}
            if any(selector.matches(labels) for selector in selectors):
                found |= dict.fromkeys(_all_rules(other, cluster_roles, inside | {_name(role)}))
    return tuple(found)


def _collect(policy: _Policy, who: Identity, namespace: str) -> Grants:
    grants = Grants()
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    for binding in policy.bindings.get(namespace, []) if namespace else policy.cluster_bindings:
        subject = next(_subjects_that_are(who, binding, namespace), None)
        if subject is None:
            continue
        try:
            rules = _referenced(policy, binding["roleRef"], namespace)
        except RoleNotFound as error:
            grants.missing.append(str(error))
            continue
        source = _described(kind, binding, subject, namespace)
        grants.rules += [(rule, source) for rule in rules]
    return grants


def _referenced(policy: _Policy, reference: Object, namespace: str) -> tuple[Rule, ...]:
    kind, name = reference.get("kind", ""), reference.get("name", "")
    found = policy.roles.get((namespace, name)) if kind == "Role" else policy.cluster_roles.get(name)
    if found is None:
        raise RoleNotFound(kind, name)
    return found


def _subjects_that_are(who: Identity, binding: Object, namespace: str) -> Iterator[Object]:
    for subject in binding.get("subjects") or ():
        match subject.get("kind"):
            case "User":
                fits = subject["name"] == who.name
            case "Group":
                fits = subject["name"] in who.groups
            case "ServiceAccount":
                home = subject.get("namespace") or namespace
                fits = bool(home) and who.name == f"system:serviceaccount:{home}:{subject['name']}"
            case _:
                fits = False
        if fits:
            yield subject


def _described(kind: str, binding: Object, subject: Object, namespace: str) -> str:
    name = f"{_name(binding)}/{namespace}" if namespace else _name(binding)
    whom = subject["name"]
    if subject["kind"] == "ServiceAccount":
        whom = f"{whom}/{subject.get('namespace') or namespace}"
    role = binding["roleRef"]
    return f'{kind} "{name}" of {role["kind"]} "{role["name"]}" to {subject["kind"]} "{whom}"'


def _name(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


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
