"""CustomResourceDefinitions: defaults, everything that is asked of one before it is stored, its status and its end.

A definition that is deleted says that it is terminating, and waits until its objects are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, not_supported, required
from kube_embedded.base.resource import Column, Context, Resource
from kube_embedded.customresources.schema_check import check_schema
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


def _conversion_errors(conversion: Mapping[str, Any]) -> Iterator[FieldError]:
    """Objects are not converted here; what a definition asks for must still be one of the ways there are."""
    strategy = conversion.get("strategy")
    if strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook" and not (conversion.get("webhook") or {}).get("clientConfig"):
        yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


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
    return [*_name_errors(crd), *_spec_errors(crd["spec"]), *_stored_errors(crd)]


def validate_definition_update(crd: Object, old: Object) -> list[FieldError]:
    """Every error of a changed definition; what decides where objects are stored cannot change."""
    errors = [*_spec_errors(crd["spec"]), *_stored_errors(crd)]
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
    errors = [*_group_errors(spec), *_scope_errors(spec), *_names_errors(spec["names"])]
    for index, version in enumerate(versions):
        errors += _version_errors(version, f"spec.versions[{index}]")
    errors += _versions_errors(versions)
    errors += _conversion_errors(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        words = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, f"cannot set to true, {words}"))
    return errors


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


def _version_errors(version: Object, path: str) -> Iterator[FieldError]:
    name, warning = version.get("name", ""), version.get("deprecationWarning") or ""
    if complaints := name_validation.dns_1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(complaints))
    # It is sent as a header.
    if not warning.isprintable():
        yield invalid(f"{path}.deprecationWarning", warning, "must only contain printable UTF-8 characters")
    raw: Raw | None = (version.get("schema") or {}).get("openAPIV3Schema")
    if not raw:
        yield required(f"{path}.schema.openAPIV3Schema")
        return
    yield from check_schema(raw, f"{path}.schema.openAPIV3Schema")
    yield from _scale_errors(version.get("subresources") or {}, f"{path}.subresources")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    for index, field in enumerate(version.get("selectableFields") or ()):
        yield from _selectable_errors(field.get("jsonPath") or "", raw, f"{path}.selectableFields[{index}].jsonPath")


def _versions_errors(versions: list[Object]) -> Iterator[FieldError]:
    called = [version.get("name", "") for version in versions]
    if len(set(called)) != len(called):
        yield invalid("spec.versions", called, "must contain unique version names")
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield invalid("spec.versions", called, "must have exactly one version marked as storage version")


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


def _scale_errors(subresources: Object, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for key, under in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        if not (scale.get(key) or "").startswith(under):
            yield invalid(f"{path}.scale.{key}", scale.get(key) or "", f"should be a json path under {under[:-1]}")
    selector = scale.get("labelSelectorPath") or ""
    if selector and not selector.startswith((".spec.", ".status.")):
        words = "should be a json path under either .spec or .status"
        yield invalid(f"{path}.scale.labelSelectorPath", selector, words)


def _column_errors(column: Object, path: str) -> Iterator[FieldError]:
    kind, given = column.get("type") or "", column.get("jsonPath") or ""
    if not column.get("name"):
        yield required(f"{path}.name")
    if kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
    if not given.startswith("."):
        yield invalid(f"{path}.JSONPath", given, "must be a simple json path starting with .")


def _selectable_errors(given: str, raw: Raw, place: str) -> Iterator[FieldError]:
    try:
        _, found = resolve(given, raw, arrays=False)
    except BadFieldPath as error:
        yield invalid(place, given, f"is an invalid path: {error}")
        return
    if found.get("type") not in ("string", "boolean", "integer"):
        yield invalid(place, given, "must point to a field of type string, boolean or integer")


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
