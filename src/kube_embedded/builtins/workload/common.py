"""What ReplicaSets, Deployments, StatefulSets and DaemonSets have in common."""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.builtins.common.field_checks import (
    check_not_negative,
    check_selector,
    immutable,
    selector_matches,
    unsupported,
)
from kube_embedded.builtins.common.go_internal_format import GoInternal
from kube_embedded.builtins.pod.spec import check_template, check_template_metadata


def check_workload_selector(spec: Object, kind: str) -> list[FieldError]:
    """A selector that is there, is valid and selects something."""
    selector = spec.get("selector")
    if selector is None:
        return [] if kind == "daemonset" else [required("spec.selector")]
    errors = check_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def check_workload_template(spec: Object, kind: str) -> list[FieldError]:
    """A template whose labels the selector finds, and whose pods run for ever."""
    template, selector = spec["template"], spec.get("selector")
    labels = template["metadata"].get("labels") or {}
    errors: list[FieldError] = []
    if selector is not None and check_selector("", selector):
        if kind != "daemonset":
            detail = "" if kind == "statefulset" else "invalid label selector"
            errors.append(invalid("spec.selector", selector, detail))
            return errors
    elif selector is None or (selector and not selector_matches(selector, labels)):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, detail))
    errors += check_template(template)
    if kind == "statefulset":  # which looks at labels and annotations twice
        errors += check_template_metadata(template)
    policy = template["spec"].get("restartPolicy", "")
    if policy != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return errors


def check_no_deadline(spec: Object, kind: str) -> list[FieldError]:
    if "activeDeadlineSeconds" not in spec["template"]["spec"]:
        return []
    path = "spec.template.spec.activeDeadlineSeconds"
    return [forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported")]


def check_counts(status: Object, names: tuple[str, ...]) -> list[FieldError]:
    """Counts of a status: none negative."""
    return [error for name in names for error in check_not_negative(f"status.{name}", status.get(name))]


def check_within_replicas(status: Object, names: tuple[str, ...]) -> list[FieldError]:
    """Counts of a status that are parts of `replicas`."""
    total = status.get("replicas", 0)
    return [
        invalid(f"status.{name}", status[name], "cannot be greater than status.replicas")
        for name in names
        if status.get(name, 0) > total
    ]


def internal_strategy(strategy: Object) -> GoInternal:
    """An update strategy, for messages."""
    return GoInternal({"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")})


def check_selector_kept(obj: Object, old: Object) -> list[FieldError]:
    """The selector is fixed for life."""
    return immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))
