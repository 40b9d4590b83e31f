"""Persistent volume claims: each gets a volume of its own size, at once or when its first pod has a node.

Pure. Claims that name a volume, or a class of their own making ("" is one), are left to whoever makes volumes by hand.
"""

from __future__ import annotations

from spinney.api.labels import PVC_SELECTED_NODE
from spinney.sim.controllers.effects import Create, Decision, Patch, ref_of, state_of
from spinney.sim.objects import CLAIMS, VOLUMES, Json

BOUND = "pv.kubernetes.io/bind-completed"
BY_HAND = "kubernetes.io/no-provisioner"
LATE = "WaitForFirstConsumer"


def decide(claim: Json, volume: Json | None, storage_class: Json | None = None) -> Decision:
    """`volume`: the one made for this claim, or named by it, if it exists; `storage_class`: likewise."""
    if claim["metadata"].get("deletionTimestamp") or (claim.get("status") or {}).get("phase") == "Bound":
        return Decision()
    named = claim["spec"].get("volumeName")
    if not named and claim["spec"].get("storageClassName") == "":
        return Decision()
    if volume is None:
        return (
            Decision((_create(claim, storage_class or {}),))
            if not named and _is_due(claim, storage_class)
            else Decision()
        )
    if not named:
        patch = {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": volume["metadata"]["name"]}}
        return Decision((Patch(ref_of(CLAIMS, claim), patch, state_of(claim)),))
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"].get("accessModes", []),
        "capacity": volume["spec"].get("capacity", {}),
    }
    effects = [Patch(ref_of(CLAIMS, claim), {"status": status}, state_of(claim), "status")]
    if (volume.get("status") or {}).get("phase") != "Bound":
        effects.append(Patch(ref_of(VOLUMES, volume), {"status": {"phase": "Bound"}}, state_of(volume), "status"))
    return Decision(tuple(effects))


def volume_name(claim: Json) -> str:
    return claim["spec"].get("volumeName") or f"pvc-{claim['metadata']['uid']}"


def class_name(claim: Json) -> str:
    return claim["spec"].get("storageClassName") or ""


def _is_due(claim: Json, storage_class: Json | None) -> bool:
    """Whether a volume is to be made now. A class that is named has to be there."""
    if storage_class is None:
        return not class_name(claim)
    if storage_class.get("provisioner") == BY_HAND:
        return False
    late = storage_class.get("volumeBindingMode") == LATE
    return not late or PVC_SELECTED_NODE in (claim["metadata"].get("annotations") or {})


def _reach(storage_class: Json) -> Json:
    """From which nodes a volume of the class can be used."""
    terms = [
        {"matchExpressions": [{**each, "operator": "In"} for each in term["matchLabelExpressions"]]}
        for term in storage_class.get("allowedTopologies") or ()
    ]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}


def _create(claim: Json, storage_class: Json) -> Create:
    metadata, spec = claim["metadata"], claim["spec"]
    body: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim)},
        "spec": {
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "hostPath": {"path": f"/simulated/{metadata['uid']}"},
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            **_reach(storage_class),
        },
    }
    if spec.get("storageClassName"):
        body["spec"]["storageClassName"] = spec["storageClassName"]
    return Create(VOLUMES.ref(volume_name(claim)), body)
