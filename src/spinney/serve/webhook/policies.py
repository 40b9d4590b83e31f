"""ValidatingAdmissionPolicies: what only roles of ours write is kept by the API server itself.

It is, whether or not a webhook is there to be asked. They say the same as `core.admission.reserved_rules`, from the
same table, and look at nothing but the request. In their CEL absent fields are spelled out, for an expression that
fails is a refusal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from spinney.api.labels import SPINNEY_PREFIX
from spinney.api.reserved_keys import FREE_KEYS, FREE_PREFIXES, RESERVED, ReservedKeys, status_writers
from spinney.core.admission.reserved_fields import CARRIERS, MARKS, MASTERS, OPERATIONS
from spinney.core.admission.settings import AdmissionSettings


def words(found: Iterable[str]) -> str:
    """A list of strings, sorted."""
    return f"[{', '.join(json.dumps(one) for one in sorted(found))}]"


def user_in(names: Iterable[str]) -> str:
    """That whoever asks is one of these."""
    return f"request.userInfo.username in {words(names)}"


def none_of(*conditions: str) -> str:
    """That not all of these hold."""
    return f"!({' && '.join(conditions)})"


def entries(of: str, name: str) -> str:
    """The labels or annotations of an object that may be null; an empty map where there are none."""
    return f"({of} != null && has({of}.metadata) && has({of}.metadata.{name}) ? {of}.metadata.{name} : {{}})"


def same(parent: str, name: str) -> str:
    """That a field is what it was, or is still not there."""
    new, old = f"object.{parent}", f"oldObject.{parent}"
    return f"(has({new}.{name}) ? has({old}.{name}) && {new}.{name} == {old}.{name} : !has({old}.{name}))"


def same_entries(name: str, beside: Iterable[str]) -> str:
    """That labels or annotations are what they were, but for some keys."""
    new, old, some = entries("object", name), entries("oldObject", name), words(beside)
    kept = f"{new}.all(key, key in {some} || (key in {old} && {old}[key] == {new}[key]))"
    return f"{kept} && {old}.all(key, key in {some} || key in {new})"


def quoted(word: str) -> str:
    return json.dumps(word)


def lists(found: Mapping[str, Iterable[str]]) -> str:
    """A map from strings to lists of strings, sorted."""
    pairs = (f"{quoted(key)}: {words(value)}" for key, value in sorted(found.items()))
    return f"{{{', '.join(pairs)}}}"


def is_trusted(group: str, users: Iterable[str]) -> str:
    """That whoever asks is in a group, or one of some users."""
    return f"((has(request.userInfo.groups) && {quoted(group)} in request.userInfo.groups) || {user_in(users)})"


def changed(new: str, old: str, prefix: str, free: Iterable[str], free_prefixes: Iterable[str]) -> str:
    """The keys under a prefix, but for free ones, that two maps do not have in common."""
    exempt = "".join(f" && !key.startsWith({quoted(one)})" for one in sorted(free_prefixes))
    ours = f"key.startsWith({quoted(prefix)}) && !(key in {words(free)}){exempt}"
    set_or_changed = f"{new}.filter(key, {ours} && !(key in {old} && {old}[key] == {new}[key]))"
    return f"({set_or_changed} + {old}.filter(key, {ours} && !(key in {new})))"


_REGISTRATION = "admissionregistration.k8s.io/v1"
_STATUS = "status"

Object = dict[str, Any]


def admission_policies(settings: AdmissionSettings) -> list[Object]:
    """A policy for each kind with reserved keys, one for the status of all kinds of ours, and their bindings."""
    policies = [_keys_policy(row, settings) for row in RESERVED]
    policies.append(_status_policy(settings))
    return [obj for policy in policies for obj in (policy, _binding(policy["metadata"]["name"]))]


def keys_rules(row: ReservedKeys) -> list[Object]:
    """Where reserved keys of a kind can be written."""
    return [_rule(row.group, list(CARRIERS.get(row.resource, (row.resource,))))]


def status_rules() -> list[Object]:
    """The status of our kinds."""
    kinds = status_writers()
    groups = sorted({group for group, _ in kinds})
    return [_rule(group, [f"{plural}/status" for of, plural in sorted(kinds) if of == group]) for group in groups]


def is_refused(row: ReservedKeys, settings: AdmissionSettings) -> str:
    """That some reserved key is changed by somebody who may not, as one expression."""
    writers, others = lists(_writers(row, settings)), words(settings.users_of(row.others))
    found = [_refused(entries("object", mark), entries("oldObject", mark), writers, others) for mark in MARKS]
    return f"!{_trusted(settings)} && ({' + '.join(found)}).size() > 0"


def is_status_refused(settings: AdmissionSettings) -> str:
    """The same for a status."""
    return f"!{_trusted(settings)} && !(request.userInfo.username in {_status_users(settings)})"


def _keys_policy(row: ReservedKeys, settings: AdmissionSettings) -> Object:
    writers, others = "variables.writers", "variables.others"
    variables = [("writers", lists(_writers(row, settings))), ("others", words(settings.users_of(row.others)))]
    for mark in MARKS:
        new, old = f"variables.{mark}", f"variables.old_{mark}"
        variables += [(mark, entries("object", mark)), (f"old_{mark}", entries("oldObject", mark))]
        variables += [(f"refused_{mark}", _refused(new, old, writers, others))]
    validations = [
        {
            "expression": f"variables.refused_{mark}.size() == 0",
            "messageExpression": _message(mark),
            "message": f"metadata.{mark} under {SPINNEY_PREFIX} are written by roles of Spinney only",
            "reason": "Forbidden",
        }
        for mark in MARKS
    ]
    return _policy(f"{row.resource}.spinney.dev", keys_rules(row), settings, variables, validations)


def _status_policy(settings: AdmissionSettings) -> Object:
    refusal = {
        "expression": f"request.userInfo.username in {_status_users(settings)}",
        "messageExpression": (
            '"status: is written by roles of Spinney only; " + request.userInfo.username + " may not write it"'
        ),
        "message": "status: is written by roles of Spinney only",
        "reason": "Forbidden",
    }
    return _policy(f"{_STATUS}.spinney.dev", status_rules(), settings, [], [refusal])


def _policy(
    name: str,
    rules: list[Object],
    settings: AdmissionSettings,
    variables: Iterable[tuple[str, str]],
    validations: list[Object],
) -> Object:
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules, "matchPolicy": "Equivalent"},
        "matchConditions": [{"name": "not-trusted", "expression": f"!{_trusted(settings)}"}],
        "variables": [{"name": name, "expression": expression} for name, expression in variables],
        "validations": validations,
    }
    if not spec["variables"]:
        del spec["variables"]
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "spinney"}},
        "spec": spec,
    }


def _binding(policy: str) -> Object:
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy, "labels": {"app.kubernetes.io/part-of": "spinney"}},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    }


def _rule(group: str, resources: list[str]) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
        "operations": list(OPERATIONS),
        "scope": "*",
    }


def _writers(row: ReservedKeys, settings: AdmissionSettings) -> Mapping[str, frozenset[str]]:
    """Only where they are others than for the rest."""
    return {key: settings.users_of(roles) for key, roles in row.writers.items() if roles != row.others}


def _refused(new: str, old: str, writers: str, others: str) -> str:
    found = changed(new, old, SPINNEY_PREFIX, FREE_KEYS, FREE_PREFIXES)
    allowed = f"request.userInfo.username in (key in {writers} ? {writers}[key] : {others})"
    return f"{found}.filter(key, !({allowed}))"


def _message(mark: str) -> str:
    keys = f'variables.refused_{mark}.map(key, "metadata.{mark}[" + key + "]").join(", ")'
    end = '": is written by roles of Spinney only; " + request.userInfo.username + " may not set, change or remove it"'
    return f"{keys} + {end}"


def _trusted(settings: AdmissionSettings) -> str:
    return is_trusted(MASTERS, settings.exempt_users)


def _status_users(settings: AdmissionSettings) -> str:
    known = {f"{group}/{plural}": settings.users_of(roles) for (group, plural), roles in status_writers().items()}
    return f'{lists(known)}[request.resource.group + "/" + request.resource.resource]'
