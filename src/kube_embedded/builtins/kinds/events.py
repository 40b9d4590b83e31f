"""Events: one store, two faces (core/v1 and events.k8s.io/v1), and how the one becomes the other.

Objects are kept in the core form; the newer group is a view on them.
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_key, check_subdomain
from kube_embedded.builtins.common.metadata import Naming
from kube_embedded.builtins.common.printing import UNKNOWN, Table, since
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.builtins.decode import conform

CORE = "io.k8s.api.core.v1.Event"
NEW = "io.k8s.api.events.v1.Event"
_ANY_NAME = Naming(lambda name: (), lambda prefix: ())
_LIMITS = (("reportingInstance", 128), ("action", 128), ("reason", 128))
_NOTE_LIMIT = 1024
_SAME_NAMESPACE = "does not match event.namespace"
_TO_CORE = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: new for new, core in _TO_CORE.items()}


def convert(event: Object, version: str) -> Object:
    """The event in the group and version that is asked for."""
    return to_core(event) if version == "v1" else from_core(event)


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 event as core/v1 keeps it."""
    core = {_TO_CORE.get(key, key): value for key, value in event.items()}
    core["apiVersion"] = "v1"
    conform(core, CORE)
    return core


def from_core(event: Object) -> Object:
    """A core/v1 event as events.k8s.io/v1 shows it."""
    new = {_FROM_CORE.get(key, key): value for key, value in event.items()}
    new["apiVersion"] = "events.k8s.io/v1"
    conform(new, NEW)
    return new


def _check_core(event: Object) -> list[FieldError]:
    namespace = event["metadata"].get("namespace", "")
    involved = event["involvedObject"].get("namespace", "")
    errors: list[FieldError] = []
    path = "involvedObject.namespace"
    if not event.get("eventTime"):
        expected = ("", "default") if not involved else (involved,)
        if namespace not in expected:
            errors.append(invalid(path, involved, _SAME_NAMESPACE))
    else:
        if not involved and namespace not in ("default", "kube-system"):
            errors.append(invalid(path, involved, _SAME_NAMESPACE))
        errors += _check_report(event)
    return errors + check_subdomain("namespace", namespace)


def _check_report(event: Object) -> list[FieldError]:
    """What events of the newer style must say about their reporter."""
    errors: list[FieldError] = []
    reporter = event.get("reportingComponent", "")
    if not reporter:
        errors.append(required("reportingComponent"))
    errors += check_key("reportingComponent", reporter)
    for name, limit in _LIMITS:
        value = event.get(name, "")
        if not value:
            errors.append(required(name))
        elif len(value) > limit:
            errors.append(invalid(name, "", f"can have at most {limit} characters"))
    if len(event.get("message", "")) > _NOTE_LIMIT:
        errors.append(invalid("message", "", f"can have at most {_NOTE_LIMIT} characters"))
    return errors


def _check_new(event: Object) -> list[FieldError]:
    core = to_core(event)
    errors = [_renamed(error) for error in _check_core(core)]
    if not core.get("eventTime"):
        errors.append(required("eventTime"))
    kind = core.get("type", "")
    return errors if kind in ("Normal", "Warning") else [*errors, invalid("type", "", f"has invalid value: {kind}")]


def _renamed(error: FieldError) -> FieldError:
    if error.path != "reportingComponent":
        return error
    return FieldError("reportingController", error.type, error.value, error.detail)


def _fields(event: Object) -> dict[str, str]:
    involved = event["involvedObject"]
    names = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    reporter = event.get("reportingComponent", "")
    return {
        **{f"involvedObject.{name}": involved.get(name, "") for name in names},
        "reason": event.get("reason", ""),
        "reportingComponent": reporter,
        "source": (event.get("source") or {}).get("component") or reporter,
        "type": event.get("type", ""),
    }


def _row(event: Object, context: Context) -> list[Any]:
    first = since(event.get("firstTimestamp") or event.get("eventTime"), context)
    last = since(event["lastTimestamp"], context) if event.get("lastTimestamp") else first
    series = event.get("series")
    count = event.get("count") or 1
    if series:
        last, count = since(series.get("lastObservedTime"), context), series.get("count", 0)
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        _target(event["involvedObject"]),
        event["involvedObject"].get("fieldPath", ""),
        _source(event),
        event.get("message", "").strip(),
        first or UNKNOWN,
        count,
        event["metadata"].get("name", ""),
    ]


def _target(involved: Object) -> str:
    kind = involved.get("kind", "").lower()
    return f"{kind}/{involved['name']}" if involved.get("name") else kind


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


_COLUMNS = (
    Column("Last Seen"),
    Column("Type"),
    Column("Reason"),
    Column("Object"),
    Column("Subobject", priority=1),
    Column("Source", priority=1),
    Column("Message"),
    Column("First Seen", priority=1),
    Column("Count", priority=1),
    Column("Name", format="name", priority=1),
)

CORE_EVENTS = Rules(component=CORE, table=Table(_COLUMNS, _row), naming=_ANY_NAME, check=_check_core, fields=_fields)
NEW_EVENTS = Rules(
    component=NEW,
    table=Table(_COLUMNS, lambda event, context: _row(to_core(event), context)),
    check_create=_check_new,
    fields=lambda event: _fields(to_core(event)),
)
