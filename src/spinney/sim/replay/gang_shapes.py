"""Jobs become gangs: how many pods, how large, and how near to each other.

A job of fewer GPUs than a pod may have is one pod; any other is as many whole pods as it takes. Rules say which level a
gang of so many GPUs needs, and which it would like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spinney.api.placement.problem import Amounts, Gang, Group, NodeFilter, PodSet, Toleration
from spinney.sim.replay.cluster import Levels
from spinney.sim.replay.trace import Job
from spinney.whatif.inputs.nodes import HOSTNAME_LABEL

POD_SET = "worker"
_NEAR_HOSTS = 8
_RULE = re.compile(r"(\d{1,9}|\*)=([^:=]+)(?::([^:=]+))?")
_NOTHING = "-"


class RuleError(ValueError):
    """A rule that cannot be used; the message says what was found and what is allowed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Gangs of at most so many GPUs (None: of any number) need one domain of a level, and would like another's.

    Levels are node labels; None: no such wish.
    """

    up_to: int | None
    required: str | None
    preferred: str | None = None


_NO_CONSTRAINT = Rule(None, None)


@dataclass(frozen=True, slots=True)
class GangShapes:
    """How jobs become gangs of one topology and one resource."""

    topology: str
    resource: str
    gpus_per_pod: int
    rules: tuple[Rule, ...]

    def gang(self, job: Job, resources: Sequence[str]) -> Gang:
        whole = not job.single and job.gpus >= self.gpus_per_pod
        count, size = (-(-job.gpus // self.gpus_per_pod), self.gpus_per_pod) if whole else (1, job.gpus)
        rule = next((rule for rule in self.rules if rule.up_to is None or job.gpus <= rule.up_to), _NO_CONSTRAINT)
        request = request_of(resources, {self.resource: size, "cpu": job.cpu_m, "memory": job.memory})
        pods = PodSet(POD_SET, request, count, count, filter=pod_filter(self.resource))
        has_level = rule.required is not None or rule.preferred is not None
        topology = self.topology if has_level else None
        root = Group("", pods=(pods,), topology=topology, required=rule.required, preferred=rule.preferred)
        return Gang(job.name, root, priority=job.priority)


def pod_filter(resource: str) -> NodeFilter:
    """Pods tolerate the usual taint of nodes with the resource they ask for, and no other."""
    return NodeFilter(tolerations=(Toleration(resource, "Exists"),))


def request_of(resources: Sequence[str], amounts: dict[str, int]) -> Amounts:
    """What one pod takes: one of `pods` always."""
    return tuple(1 if name == "pods" else amounts.get(name, 0) for name in resources)


def default_rules(levels: Levels, gpus_per_pod: int, largest: Sequence[int]) -> tuple[Rule, ...]:
    """One host's worth in a host; up to eight hosts' worth in the level above it, the near one; more in broader ones.

    `largest` is the GPUs of the largest domain of each level: nobody is asked to fit where nobody could. Whoever needs
    a broader level than the near one would still like the near one best.
    """
    sizes = dict(zip(levels.keys, largest, strict=True))
    host = sizes.pop(HOSTNAME_LABEL, None)
    rules = [Rule(gpus_per_pod, HOSTNAME_LABEL if host is not None else None)]
    near = next(reversed(sizes), None)
    for key, size in reversed(sizes.items()):
        is_near = key == near
        up_to = min(_NEAR_HOSTS * gpus_per_pod, size) if is_near else size
        if up_to > (rules[-1].up_to or 0):
            rules.append(Rule(up_to, key, None if is_near else near))
    return (*rules, Rule(None, None, near))


def read_rules(written: Iterable[str], levels: Levels) -> tuple[Rule, ...]:
    """`GPUS=REQUIRED[:PREFERRED]`, smallest first; `*` is any number, `-` no level."""
    rules = [_rule(text, levels) for text in written]
    order = [float("inf") if rule.up_to is None else rule.up_to for rule in rules]
    for at in range(1, len(order)):
        if order[at] <= order[at - 1]:
            raise RuleError(
                f"--rule {at + 1}: found a number that is not above the one before, allowed: smallest first"
            )
    return tuple(rules)


def _rule(text: str, levels: Levels) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise RuleError(f"--rule: found {text!r}, allowed: GPUS=REQUIRED[:PREFERRED], for example 64=rack or *=-:rack")
    number, required, preferred = match.groups()
    return Rule(None if number == "*" else int(number), _key(required, levels), _key(preferred or _NOTHING, levels))


def _key(written: str, levels: Levels) -> str | None:
    if written == _NOTHING:
        return None
    level = levels.find(written)
    if level is None:
        known = ", ".join(level.name for level in levels.levels) or "none"
        raise RuleError(f"--rule: found level {written!r}, allowed: - or a level of {levels.name}: {known}")
    return level.key
