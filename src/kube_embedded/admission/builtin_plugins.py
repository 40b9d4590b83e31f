"""The admission rules that every kube-apiserver has and users notice, as one plug-in.

On: NamespaceLifecycle, Priority, DefaultTolerationSeconds, DefaultStorageClass, LimitRanger. Off, because nothing here
would keep what they promise: ServiceAccount, TaintNodesByCondition, StorageObjectInUseProtection, ResourceQuota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.admission.defaults import DefaultStorageClass, with_tolerations
from kube_embedded.admission.limit_ranger import LimitRanger
from kube_embedded.admission.namespace_lifecycle import NamespaceLifecycle
from kube_embedded.admission.priority import GROUP, Priority

Listing = Callable[[str, str], Iterable[Object]]
"""All objects of a (group, plural), in every namespace."""

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
        return _UNCHANGED

    def _pod(self, request: AdmissionRequest, lookup: Lookup) -> Object | None:
        """In the order of a kube-apiserver: limits, priority, tolerations."""
        pod = request.object
        assert pod is not None
        limited = self._limits.with_defaults(request) if request.operation == "CREATE" else None
        if limited is not None:
            request = replace(request, object=limited)
        ranked = self._priority.resolve(request, lookup)
        before = ranked or limited or pod
        after = with_tolerations(before) or before
        return None if after is pod else after
