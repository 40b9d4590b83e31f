"""CustomResourceDefinitions: defaults, everything that is asked of one before it is stored, its status and its end.

The conversion that a definition asks for (none, or a webhook with its address) is checked here too. A definition that
is deleted says that it is terminating, and waits until its objects are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, duplicate, forbidden, invalid, not_supported, required
from kube_embedded.base.resource import Column, Context, Resource
from kube_embedded.customresources.schema_check import GoText, check_schema
from kube_embedded.schema.model import BadFieldPath, Raw, resolve
from kube_embedded.schema.shaping import copied
from kube_embedded.schema.validate import same


def established(crd: Mapping[str, Any], served: Iterable[Resource], now: str) -> Object:
    """The status of a definition among the resources that are served (its own ones may be among them).

    A condition keeps its time of transition while its status stays.
    """
    spec, status = crd["spec"], crd.get("status") or {}
    accepted, problem = _accepted(spec, status.get("acceptedNames") or {}, served)
    before = {one["type"]: one for one in status.get("conditions") or ()}
    conditions = [_names_condition(problem, before, now), _established_condition(problem, before, now)]
    known = {one["type"] for one in conditions}
    conditions += [one for kind, one in before.items() if kind not in known]
    return {"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored_versions(crd)}


def stored_versions(crd: Mapping[str, Any]) -> list[str]:
    """Every version that objects were ever stored in, the current one included."""
    found = list((crd.get("status") or {}).get("storedVersions") or ())
    current = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")][:1]
    return [*found, *(name for name in current if name not in found)]


Problem = tuple[str, str]


def _accepted(
    spec: Mapping[str, Any], accepted: Mapping[str, Any], served: Iterable[Resource]
) -> tuple[Object, Problem | None]:
    """The names that are free or already ours, and the last conflict."""
    names, group = spec["names"], spec["group"]
    others = [one for one in served if one.group == group and one.plural != names["plural"]]
    words = {name for one in others for name in (one.plural, one.singular, *one.short_names)}
    kinds = {name for one in others for name in (one.kind, one.list_kind)}
    result: Object = dict(accepted)
    problem: Problem | None = None
    for key, reason, used in (
        ("plural", "PluralConflict", words),
        ("singular", "SingularConflict", words),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        if names.get(key) != accepted.get(key) and names.get(key) in used:
            problem = (reason, f'"{names[key]}" is already in use')
        elif key in names:
            result[key] = names[key]
        if key == "singular" and (taken := _taken_short_names(names, accepted, words)):
            problem = ("ShortNamesConflict", taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]")
        elif key == "singular":
            _carry(names, result, "shortNames")
    _carry(names, result, "categories")
    return result, problem


def _taken_short_names(names: Mapping[str, Any], accepted: Mapping[str, Any], words: set[str]) -> list[str]:
    own = accepted.get("shortNames") or ()
    return [f'"{name}" is already in use' for name in names.get("shortNames") or () if name in words - set(own)]


def _carry(names: Mapping[str, Any], result: Object, key: str) -> None:
    result.pop(key, None)
    if names.get(key):
        result[key] = list(names[key])


def _names_condition(problem: Problem | None, before: Mapping[str, Object], now: str) -> Object:
    reason, message = problem or ("NoConflicts", "no conflicts found")
    return _condition("NamesAccepted", problem is None, reason, message, before, now)


def _established_condition(problem: Problem | None, before: Mapping[str, Object], now: str) -> Object:
    """Once established, a definition stays so, whatever happens to its names."""
    old = before.get("Established")
    if old is not None and old.get("status") == "True":
        return dict(old)
    if problem is not None:
        return _condition("Established", False, "NotAccepted", "not all names are accepted", before, now)
    words = "the initial names have been accepted"
    return _condition("Established", True, "InitialNamesAccepted", words, before, now)


def _condition(kind: str, holds: bool, reason: str, message: str, before: Mapping[str, Object], now: str) -> Object:
    status = "True" if holds else "False"
    old = before.get(kind)
    since = old["lastTransitionTime"] if old is not None and old.get("status") == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def terminate(crd: Object, now: str) -> list[str]:
    """Mark a definition that is being deleted; the finalizer that it must get, if it has it not."""
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status = crd.setdefault("status", {})
    status["conditions"] = [one for one in status.get("conditions") or () if one["type"] != "Terminating"] + [condition]
    return [] if CLEANUP in (crd["metadata"].get("finalizers") or ()) else [CLEANUP]


_KNOWN_REVIEWS = ("v1", "v1beta1")
_FORM = "; desired format: https://host[/path]"


def conversion_errors(conversion: dict[str, Any], path: str) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    config, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _config_errors(config, f"{path}.webhookClientConfig")
        yield from _review_errors(reviews, f"{path}.conversionReviewVersions")
        return
    words = "should not be set when strategy is not set to Webhook"
    if config is not None:
        yield forbidden(f"{path}.webhookClientConfig", words)
    if reviews:
        yield forbidden(f"{path}.conversionReviewVersions", words)


def _config_errors(config: dict[str, Any] | None, path: str) -> Iterator[FieldError]:
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_errors(url, f"{path}.url")
    else:
        assert service is not None
        yield from _service_errors(service, f"{path}.service")


def _url_errors(url: str, path: str) -> Iterator[FieldError]:
    parts = urlsplit(url)
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.netloc:
        yield invalid(path, parts.netloc, f"host must be specified{_FORM}")
    if parts.username is not None:
        yield invalid(path, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service_errors(service: dict[str, Any], path: str) -> Iterator[FieldError]:
    for key in ("name", "namespace"):
        if not service.get(key):
            yield required(f"{path}.{key}")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")


def _review_errors(reviews: list[str], path: str) -> Iterator[FieldError]:
    if not reviews:
        yield required(path)
        return
    for index, review in enumerate(reviews):
        if review in reviews[:index]:
            yield invalid(f"{path}[{index}]", review, "duplicate version")
            continue
        for complaint in name_validation.dns_1035_label(review):
            yield invalid(f"{path}[{index}]", review, complaint)
    if not set(reviews) & set(_KNOWN_REVIEWS):
        yield invalid(path, reviews, f"must include at least one of {', '.join(_KNOWN_REVIEWS)}")


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE = 8
_APPROVAL = "api-approved.kubernetes.io"
_HOISTED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def default_definition(crd: Object) -> None:
    """The names that follow from the kind, and no conversion unless one is asked for."""
    spec = crd.setdefault("spec", {})
    called = spec.setdefault("names", {})
    kind = called.get("kind") or ""
    if kind and not called.get("singular"):
        called["singular"] = kind.lower()
    if kind and not called.get("listKind"):
        called["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def validate_definition(crd: Object) -> list[FieldError]:
    """Every error of a new definition."""
    return [*_name_errors(crd), *_spec_errors(crd["spec"]), *_stored_errors(crd), *_approval_errors(crd)]


def validate_definition_update(crd: Object, old: Object) -> list[FieldError]:
    """Every error of a changed definition; what decides where objects are stored cannot change."""
    errors = [*_spec_errors(crd["spec"]), *_stored_errors(crd)]
    if crd["metadata"].get("annotations") != old["metadata"].get("annotations"):
        errors += _approval_errors(crd)
    fixed = [("group",), ("names", "plural")]
    if is_established(old):
        fixed = [("scope",), ("names", "kind"), *fixed]
    for keys in fixed:
        before, after = _at(old["spec"], keys), _at(crd["spec"], keys)
        if before != after:
            errors.append(invalid(f"spec.{'.'.join(keys)}", after, "field is immutable"))
    return errors


def is_established(crd: Mapping[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = value.get(key, "")
    return value


def _name_errors(crd: Object) -> Iterator[FieldError]:
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _spec_errors(spec: Object) -> list[FieldError]:
    versions = spec.get("versions") or []
    top, each = _hoisted(versions)
    errors = [*_group_errors(spec), *_scope_errors(spec)]
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        errors += _version_errors(version, each[index], f"spec.versions[{index}]")
    errors += _versions_errors(versions, each)
    if versions and (complaints := name_validation.dns_1035_label(versions[0].get("name", ""))):
        errors.append(invalid("spec.version", versions[0].get("name", ""), ",".join(complaints)))
    errors += _names_errors(spec["names"])
    status = any((version.get("subresources") or {}).get("status") is not None for version in versions)
    errors += _part_errors(top, "spec", status, "spec.validation")
    errors += conversion_errors(spec.get("conversion") or {}, "spec.conversion")
    if spec.get("preserveUnknownFields"):
        words = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, f"cannot set to true, {words}"))
    return errors


def _hoisted(versions: list[Object]) -> tuple[Object, list[Object]]:
    """What all versions have in common is checked once, and named as a part of the spec."""
    top: Object = {}
    each = [{key: version[key] for key in _HOISTED if version.get(key)} for version in versions]
    for key in _HOISTED:
        values = [one.get(key) for one in each]
        if values and values[0] is not None and all(same(value, values[0]) for value in values):
            top[key] = values[0]
            for one in each:
                del one[key]
    return top, each


def _group_errors(spec: Object) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif complaints := name_validation.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(complaints))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _scope_errors(spec: Object) -> Iterator[FieldError]:
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))


def _version_errors(version: Object, own: Object, path: str) -> Iterator[FieldError]:
    name, warning = version.get("name", ""), version.get("deprecationWarning")
    if complaints := name_validation.dns_1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(complaints))
    for complaint in _warning_complaints(bool(version.get("deprecated")), warning):
        yield invalid(f"{path}.deprecationWarning", warning, complaint)
    status = (version.get("subresources") or {}).get("status") is not None
    yield from _part_errors(own, path, status, f"{path}.schema", version.get("schema"))


def _warning_complaints(deprecated: bool, warning: str | None) -> Iterator[str]:
    if warning is None:
        return
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    for index, char in enumerate(warning):
        if not char.isprintable():
            words = "must only contain printable UTF-8 characters; non-printable character found at index"
            yield f"{words} {index}"
            return


def _versions_errors(versions: list[Object], each: list[Object]) -> Iterator[FieldError]:
    called = [version.get("name", "") for version in versions]
    if len(set(called)) != len(called):
        yield invalid("spec.versions", _shown(versions, each), "must contain unique version names")
    if sum(1 for version in versions if version.get("storage")) != 1:
        words = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", _shown(versions, each), words)


def _shown(versions: list[Object], each: list[Object]) -> GoText:
    keys = ("name", "served", "storage", "deprecated", "deprecationWarning")
    defaults: Object = {"served": False, "storage": False, "deprecated": False, "name": ""}
    return GoText(
        [
            {key[0].upper() + key[1:]: version.get(key, defaults.get(key)) for key in keys}
            | {key[0].upper() + key[1:]: own.get(key) for key in _HOISTED}
            for version, own in zip(versions, each, strict=True)
        ]
    )


def _names_errors(called: Object) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        if not called.get(key):
            yield required(f"spec.names.{key}")
    for key in ("plural", "singular"):
        if (value := called.get(key)) and (complaints := name_validation.dns_1035_label(value)):
            yield invalid(f"spec.names.{key}", value, ",".join(complaints))
    for key in ("kind", "listKind"):
        if (value := called.get(key)) and (complaints := name_validation.dns_1035_label(value.lower())):
            words = "may have mixed case, but should otherwise match: "
            yield invalid(f"spec.names.{key}", value, words + ",".join(complaints))
    for key in ("shortNames", "categories"):
        for index, value in enumerate(called.get(key) or ()):
            if complaints := name_validation.dns_1035_label(value):
                yield invalid(f"spec.names.{key}[{index}]", value, ",".join(complaints))
    if called.get("kind") and called.get("kind") == called.get("listKind"):
        yield invalid("spec.names.listKind", called["listKind"], "kind and listKind may not be the same")


def _part_errors(
    part: Object, path: str, status: bool, schema_path: str, schema: Mapping[str, Any] | None = None
) -> Iterator[FieldError]:
    """What may stand in a version or in the spec: schema, subresources, columns, selectable fields."""
    own = part.get("schema") or {}
    raw: Raw | None = own.get("openAPIV3Schema")
    if raw is not None:
        yield from check_schema(raw, f"{schema_path}.openAPIV3Schema", status)
    yield from _scale_errors(part.get("subresources") or {}, f"{path}.subresources")
    for index, column in enumerate(part.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    if part.get("selectableFields"):
        known = (own or schema or {}).get("openAPIV3Schema") or {}
        yield from _selectable_errors(part["selectableFields"], known, f"{path}.selectableFields")


def _scale_errors(subresources: Object, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for key, under in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        place, given = f"{path}.scale.{key}", scale.get(key) or ""
        if not given:
            yield required(place)
        elif not given.startswith("."):
            yield invalid(place, given, "must be a simple json path starting with .")
        elif not given.startswith(under):
            yield invalid(place, given, f"should be a json path under {under[:-1]}")
    selector = scale.get("labelSelectorPath") or ""
    if selector and not selector.startswith("."):
        yield invalid(f"{path}.scale.labelSelectorPath", selector, "must be a simple json path starting with .")
    elif selector and not selector.startswith((".spec.", ".status.")):
        words = "should be a json path under either .spec or .status"
        yield invalid(f"{path}.scale.labelSelectorPath", selector, words)


def _column_errors(column: Object, path: str) -> Iterator[FieldError]:
    kind, form, given = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    if not column.get("name"):
        yield required(f"{path}.name")
    words = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", words)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, words)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not given:
        yield required(f"{path}.JSONPath")
    elif not given.startswith("."):
        yield invalid(f"{path}.JSONPath", given, "must be a simple json path starting with .")


def _selectable_errors(fields: list[Object], raw: Raw, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place, given = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not given:
            yield required(place)
            continue
        try:
            shown, found = resolve(given, raw, arrays=False)
        except BadFieldPath as error:
            yield invalid(place, given, f"is an invalid path: {error}")
            continue
        if shown.split(".")[0] == "metadata":
            yield invalid(place, given, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            words = "Enum string fields and strings with formats are allowed."
            yield invalid(place, given, f"must point to a field of type string, boolean or integer. {words}")
        if shown in seen:
            yield duplicate(place, given)
        seen.add(shown)
    if len(seen) > _MAX_SELECTABLE:
        yield FieldError(path, ErrorType.TOO_MANY, len(seen), f"must have at most {_MAX_SELECTABLE} items")


def _stored_errors(crd: Object) -> Iterator[FieldError]:
    stored = (crd.get("status") or {}).get("storedVersions")
    versions = crd["spec"].get("versions") or []
    if not stored:
        yield invalid("status.storedVersions", None, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield invalid("status.storedVersions", stored, f"must have the storage version {version['name']}")
    known = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in known:
            words = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", name, words)


def _approval_errors(crd: Object) -> Iterator[FieldError]:
    """Groups of Kubernetes itself are for APIs that were approved, or that say that they were not."""
    group = crd["spec"].get("group") or ""
    if not group.endswith((".k8s.io", ".kubernetes.io")) and group not in ("k8s.io", "kubernetes.io"):
        return
    given = (crd["metadata"].get("annotations") or {}).get(_APPROVAL)
    path, see = f"metadata.annotations[{_APPROVAL}]", "see https://github.com/kubernetes/enhancements/pull/1111"
    words = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not given:
        yield required(path, f"{words}, {see}")
    elif not given.startswith(("unapproved", "https://", "http://")):
        either = 'with either a URL or a reason starting with "unapproved"'
        yield invalid(path, given, f"{words} {either}, {see}")


class DefinitionStrategy:
    """Validates definitions; accepting their names and serving what they define is the work of the server."""

    columns: Sequence[Column] = (Column("Name", "string", "name"), Column("Created At", "date"))

    def default(self, obj: Object) -> None:
        default_definition(obj)

    def prepare_create(self, obj: Object, context: Context) -> None:
        """Nothing is accepted yet; what will be stored first is known."""
        obj.pop("status", None)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored_versions({"spec": {"versions": _versions(obj)}}),
        }

    def prepare_update(self, obj: Object, old: Object, context: Context) -> None:
        obj["status"] = copied(old.get("status") or {})
        obj["status"]["storedVersions"] = stored_versions({"spec": {"versions": _versions(obj)}, **_status(obj)})

    def prepare_status_update(self, obj: Object, old: Object, context: Context) -> None:
        status = obj.get("status")
        managed = (obj.get("metadata") or {}).get("managedFields")
        obj.clear()
        obj.update({key: copied(value) for key, value in old.items() if key != "status"}, status=status or {})
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def generation_changes(self, obj: Object, old: Object) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def validate_create(self, obj: Object) -> list[FieldError]:
        return validate_definition(obj)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return validate_definition_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        return []

    def row(self, obj: Object, context: Context) -> list[Any]:
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]

    def selectable(self, obj: Object) -> dict[str, str]:
        return {}


def _versions(obj: Object) -> list[Object]:
    return list((obj.get("spec") or {}).get("versions") or ())


def _status(obj: Object) -> Object:
    return {"status": obj["status"]}
