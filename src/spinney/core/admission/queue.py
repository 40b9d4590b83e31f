"""Queue: a share has to say of what."""

from __future__ import annotations

from kube_apimachinery.admission import AdmissionRequest, Lookup
from kube_apimachinery.field_errors import FieldError, invalid, required
from spinney.api.kinds.queue import Queue
from spinney.core.admission.decoding import read
from spinney.core.admission.findings import Findings
from spinney.core.admission.settings import AdmissionSettings


def check(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    queue = read(request.object, Queue)
    if isinstance(queue, FieldError):
        found.refuse(queue)
        return
    old = read(request.old_object, Queue) if request.operation == "UPDATE" else None
    if isinstance(old, Queue) and old.spec == queue.spec:
        return
    if queue.spec.resources is None:
        found.refuse(required("spec.resources", "resources must be specified"))
    if queue.spec.parent_queue == request.name:
        found.refuse(invalid("spec.parentQueue", request.name, "a queue cannot be its own parent"))
