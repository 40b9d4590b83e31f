"""The rule of `spinney initc`: a pod waits until every parent clique has enough Ready pods of its gang.

Never looks at the cluster: the pods are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from spinney.api.labels import INIT_CONTAINER, PODCLIQUE, PODGANG
from spinney.sim.objects import Container, Pod

_NAMES = (INIT_CONTAINER, "spinney-initc")
_FLAG = "--podcliques"


@dataclass(frozen=True, slots=True)
class Parent:
    """A clique that has to be up first, and with how many pods."""

    clique: str
    at_least: int


def is_initc(container: Container) -> bool:
    """Known by its name, or by the command `spinney initc`."""
    if container.name in _NAMES:
        return True
    words = container.command + container.args
    programs = [word.rsplit("/", 1)[-1] for word in words]
    return any(program in _NAMES for program in programs) or programs[:2] == ["spinney", "initc"]


def parents_of(container: Container) -> tuple[Parent, ...]:
    """The parents named in `--podcliques=<fqn>:<minAvailable>`, which may be repeated or hold several."""
    words = container.command + container.args
    values = [word.partition("=")[2] for word in words if word.startswith(f"{_FLAG}=")]
    values += [after for word, after in pairwise(words) if word == _FLAG]
    return tuple(_parent(part) for value in values for part in value.split(",") if part)


def _parent(text: str) -> Parent:
    clique, _, number = text.rpartition(":")
    if not clique or not number.isdigit():
        return Parent(text, 1)
    return Parent(clique, int(number))


def parents_of_pod(pod: Pod) -> tuple[Parent, ...]:
    return tuple(parent for each in pod.spec.init_containers if is_initc(each) for parent in parents_of(each))


def may_start(parents: Iterable[Parent], pod: Pod, siblings: Iterable[Pod]) -> bool:
    """Whether every parent has enough Ready pods in the gang of `pod`; terminating pods do not count."""
    gang = pod.metadata.labels.get(PODGANG, "")
    ready: dict[str, int] = {}
    for other in siblings:
        labels = other.metadata.labels
        if labels.get(PODGANG, "") == gang and other.ready and not other.leaving:
            clique = labels.get(PODCLIQUE, "")
            ready[clique] = ready.get(clique, 0) + 1
    return all(ready.get(parent.clique, 0) >= parent.at_least for parent in parents)
