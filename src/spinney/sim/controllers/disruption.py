"""PodDisruptionBudget: how many pods may be evicted now.

Pure; it never evicts, it only counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kube_apimachinery.selectors import from_object
from kube_apimachinery.times import format_time
from spinney.sim.controllers.children import count_of
from spinney.sim.controllers.effects import Decision, report
from spinney.sim.objects import BUDGETS, Json, OwnerReference, Pod, parse_time

_FORGOTTEN_S = 120.0

ScaleOf = Callable[[OwnerReference], int | None]
"""How many pods a controller wants; None if that is not known."""


def decide(budget: Json, pods: Sequence[Pod], scale_of: ScaleOf, now_s: float) -> Decision:
    """`pods`: those of the budget's namespace."""
    spec = budget["spec"]
    selector = spec.get("selector")
    chosen = [pod for pod in pods if selector is not None and from_object(selector).matches(pod.metadata.labels)]
    chosen = [pod for pod in chosen if not pod.finished]
    expected, desired = _goal(spec, chosen, scale_of)
    disrupted, again_s = _disrupted(budget, chosen, now_s)
    healthy = sum(pod.ready and not pod.leaving and pod.metadata.name not in disrupted for pod in chosen)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = {
        "observedGeneration": budget["metadata"].get("generation", 0),
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "conditions": [_condition(budget, allowed, now_s)],
    }
    gone = {name: None for name in (budget.get("status") or {}).get("disruptedPods") or {} if name not in disrupted}
    if gone:
        status["disruptedPods"] = gone
    return Decision(report(BUDGETS, budget, status), again_s)


def _goal(spec: Json, pods: Sequence[Pod], scale_of: ScaleOf) -> tuple[int, int]:
    """How many pods there should be, and how many of them must be healthy."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if isinstance(least, int):
        return len(pods), least
    expected = _expected(pods, scale_of)
    if most is not None:
        return expected, max(0, expected - count_of(most, expected, round_up=True))
    return expected, count_of(least, expected, round_up=True) if least is not None else 0


def _expected(pods: Sequence[Pod], scale_of: ScaleOf) -> int:
    """The sum of what the controllers of these pods want; a pod without a known one stands for itself."""
    owners = {owner.uid: owner for pod in pods if (owner := pod.metadata.controller) is not None}
    scales = {uid: scale_of(owner) for uid, owner in owners.items()}
    alone = sum(pod.metadata.controller is None or scales[pod.metadata.controller.uid] is None for pod in pods)
    return alone + sum(scale for scale in scales.values() if scale is not None)


def _disrupted(budget: Json, pods: Sequence[Pod], now_s: float) -> tuple[set[str], float | None]:
    """Pods whose eviction was granted but is not seen yet; a grant that leads to nothing is forgotten in time."""
    granted = (budget.get("status") or {}).get("disruptedPods") or {}
    here = {pod.metadata.name for pod in pods if not pod.leaving}
    due = {name: (parse_time(stamp) or now_s) + _FORGOTTEN_S for name, stamp in granted.items() if name in here}
    kept = {name: due_s for name, due_s in due.items() if due_s > now_s}
    return set(kept), min(kept.values(), default=None)


def _condition(budget: Json, allowed: int, now_s: float) -> Json:
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    known = (budget.get("status") or {}).get("conditions") or ()
    before: Json = next((each for each in known if each["type"] == "DisruptionAllowed"), {})
    generation = budget["metadata"].get("generation", 0)
    if (before.get("status"), before.get("observedGeneration")) == (status, generation):
        return before
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": since or format_time(now_s),
    }
