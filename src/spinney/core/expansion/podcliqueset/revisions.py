"""Revisions: short words for what pods are made of (2.8).

Replicas, topology, startup order and shared claims are no part of them: changing those replaces no pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.expansion.objects import short_hash


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revision of the whole set, and of the pods of each clique of its template."""

    whole: str
    cliques: Mapping[str, str]


def revisions_of(podcliqueset: PodCliqueSet) -> Revisions:
    template = podcliqueset.spec.template
    cliques = {
        clique.name: short_hash([clique.labels, clique.annotations, clique.spec.pod_spec, template.priority_class_name])
        for clique in template.cliques
    }
    return Revisions(short_hash(sorted(cliques.items())), cliques)
