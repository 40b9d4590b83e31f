"""Jobs, also those of a CronJob, and JobSets: one gang where topology is asked for, else each pod alone.

Topology for pods that are placed one by one would mean nothing, so asking for it makes the gang (K2).
"""

from __future__ import annotations

import re

from spinney.api.changes import Json
from spinney.api.labels import JOBSET_REPLICATED_JOB, KAI_SEGMENT_SIZE
from spinney.core.grouping.group_shape import GroupShape, Lookups, one_per_pod, podgroup_name, whole_owner
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, label, whole
from spinney.core.grouping.topology import asks_for_topology

# JobSets: one gang, or one for each replicated job where those start one after the other.
#
# They do so in order, or where one of them depends on another: its pods are not made before the other has come so far.

IN_ORDER = "InOrder"


def jobset_shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
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


_RANGE = re.compile(r"(?<![0-9])([0-9]{1,10})(?:-([0-9]{1,10}))?(?![0-9])")


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    if is_gang(chain):
        return whole_owner(chain, gang_size(chain.top))
    return one_per_pod(chain, chain.top.uid)


def of_cron_job(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """One group for each run. A pod that belongs to no run gets its own group."""
    job = chain.of_kind("batch", "Job")
    if job is None:
        return one_per_pod(chain)
    run = job.under(chain.top)
    size = gang_size(run) if is_gang(OwnerChain(chain.pod, (run,))) else 1
    return GroupShape(podgroup_name(run.name, run.uid), run, size)


def is_gang(chain: OwnerChain) -> bool:
    return asks_for_topology(chain.top.annotations) or KAI_SEGMENT_SIZE in chain.pod.metadata.annotations


def gang_size(job: Owner) -> int:
    """The number of pods that can still run at the same time: succeeded and failed indexes do not count."""
    parallelism = job.count("spec", "parallelism")
    completions = job.count("spec", "completions")
    wanted = 1 if parallelism is None else parallelism
    if completions is not None:
        wanted = min(wanted, completions - (job.count("status", "succeeded") or 0) - _given_up(job))
    return max(wanted, 1)


def _given_up(job: Owner) -> int:
    """The number of permanently failed indexes; the field has the form `1,3-5`."""
    ranges = _RANGE.findall(job.word("status", "failedIndexes"))
    return sum(int(last or first) - int(first) + 1 for first, last in ranges)
