"""JobSets: one gang, or one for each replicated job where those start one after the other.

They do so in order, or where one of them depends on another: its pods are not made before the other has come so far.
"""

from __future__ import annotations

from spinney.api.changes import Json
from spinney.api.labels import JOBSET_REPLICATED_JOB
from spinney.core.grouping.group_shape import GroupShape, Lookups, podgroup_name, whole_owner
from spinney.core.grouping.owner_chain import Owner, OwnerChain, whole
from spinney.core.grouping.user_errors import InvalidFieldError, label

IN_ORDER = "InOrder"


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    top = chain.top
    sizes = {str(job.get("name", "")): _size(top, job, index) for index, job in enumerate(_jobs(top))}
    order = top.word("spec", "startupPolicy", "startupPolicyOrder") or IN_ORDER
    if order != IN_ORDER and not any(job.get("dependsOn") for job in _jobs(top)):
        return whole_owner(chain, max(sum(sizes.values()), 1))
    name = chain.pod.metadata.labels.get(JOBSET_REPLICATED_JOB)
    if name is None or name not in sizes:
        raise InvalidFieldError(
            chain.pod.title,
            label(JOBSET_REPLICATED_JOB),
            name,
            f"a replicated job of {top}: {', '.join(sorted(sizes))}",
        )
    return GroupShape(podgroup_name(top.name, top.uid, name), top, max(sizes[name], 1))


def _jobs(top: Owner) -> list[Json]:
    return top.items("spec", "replicatedJobs")


def _size(top: Owner, job: Json, index: int) -> int:
    path = f"spec.replicatedJobs[{index}]"
    template = job.get("template")
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        raise InvalidFieldError(top, f"{path}.template.spec", spec, "the spec of a Job")
    replicas = _or_one(whole(top, job, "replicas", f"{path}.replicas"))
    parallelism = _or_one(whole(top, spec, "parallelism", f"{path}.template.spec.parallelism"))
    completions = whole(top, spec, "completions", f"{path}.template.spec.completions")
    return replicas * (parallelism if completions is None else min(parallelism, completions))


def _or_one(count: int | None) -> int:
    return 1 if count is None else count
