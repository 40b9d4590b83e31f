"""Startup order: which cliques a member waits for, and the init container that does the waiting (2.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spinney.api import generated_names
from spinney.api.changes import Json
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import INIT_CONTAINER, POD_INFO_PATH, PODGANG
from spinney.core.expansion.podcliqueset.set_layout import Member, min_available

_IN_ORDER = "CliqueStartupTypeInOrder"
_EXPLICIT = "CliqueStartupTypeExplicit"
_POD_INFO = "grove-pod-info"
_TOKEN = "grove-initc-token"
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


class Parent(NamedTuple):
    """A PodClique that has to be up first, and with how many pods."""

    clique: str
    at_least: int


def has_order(podcliqueset: PodCliqueSet) -> bool:
    """Whether any clique waits for another one."""
    template = podcliqueset.spec.template
    return any(_earlier(podcliqueset, clique.name) for clique in template.cliques)


def parents_of(podcliqueset: PodCliqueSet, member: Member) -> tuple[Parent, ...]:
    """The PodCliques that a member waits for. In a scaled gang only those of the same group replica count."""
    return tuple(
        parent
        for clique in _earlier(podcliqueset, member.template.name)
        for parent in _members_of(podcliqueset, clique, member)
    )


def init_container(image: str, parents: tuple[Parent, ...]) -> Json:
    """Waits until every parent has enough Ready pods in this gang."""
    return {
        "name": INIT_CONTAINER,
        "image": image,
        "command": ["spinney", "initc"],
        "args": [f"--podcliques={parent.clique}:{parent.at_least}" for parent in parents],
        "volumeMounts": [
            {"name": _POD_INFO, "mountPath": POD_INFO_PATH, "readOnly": True},
            {"name": _TOKEN, "mountPath": _TOKEN_PATH, "readOnly": True},
        ],
    }


def volumes(podcliqueset: str) -> list[Json]:
    """What the init container reads: who its pod is, and the token that may watch pods and nothing else."""
    files = [
        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
        {"path": "podgangname", "fieldRef": {"fieldPath": f"metadata.labels['{PODGANG}']"}},
    ]
    return [
        {"name": _POD_INFO, "downwardAPI": {"items": files}},
        {"name": _TOKEN, "secret": {"secretName": generated_names.token_secret(podcliqueset)}},
    ]


def _earlier(podcliqueset: PodCliqueSet, clique: str) -> tuple[str, ...]:
    """The cliques of the template that come before one."""
    template = podcliqueset.spec.template
    names = [each.name for each in template.cliques]
    position = names.index(clique)
    if template.clique_startup_type == _IN_ORDER:
        return tuple(names[position - 1 : position]) if position else ()
    if template.clique_startup_type == _EXPLICIT:
        return tuple(name for name in template.cliques[position].spec.starts_after if name in names)
    return ()


def _members_of(podcliqueset: PodCliqueSet, clique: str, member: Member) -> Iterator[Parent]:
    template, name = podcliqueset.spec.template, podcliqueset.metadata.name
    at_least = min_available(next(each for each in template.cliques if each.name == clique))
    group = next((each for each in template.pod_clique_scaling_groups if clique in each.clique_names), None)
    if group is None:
        if not member.base_gang:
            yield Parent(generated_names.podclique(name, member.replica, clique), at_least)
        return
    replicas: range = range(group.min_available)
    if member.base_gang:
        same = member.group is not None and member.group.config.name == group.name
        replicas = range(member.group_replica, member.group_replica + 1) if same else range(0)
    for group_replica in replicas:
        fqn = generated_names.scaling_group_podclique(name, member.replica, group.name, group_replica, clique)
        yield Parent(fqn, at_least)
