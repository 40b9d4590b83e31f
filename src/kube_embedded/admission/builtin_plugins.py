"""The admission rules that every kube-apiserver has and users notice, as one plug-in.

On: NamespaceLifecycle, Priority, DefaultTolerationSeconds, DefaultStorageClass, LimitRanger, RuntimeClass. Off, because
nothing here would keep what they promise: ServiceAccount, TaintNodesByCondition, StorageObjectInUseProtection,
ResourceQuota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.admission import chain
from kube_embedded.admission.limit_ranger import LimitRanger
from kube_embedded.base import errors

# DefaultTolerationSeconds and DefaultStorageClass: what is set where the user left it open.

_WAIT_S = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def with_tolerations(pod: Object) -> Object | None:
    """Every pod stays five minutes on a node that is not ready or not reachable, unless it says how long itself."""
    spec = pod.get("spec") or {}
    own: list[dict[str, Any]] = spec.get("tolerations") or []
    missing = [_toleration(taint) for taint in _TAINTS if not any(_covers(one, taint) for one in own)]
    return {**pod, "spec": {**spec, "tolerations": [*own, *missing]}} if missing else None


def _covers(toleration: dict[str, Any], taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _toleration(taint: str) -> dict[str, Any]:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _WAIT_S}


class DefaultStorageClass:
    """Knows the default class until `forget` is called, which every change of a storage class must do."""

    def __init__(self, classes: Callable[[], Iterable[Object]]) -> None:
        self._classes = classes
        self._known: str | None = None
        self._fresh = False

    def forget(self) -> None:
        self._fresh = False

    def with_class(self, claim: Object) -> Object | None:
        spec = claim.get("spec") or {}
        annotations = (claim.get("metadata") or {}).get("annotations") or {}
        if spec.get("storageClassName") is not None or "volume.beta.kubernetes.io/storage-class" in annotations:
            return None
        name = self._default()
        return {**claim, "spec": {**spec, "storageClassName": name}} if name is not None else None

    def _default(self) -> str | None:
        """Of several, the newest, and of equally new ones the first by name."""
        if not self._fresh:
            marked = sorted((one["metadata"] for one in self._classes() if _is_default(one)), key=lambda m: m["name"])
            marked.sort(key=lambda metadata: str(metadata.get("creationTimestamp", "")), reverse=True)
            self._known = marked[0]["name"] if marked else None
            self._fresh = True
        return self._known


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in _DEFAULT_CLASS)


# Priority: a pod's class becomes a number, and there is at most one default class.

GROUP = "scheduling.k8s.io"
_PREEMPTS = "PreemptLowerPriority"
Classes = Callable[[], Iterable[Object]]


class Priority:
    """Knows the default class until `forget` is called, which every change of a class must do."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._known: Object | None = None
        self._fresh = False

    def forget(self) -> None:
        self._fresh = False

    def default_class(self) -> Object | None:
        """Of several, which a race may leave behind, the lowest."""
        if not self._fresh:
            defaults = [one for one in self._classes() if one.get("globalDefault")]
            self._known = min(defaults, key=lambda one: (one["value"], one["metadata"]["name"]), default=None)
            self._fresh = True
        return self._known

    def resolve(self, request: AdmissionRequest, lookup: Lookup) -> Object | None:
        """The pod with the number of its class; a number of its own must be that one."""
        pod = request.object
        if pod is None:
            return None
        spec = pod.get("spec") or {}
        if request.operation == "UPDATE":
            return _kept(pod, spec, request.old_object or {})
        resolved = self._resolved(request, spec, lookup)
        return None if resolved.items() <= spec.items() else {**pod, "spec": {**spec, **resolved}}

    def _resolved(self, request: AdmissionRequest, spec: dict[str, Any], lookup: Lookup) -> dict[str, Any]:
        name = spec.get("priorityClassName") or ""
        if name:
            found = lookup(GROUP, "priorityclasses", "", name)
            if found is None:
                raise chain.forbidden(request, f"no PriorityClass with name {name} was found")
        else:
            found = self.default_class()
        value = found["value"] if found else 0
        policy = found.get("preemptionPolicy", _PREEMPTS) if found else _PREEMPTS
        _refuse_other(request, spec, value, policy)
        resolved = {"priority": value, "preemptionPolicy": policy}
        return {**resolved, "priorityClassName": found["metadata"]["name"]} if found else resolved

    def check_class(self, request: AdmissionRequest) -> None:
        """Only one class may be the default."""
        wanted = request.object or {}
        default = self.default_class() if wanted.get("globalDefault") else None
        if default is None:
            return
        name = default["metadata"]["name"]
        if request.operation == "CREATE" or name != wanted["metadata"]["name"]:
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise chain.forbidden(request, why)


def _refuse_other(request: AdmissionRequest, spec: dict[str, Any], value: int, policy: str) -> None:
    given, computed = spec.get("priority"), "priority admission controller computed"
    source = "from the given PriorityClass name"
    if given is not None and given != value:
        why = f"the integer value of priority ({given}) must not be provided in pod spec; {computed} {value} {source}"
        raise chain.forbidden(request, why)
    stated = spec.get("preemptionPolicy")
    if stated is not None and stated != policy:
        where = "must not be provided in pod spec"
        raise chain.forbidden(
            request, f"the string value of PreemptionPolicy ({stated}) {where}; {computed} {policy} {source}"
        )


def _kept(pod: Object, spec: dict[str, Any], old: Object) -> Object | None:
    """An update that leaves the numbers out keeps them."""
    before = old.get("spec") or {}
    missing = {
        k: before[k] for k in ("priority", "preemptionPolicy") if spec.get(k) is None and before.get(k) is not None
    }
    return {**pod, "spec": {**spec, **missing}} if missing else None


# NamespaceLifecycle: nothing is created where there is no namespace, or one that is ending; some never go.

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_UNASKED = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle:
    """Remembers which namespaces are open until `forget` is called, which every change of a namespace must do."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def is_open(self, name: str) -> bool:
        """Whether a namespace is known to be open; where it is not known, `check` finds out."""
        return name in self._open

    def forget(self) -> None:
        self._open.clear()

    def check(self, request: AdmissionRequest, lookup: Lookup) -> None:
        if request.resource == "namespaces" and request.group == "":
            self._check_namespace(request)
        elif request.namespace and request.operation in ("CREATE", "UPDATE") and request.namespace not in self._open:
            self._check_content(request, lookup)

    def _check_namespace(self, request: AdmissionRequest) -> None:
        if request.operation == "DELETE" and request.name in IMMORTAL:
            raise errors.forbidden("", "namespaces", request.name, "this namespace may not be deleted")

    def _check_content(self, request: AdmissionRequest, lookup: Lookup) -> None:
        """Access reviews are answered for any namespace: whether it exists would be telling."""
        if (request.group, request.resource) == _UNASKED:
            return
        name = request.namespace
        namespace = lookup("", "namespaces", "", name)
        if namespace is None:
            raise errors.not_found("", "namespaces", name)
        if (namespace.get("status") or {}).get("phase") != "Terminating":
            self._open.add(name)
        elif request.operation == "CREATE":
            why = f"unable to create new content in namespace {name} because it is being terminated"
            refused = chain.forbidden(request, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            refused.details = {**(refused.details or {}), "causes": [cause]}
            raise refused


Listing = Callable[[str, str], Iterable[Object]]
"""All objects of a (group, plural), in every namespace."""

# RuntimeClass: what pods of a class cost beside their containers, and where they may run.

_RUNTIME_CLASSES = ("node.k8s.io", "runtimeclasses")


def with_runtime_class(request: AdmissionRequest, lookup: Lookup) -> Object | None:
    """The new pod with the overhead and the constraints of its class; None: they change nothing."""
    pod = request.object or {}
    spec, found = pod.get("spec") or {}, _runtime_class(request, lookup)
    if found is None:
        return None
    overhead, scheduling = (found.get("overhead") or {}).get("podFixed"), found.get("scheduling") or {}
    changed: dict[str, Any] = {}
    if overhead:
        _check_same_overhead(request, overhead, spec.get("overhead") or overhead)
        changed["overhead"] = overhead
    if scheduling.get("nodeSelector"):
        changed["nodeSelector"] = _joined(request, scheduling["nodeSelector"], spec.get("nodeSelector") or {})
    more = [one for one in scheduling.get("tolerations") or () if one not in (spec.get("tolerations") or ())]
    if more:
        changed["tolerations"] = [*(spec.get("tolerations") or ()), *more]
    return None if changed.items() <= spec.items() else {**pod, "spec": {**spec, **changed}}


def check_overhead(request: AdmissionRequest, lookup: Lookup) -> None:
    """A pod has the overhead of its class, or none."""
    spec, found = (request.object or {}).get("spec") or {}, _runtime_class(request, lookup)
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if overhead:
        _check_same_overhead(request, overhead, spec.get("overhead"))
    elif spec.get("overhead"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise chain.forbidden(request, why)


def _runtime_class(request: AdmissionRequest, lookup: Lookup) -> Object | None:
    name = ((request.object or {}).get("spec") or {}).get("runtimeClassName")
    if not name:
        return None
    found = lookup(*_RUNTIME_CLASSES, "", name)
    if found is None:
        raise chain.forbidden(request, f'pod rejected: RuntimeClass "{name}" not found')
    return found


def _check_same_overhead(request: AdmissionRequest, wanted: Object, given: Object | None) -> None:
    if given != wanted:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise chain.forbidden(request, why)


def _joined(request: AdmissionRequest, wanted: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    for key, value in wanted.items():
        if own.get(key, value) != value:
            of_class = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            why = f"conflict: {of_class}; pod.spec.nodeSelector[{key}] = {own[key]}"
            raise chain.forbidden(request, why)
    return {**own, **wanted}


_WRITES = ("CREATE", "UPDATE")
_UNCHANGED = Verdict()
_CLASSES = (GROUP, "priorityclasses")
_NAMESPACES = ("", "namespaces")
_JUDGED = frozenset({_CLASSES, ("", "pods"), ("", "persistentvolumeclaims")})
"""What has rules of its own; for everything else it is enough that its namespace is open."""


class BuiltinRules:
    """Call `changed` after every write to one of the resources in `watched`: what is known of them is kept."""

    def __init__(self, listing: Listing) -> None:
        self._namespaces = NamespaceLifecycle()
        self._priority = Priority(lambda: listing(*_CLASSES))
        self._storage = DefaultStorageClass(lambda: listing("storage.k8s.io", "storageclasses"))
        self._limits = LimitRanger(lambda: listing("", "limitranges"))
        self.watched: dict[tuple[str, str], Callable[[], None]] = {
            _NAMESPACES: self._namespaces.forget,
            _CLASSES: self._priority.forget,
            ("storage.k8s.io", "storageclasses"): self._storage.forget,
            ("", "limitranges"): self._limits.forget,
            _RUNTIME_CLASSES: lambda: None,
        }

    def changed(self, group: str, plural: str) -> None:
        forget = self.watched.get((group, plural))
        if forget is not None:
            forget()

    def goes_by_spec(self, namespace: str) -> bool:
        """Whether two pods of the namespace with the same spec fare the same, until something `watched` changes."""
        return self._limits.has_none(namespace)

    def handles(self, request: AdmissionRequest) -> bool:
        if request.operation in _WRITES:
            if not request.subresource and (request.group, request.resource) in _JUDGED:
                return True
            return bool(request.namespace) and not self._namespaces.is_open(request.namespace)
        return request.operation == "DELETE" and (request.group, request.resource) == _NAMESPACES

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        self._namespaces.check(request, lookup)
        if request.subresource or request.object is None:
            return _UNCHANGED
        match (request.group, request.resource):
            case ("", "pods"):
                changed = self._pod(request, lookup)
            case ("", "persistentvolumeclaims"):
                changed = self._storage.with_class(request.object)
            case _:
                changed = None
        return _UNCHANGED if changed is None else Verdict(object=changed)

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        if request.subresource or request.operation not in _WRITES:
            return _UNCHANGED
        match (request.group, request.resource):
            case ("scheduling.k8s.io", "priorityclasses"):
                self._priority.check_class(request)
            case ("", "pods") | ("", "persistentvolumeclaims"):
                self._limits.check(request)
                if request.operation == "CREATE" and request.resource == "pods":
                    check_overhead(request, lookup)
        return _UNCHANGED

    def _pod(self, request: AdmissionRequest, lookup: Lookup) -> Object | None:
        """In the order of a kube-apiserver: limits, priority, tolerations, runtime class."""
        pod = request.object
        assert pod is not None
        limited = self._limits.with_defaults(request) if request.operation == "CREATE" else None
        if limited is not None:
            request = replace(request, object=limited)
        ranked = self._priority.resolve(request, lookup)
        before = ranked or limited or pod
        after = with_tolerations(before) or before
        if request.operation == "CREATE":
            after = with_runtime_class(replace(request, object=after), lookup) or after
        return None if after is pod else after
