"""Namespaces come first and some never go: nothing is created where there is no namespace, or one that is ending."""

from __future__ import annotations

from kube_apimachinery.admission import AdmissionRequest, Lookup
from kube_embedded.admission import refusal
from kube_embedded.base import errors

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
            refused = refusal.forbidden(request, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            refused.details = {**(refused.details or {}), "causes": [cause]}
            raise refused
