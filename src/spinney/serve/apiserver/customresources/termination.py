"""How a definition ends: it says that it is terminating, and waits until its objects are gone."""

from __future__ import annotations

from spinney.serve.apiserver.resource import Object

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
