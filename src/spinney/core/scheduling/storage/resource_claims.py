"""The nodes that a pod's resource claims allow.

Never allocates: a pod goes where its claims are already allocated, or it waits with a reason (K8).
"""

from __future__ import annotations

from collections.abc import Callable

from spinney.api.builtin.pod import Pod, PodResourceClaim
from spinney.api.builtin.resource_claim import ResourceClaim
from spinney.core.scheduling.gang.pod_shape import node_term
from spinney.core.scheduling.storage.volumes import ANYWHERE, Reach

ClaimLookup = Callable[[str, str], ResourceClaim | None]
"""A ResourceClaim by namespace and name."""


def claims_reach(pod: Pod, claim: ClaimLookup) -> Reach:
    """`waits` is a sentence that names the first claim that is not allocated."""
    required = []
    for asked in pod.spec.resource_claims:
        field = f"resourceClaims[{asked.name}]"
        name = _claim_name(pod, asked)
        if name is None:
            return Reach(waits=f"{field} can not be honoured: its ResourceClaim is not created yet")
        if not name:
            continue
        found = claim(pod.metadata.namespace, name)
        if found is None or found.status.allocation is None:
            state = "does not exist" if found is None else "is not allocated"
            return Reach(waits=f"{field} can not be honoured: ResourceClaim {name} {state}")
        selector = found.status.allocation.node_selector
        if selector is not None:
            required.append(tuple(map(node_term, selector.node_selector_terms)))
    return Reach(tuple(required)) if required else ANYWHERE


def _claim_name(pod: Pod, asked: PodResourceClaim) -> str | None:
    """The name of the claim; "": none is needed, None: it is not created yet."""
    if asked.resource_claim_name:
        return asked.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == asked.name:
            return status.resource_claim_name or ""
    return None
