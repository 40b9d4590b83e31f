"""Role-based access: who may do what, by the Roles and bindings that are stored.

Compiled per identity on first use and kept until `changed`; system:masters is never looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kube_apimachinery.selectors import from_object
from kube_embedded.access.attributes import Attributes, refused
from kube_embedded.access.rules import Rule, read_rules
from kube_embedded.base.identity import Identity

GROUP = "rbac.authorization.k8s.io"
Object = dict[str, Any]
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
    told = list(dict.fromkeys(missing))
    if not told:
        return ""
    return f"RBAC: {told[0] if len(told) == 1 else '[' + ', '.join(told) + ']'}"


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
