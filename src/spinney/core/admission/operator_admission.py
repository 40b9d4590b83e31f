"""May it enter? The rules of the operator's and the scheduler's kinds, as one plug-in for every server that asks.

Pure: the same request over the same view gives the same verdict, and nothing given is changed.
"""

from __future__ import annotations

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.core.admission import authorizer, clustertopology, reserved_fields, scheduler_kinds
from spinney.core.admission.decoding import part
from spinney.core.admission.findings import Findings
from spinney.core.admission.podcliqueset import validation
from spinney.core.admission.podcliqueset.defaults import defaulted
from spinney.core.admission.settings import AdmissionSettings

GROUP = PodCliqueSet.GROUP
SCHEDULER_KINDS = (PodGroup, Queue)
"""Kinds that are judged as they are: nothing is filled in."""
OPERATIONS = ("CREATE", "UPDATE")
_CHECKS = {
    **{(kind.GROUP, plural): clustertopology.check for plural, kind in clustertopology.KINDS.items()},
    (PodCliqueSet.GROUP, PodCliqueSet.PLURAL): validation.check,
    (PodGroup.GROUP, PodGroup.PLURAL): scheduler_kinds.check_podgroup,
    (Queue.GROUP, Queue.PLURAL): scheduler_kinds.check_queue,
}


class OperatorAdmission:
    """Defaulting and validation of sets and topologies, validation of PodGroups and Queues, protection of what
    belongs to sets and of what only roles of ours write.
    """

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings
        self._managed = authorizer.PROTECTED if settings.protects_managed else frozenset()

    def handles(self, request: AdmissionRequest) -> bool:
        if self._checks(request) or self._guards(request):
            return True
        return reserved_fields.refuses(request, self._settings)

    def _checks(self, request: AdmissionRequest) -> bool:
        return (
            (request.group, request.resource) in _CHECKS and request.operation in OPERATIONS and not request.subresource
        )

    def _guards(self, request: AdmissionRequest) -> bool:
        if request.subresource:
            return False
        return (request.group, request.resource) in self._managed and request.operation in authorizer.OPERATIONS

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        """Fill in; whatever cannot be read is left for the schema to refuse. What is being deleted is left alone."""
        changed = self._changed(request, lookup) if self._checks(request) else None
        return Verdict() if changed is None else Verdict(object=changed)

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        """Every error at once. What is being deleted may lose its finalizers whatever it looks like."""
        refusal = reserved_fields.judge_reserved(request, self._settings)
        if refusal is not None:
            return refusal
        if self._guards(request):
            return authorizer.authorize(request, self._settings, lookup)
        if not self._checks(request):
            return Verdict()
        try:
            return Verdict() if _is_leaving(request) else self._judged(request, lookup)
        except RecursionError:
            return Verdict(False, message="the object is nested too deeply to be checked", code=400)

    def _judged(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        found = Findings()
        _CHECKS[request.group, request.resource](request, self._settings, lookup, found)
        warnings = tuple(dict.fromkeys(found.warnings))
        if found.errors:
            return Verdict(False, errors=found.told(), warnings=warnings)
        if self._changed(request, lookup) is not None:
            return Verdict(False, message=_UNDEFAULTED, code=503, warnings=warnings)
        return Verdict(warnings=warnings)

    def _changed(self, request: AdmissionRequest, lookup: Lookup) -> Object | None:
        obj = request.object
        if not isinstance(obj, dict) or part(obj, "metadata").get("deletionTimestamp"):
            return None
        if request.group != GROUP:
            return None
        if request.resource in clustertopology.KINDS:
            return clustertopology.ordered(obj)
        changed = defaulted(obj, request.old_object, self._settings, lookup)
        return None if changed is obj else changed


def _is_leaving(request: AdmissionRequest) -> bool:
    """Being deleted, and nothing asked of it but to go."""
    old, obj = request.old_object, request.object
    if not part(old, "metadata").get("deletionTimestamp"):
        return False
    return part(old).get("spec") == part(obj).get("spec")


_UNDEFAULTED = "the object has not been defaulted: the mutating webhook could not be asked, try again"
