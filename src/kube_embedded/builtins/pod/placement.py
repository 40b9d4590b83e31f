"""Checks of what steers placement: node selectors, affinity, tolerations, spread, scheduling gates."""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from kube_embedded.builtins.common.field_checks import check_enum, check_key, check_selector, unsupported
from kube_embedded.builtins.common.metadata import LABEL, value_complaints

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_tolerations(path: str, tolerations: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _check_toleration(f"{path}[{index}]", toleration)
    return errors


def _check_toleration(path: str, toleration: Object) -> list[FieldError]:
    key, operator, effect = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("effect", "")
    value = toleration.get("value", "")
    errors = check_key(f"{path}.key", key) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, detail))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, detail))
    match operator:
        case "Equal" | "":
            if complaints := value_complaints(value):
                errors.append(invalid(f"{path}.operator", value, ";".join(complaints)))
        case "Exists":
            if value:
                errors.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
        case "Lt" | "Gt":
            errors.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt")))
        case _:
            errors.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        errors.append(unsupported(f"{path}.effect", effect, _EFFECTS))
    return errors


def check_taint_effect(path: str, effect: str) -> list[FieldError]:
    return check_enum(path, effect, _EFFECTS)


def check_affinity(path: str, affinity: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if "nodeAffinity" in affinity:
        errors += _check_node_affinity(f"{path}.nodeAffinity", affinity["nodeAffinity"])
    for name in ("podAffinity", "podAntiAffinity"):
        if name in affinity:
            errors += _check_pod_affinity(f"{path}.{name}", affinity[name])
    return errors


def _check_node_affinity(path: str, affinity: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if _REQUIRED in affinity:
        errors += check_node_selector(f"{path}.{_REQUIRED}", affinity[_REQUIRED])
    for index, term in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{index}]"
        errors += _check_weight(where, term)
        errors += _check_node_term(f"{where}.preference", term["preference"], values_free=True)
    return errors


def _check_weight(path: str, term: Object) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def check_node_selector(path: str, selector: Object) -> list[FieldError]:
    """A list of terms of which one must match."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += _check_node_term(f"{path}.nodeSelectorTerms[{index}]", term)
    return errors


def _check_node_term(path: str, term: Object, values_free: bool = False) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, one in enumerate(term.get("matchExpressions") or ()):
        errors += _check_node_requirement(f"{path}.matchExpressions[{index}]", one, values_free)
    for index, one in enumerate(term.get("matchFields") or ()):
        errors += _check_field_requirement(f"{path}.matchFields[{index}]", one)
    return errors


def _check_node_requirement(path: str, one: Object, values_free: bool) -> list[FieldError]:
    values = one.get("values") or []
    errors: list[FieldError] = []
    match one.get("operator"):
        case "In" | "NotIn":
            if not values:
                errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{path}.values", detail))
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                errors.append(required(f"{path}.values", detail))
        case operator:
            errors.append(invalid(f"{path}.operator", operator or "", "not a valid selector operator"))
    errors += check_key(f"{path}.key", one.get("key", ""))
    if not values_free:
        for index, value in enumerate(values):
            errors += [invalid(f"{path}.values[{index}]", value, text) for text in value_complaints(value)]
    return errors


def _check_field_requirement(path: str, one: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    values = one.get("values") or []
    if one.get("operator") in ("In", "NotIn"):
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", one.get("operator", ""), "not a valid selector operator"))
    if one.get("key") != "metadata.name":
        errors.append(invalid(f"{path}.key", one.get("key", ""), "not a valid field selector key"))
    return errors


def _check_pod_affinity(path: str, affinity: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        errors += _check_pod_term(f"{path}.{_REQUIRED}[{index}]", term)
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{index}]"
        errors += _check_weight(where, weighted)
        errors += _check_pod_term(f"{where}.podAffinityTerm", weighted["podAffinityTerm"])
    return errors


def _check_pod_term(path: str, term: Object) -> list[FieldError]:
    errors = check_selector(f"{path}.labelSelector", term.get("labelSelector"))
    errors += check_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        errors += [invalid(f"{path}.namespace", name, text) for text in LABEL.of_name(name)]
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + check_key(f"{path}.topologyKey", key)


def check_spread(path: str, constraints: list[Object]) -> list[FieldError]:
    """Topology spread constraints; the pair of key and reaction must be unique."""
    errors: list[FieldError] = []
    for index, one in enumerate(constraints):
        where = f"{path}[{index}]"
        if one.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{where}.maxSkew", one.get("maxSkew", 0), "must be greater than zero"))
        if not one.get("topologyKey"):
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        action = one.get("whenUnsatisfiable", "")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(unsupported(f"{where}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        pair = (one.get("topologyKey"), action)
        if any(
            (other.get("topologyKey"), other.get("whenUnsatisfiable", "")) == pair for other in constraints[index + 1 :]
        ):
            shown = "{" + f"{pair[0]}, {pair[1]}" + "}"
            errors.append(duplicate(where + ".{topologyKey, whenUnsatisfiable}", shown))
        errors += _check_min_domains(where, one, action)
        errors += check_selector(f"{where}.labelSelector", one.get("labelSelector"))
    return errors


def _check_min_domains(path: str, one: Object, action: str) -> list[FieldError]:
    domains = one.get("minDomains")
    if domains is None:
        return []
    errors = [] if domains > 0 else [invalid(f"{path}.minDomains", domains, "must be greater than zero")]
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(f"{path}.minDomains", domains, detail))
    return errors


def check_gates(path: str, gates: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += check_key(f"{path}[{index}]", name)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors
