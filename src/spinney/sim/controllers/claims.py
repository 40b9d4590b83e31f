"""Persistent volume claims: each gets a volume of its own size, at once.

Pure. Claims that name a volume, or a class of their own making ("" is one), are left to whoever makes volumes by hand.
"""

from __future__ import annotations

from spinney.sim.controllers.effects import Amend, Create, Decision, ref_of, state_of
from spinney.sim.resources import CLAIMS, VOLUMES
from spinney.sim.words import Json

BOUND = "pv.kubernetes.io/bind-completed"


def decide(claim: Json, volume: Json | None) -> Decision:
    """`volume`: the one made for this claim, or named by it, if it exists."""
    if claim["metadata"].get("deletionTimestamp") or (claim.get("status") or {}).get("phase") == "Bound":
        return Decision()
    named = claim["spec"].get("volumeName")
    if not named and claim["spec"].get("storageClassName") == "":
        return Decision()
    if volume is None:
        return Decision() if named else Decision((_create(claim),))
    if not named:
        patch = {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": volume["metadata"]["name"]}}
        return Decision((Amend(ref_of(CLAIMS, claim), patch, state_of(claim)),))
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"].get("accessModes", []),
        "capacity": volume["spec"].get("capacity", {}),
    }
    effects = [Amend(ref_of(CLAIMS, claim), {"status": status}, state_of(claim), "status")]
    if (volume.get("status") or {}).get("phase") != "Bound":
        effects.append(Amend(ref_of(VOLUMES, volume), {"status": {"phase": "Bound"}}, state_of(volume), "status"))
    return Decision(tuple(effects))


def volume_name(claim: Json) -> str:
    return claim["spec"].get("volumeName") or f"pvc-{claim['metadata']['uid']}"


def _create(claim: Json) -> Create:
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
        },
    }
    if spec.get("storageClassName"):
        body["spec"]["storageClassName"] = spec["storageClassName"]
    return Create(VOLUMES.ref(volume_name(claim)), body)
