"""The scheduler of Kubernetes itself, or any other that knows only pods: no gangs, no topology."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.changes import Change, Resource
from spinney.api.kinds.clustertopology import AnyTopology
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import SCHEDULER_DEFAULT
from spinney.core.expansion.backends import Capabilities, Find, Marks, Twin

_CAN = Capabilities()


@dataclass(frozen=True, slots=True)
class DefaultScheduler:
    name: str = SCHEDULER_DEFAULT
    capabilities: Capabilities = _CAN
    manages_topologies: bool = False
    watches: tuple[Resource, ...] = ()

    def mark_gang(self, podcliqueset: PodCliqueSet) -> Marks:
        return Marks()

    def mark_pod(self, gang: str, clique: str) -> Marks:
        return Marks()

    def sync_gang(self, gang: PodGang, find: Find) -> tuple[Change, ...]:
        return ()

    def twin_of(self, topology: AnyTopology, find: Find) -> Twin | None:
        return None
