"""A pod as the pod-grouper sees it.

Never wider than what is read: there is one for each pod of the cluster.
"""

from __future__ import annotations

from spinney.api.meta import ObjectMeta, Slim

_OVER = ("Succeeded", "Failed")


class Gate(Slim, frozen=True):
    name: str = ""


class PodSpec(Slim, frozen=True):
    scheduler_name: str = ""
    node_name: str = ""
    priority_class_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()


class PodCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Slim, frozen=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class Pod(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def title(self) -> str:
        return f"Pod {self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_alive(self) -> bool:
        """Neither ended nor on its way out."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in _OVER

    def condition(self, kind: str) -> PodCondition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)
