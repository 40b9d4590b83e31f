"""Gang termination: a gang that has been below its minimum for too long is deleted as a whole (2.7).

A gang that was never scheduled is not terminated, and objects created after the decision are not deleted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube_apimachinery import duration
from kube_apimachinery.times import seconds
from spinney.api.changes import EmitEvent, Target
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.meta import Condition, condition
from spinney.core.expansion.objects import TRUE
from spinney.core.expansion.podclique.podclique import BREACHED, FIRST_SCHEDULED

TERMINATING = "GangTerminationInProgress"
FIRST_AVAILABLE = "FirstAvailable"
_DEFAULT_DELAY_S = 4 * 3600.0
_STAMPED_S = 1.0
"""Times are written in whole seconds: the event may have happened up to this much later."""


def delay_s(podcliqueset: PodCliqueSet) -> float:
    text = podcliqueset.spec.template.termination_delay
    return duration.seconds(text) if text else _DEFAULT_DELAY_S


def due_s(conditions: tuple[Condition, ...], once: str, delay: float) -> float | None:
    """When a breach has lasted for the delay, never earlier; None without a breach or if `once` was never reached."""
    breach = condition(conditions, BREACHED)
    if breach is None or breach.status != TRUE or condition(conditions, once) is None:
        return None
    return seconds(breach.last_transition_time) + _STAMPED_S + delay


def clique_due_s(clique: PodClique, delay: float) -> float | None:
    if clique.metadata.deletion_timestamp is not None:
        return None
    return due_s(clique.status.conditions, FIRST_SCHEDULED, delay)


def group_due_s(group: PodCliqueScalingGroup, delay: float) -> float | None:
    """When a scaling group is due; once for each breach: a group that is being terminated is not terminated again."""
    if condition(group.status.conditions, TERMINATING) is not None or group.metadata.deletion_timestamp is not None:
        return None
    return due_s(group.status.conditions, FIRST_AVAILABLE, delay)


def deletion_event(owner: Target, uid: str, replica: int, due: float) -> EmitEvent:
    """The event for the termination of a replica, once for each termination."""
    kind = owner.resource.kind
    message = f"{kind} replica {replica} deleted: it was below its minimum for longer than terminationDelay"
    return EmitEvent(owner, uid, f"{kind}ReplicaDeleteSuccessful", message, f"{replica} {due:.0f}")


def earliest(times: Iterable[float | None]) -> float | None:
    return min((time for time in times if time is not None), default=None)


def cliques_to_delete(cliques: Sequence[PodClique], since_s: float) -> list[PodClique]:
    """PodCliques created before the decision; those in breach come last, so that a crash in between is resumed."""
    older = [each for each in cliques if seconds(each.metadata.creation_timestamp) < since_s]
    return sorted(older, key=lambda each: (condition_is(each, BREACHED), each.metadata.name))


def condition_is(clique: PodClique, kind: str) -> bool:
    found = condition(clique.status.conditions, kind)
    return found is not None and found.status == TRUE
