"""Mutating and validating webhook configurations."""

from __future__ import annotations

from urllib.parse import urlsplit

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, invalid, required
from kube_embedded.builtins.common.field_checks import check_cel, check_port_number, check_selector, unsupported
from kube_embedded.builtins.common.metadata import SUBDOMAIN
from kube_embedded.builtins.common.printing import AGE, NAME, cell, table
from kube_embedded.builtins.common.rules import Rules

_API = "io.k8s.api.admissionregistration.v1."
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_CONDITION_VARIABLES = ("object", "oldObject", "request")
_CHOICES = (
    ("failurePolicy", ("Fail", "Ignore")),
    ("matchPolicy", ("Equivalent", "Exact")),
    ("reinvocationPolicy", ("IfNeeded", "Never")),
)


def _default(configuration: Object) -> None:
    mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if mutating:
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        if "service" in hook["clientConfig"]:
            hook["clientConfig"]["service"].setdefault("port", 443)


def _check(configuration: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        errors += _check_hook(hook, path)
        errors += _check_versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        name = hook.get("name", "")
        if name and name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return errors


def _check_hook(hook: Object, path: str) -> list[FieldError]:
    errors = _check_name(hook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += _check_rule(rule, f"{path}.rules[{index}]")
    for name, allowed in _CHOICES[:2]:
        if hook.get(name) not in allowed:
            errors.append(unsupported(f"{path}.{name}", hook.get(name), allowed))
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}"))
    elif effects not in _NO_SIDE_EFFECTS:
        errors.append(unsupported(f"{path}.sideEffects", effects, _NO_SIDE_EFFECTS))
    if not 1 <= hook["timeoutSeconds"] <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", hook["timeoutSeconds"], detail))
    for name in ("namespaceSelector", "objectSelector"):
        errors += check_selector(f"{path}.{name}", hook.get(name))
    policy = hook.get("reinvocationPolicy")
    if policy is not None and policy not in _CHOICES[2][1]:
        errors.append(unsupported(f"{path}.reinvocationPolicy", policy, _CHOICES[2][1]))
    errors += _check_client(hook["clientConfig"], f"{path}.clientConfig")
    return errors + _check_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")


def _check_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    complaints = SUBDOMAIN.of_name(name)
    if complaints:
        return [invalid(path, name, text) for text in complaints]
    if len(name.split(".")) < 3:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _check_rule(rule: Object, path: str) -> list[FieldError]:
    operations = rule.get("operations") or []
    errors = [] if operations else [required(f"{path}.operations")]
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        errors.append(invalid(f"{path}.operations", operations, detail))
    for index, one in enumerate(operations):
        if one not in _OPERATIONS:
            errors.append(unsupported(f"{path}.operations[{index}]", one, _OPERATIONS))
    for name, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        given = rule.get(name) or []
        if not given:
            errors.append(required(f"{path}.{name}"))
        if len(given) > 1 and "*" in given:
            errors.append(invalid(f"{path}.{name}", given, f"if '*' is present, must not specify other {words}"))
    errors += [required(f"{path}.apiVersions[{at}]") for at, one in enumerate(rule.get("apiVersions") or ()) if not one]
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope", "*")
    if scope not in ("*", "Cluster", "Namespaced"):
        errors.append(unsupported(f"{path}.scope", scope, ("*", "Cluster", "Namespaced")))
    return errors


def _check_resources(resources: list[str], path: str) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    errors += [required(f"{path}[{at}]") for at, one in enumerate(resources) if not one]
    plain = [one for one in resources if "/" not in one]
    if "*/*" in resources and len(resources) > 1:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    elif "*" in plain and len(plain) > 1:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def _check_client(client: Object, path: str) -> list[FieldError]:
    if ("url" in client) == ("service" in client):
        return [required(path, "exactly one of url or service is required")]
    if "url" in client:
        return _check_url(client["url"], f"{path}.url")
    service = client["service"]
    errors = [required(f"{path}.service.{name}") for name in ("name", "namespace") if not service.get(name)]
    errors += check_port_number(f"{path}.service.port", service["port"])
    target = service.get("path", "/")
    if target and not target.startswith("/"):
        errors.append(invalid(f"{path}.service.path", target, "must start with a '/'"))
    return errors


def _check_url(url: str, path: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        errors.append(invalid(path, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None:
        errors.append(invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _check_conditions(conditions: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(conditions):
        expression = one.get("expression", "").strip()
        if not expression:
            errors.append(required(f"{path}[{index}].expression"))
        else:
            errors += check_cel(f"{path}[{index}].expression", expression, _CONDITION_VARIABLES)
        name = one.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif name in seen:
            errors.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)
    return errors


def _check_versions(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    errors = [
        invalid(f"{path}[{at}]", one, "duplicate version") for at, one in enumerate(versions) if one in versions[:at]
    ]
    if not any(one in ("v1", "v1beta1") for one in versions):
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return errors


def _rules(kind: str) -> Rules:
    return Rules(
        component=_API + kind,
        table=table(NAME, cell("Webhooks", lambda obj: len(obj.get("webhooks") or ()), type="integer"), AGE),
        namespaced=False,
        defaults=_default,
        check=_check,
        bumps=lambda obj, old: bool(obj.get("webhooks") != old.get("webhooks")),
    )


MUTATING = _rules("MutatingWebhookConfiguration")
VALIDATING = _rules("ValidatingWebhookConfiguration")
