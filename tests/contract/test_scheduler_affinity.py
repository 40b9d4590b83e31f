"""Affinity between pods as a user sees it, the same on the embedded and on a real API server."""

from __future__ import annotations

from typing import Any

from contract.operator_stages import HOST, RACK
from contract.scheduler_stages import Hall, tree
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def gang(name: str, app: str, count: int = 1, gpus: int = 1, **affinity: Any) -> list[Json]:
    members = [pod(f"{name}-{number}", name, gpus, affinity=affinity) for number in range(count)]
    for member in members:
        member["metadata"]["labels"] = {"app": app}
    return [podgroup(name, count), *members]


def about(key: str, app: str, **more: Any) -> Json:
    return {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}]}


def test_k8_gangs_keep_apart_by_racks_whoever_says_so(hall: Hall) -> None:
    hall.build(tree(racks=2))
    hall.make(*gang("db", "db", podAntiAffinity=about(RACK, "batch")))
    db = hall.running("db", 1)
    hall.make(*gang("web", "web", 2, podAntiAffinity=about(RACK, "db")), *gang("batch", "batch"))
    others = hall.running("web", 2) | hall.running("batch", 1)
    assert len(hall.domains(others.values())) == 1
    assert not hall.domains(others.values()).keys() & hall.domains(db.values()).keys()


def test_k8_a_gang_that_is_kept_out_explains_it_and_gets_in_when_the_other_is_gone(hall: Hall) -> None:
    hall.build(tree(racks=1, hosts=2))
    hall.make(*gang("db", "db"))
    hall.running("db", 1)
    hall.make(*gang("web", "web", podAntiAffinity=about(RACK, "db")))
    hall.says("web", "2 node(s) kept out by pod anti-affinity")
    hall.explains("web", "pod anti-affinity")
    hall.tells("web-0", "pod anti-affinity")
    hall.remove("pods", "db-0")
    hall.running("web", 1)
    hall.is_quiet("web")


def test_k8_a_gang_waits_for_whom_it_has_to_be_near_to_and_goes_there(hall: Hall) -> None:
    hall.build(tree(racks=3))
    hall.make(*gang("web", "web", 2, 8, podAffinity=about(RACK, "cache")))
    hall.says("web", "no pod that it selects has a node")
    hall.make(*gang("cache", "cache", gpus=0))
    nodes = hall.running("web", 2) | hall.running("cache", 1)
    assert len(hall.domains(nodes.values())) == 1


def test_k8_pods_of_a_kind_come_together_the_first_anywhere(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=2))
    hall.make(*gang("one", "web", 2, 4, podAffinity=about(RACK, "web")))
    first = hall.running("one", 2)
    hall.make(*gang("two", "web", 2, 4, podAffinity=about(RACK, "web")))
    nodes = first | hall.running("two", 2)
    assert len(hall.domains(nodes.values())) == 1


def test_k8_pods_of_another_namespace_count_where_the_term_says_so(hall: Hall) -> None:
    hall.build(tree(racks=1, hosts=2))
    space = hall.another(f"{hall.namespace}-far")
    nodes = sorted(hall.cluster.names("nodes"))
    there = {"containers": [{"name": "main", "image": "serve"}], "schedulerName": "other", "nodeName": nodes[0]}
    metadata = {"name": "db", "labels": {"app": "db"}}
    space.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": there}).ok(201)
    named = {"kubernetes.io/metadata.name": f"{hall.namespace}-far"}
    term = about(HOST, "db", namespaceSelector={"matchLabels": named})
    hall.make(*gang("web", "web", 1, 8, podAntiAffinity=term))
    assert set(hall.running("web", 1).values()) == {nodes[1]}


def clique(name: str, group: str, count: int, gpus: int, part_of: str, **affinity: Any) -> list[Json]:
    """The pods of one clique of a set; `part_of` is the label that all cliques of the set share."""
    members = [
        pod(f"{group}-{name}-{number}", group, gpus, subgroup=name, affinity=affinity) for number in range(count)
    ]
    for member in members:
        member["metadata"].setdefault("labels", {})["app"] = part_of
    return members


def test_k17_cliques_of_one_set_have_one_worker_per_host(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=2))
    cliques = [{"name": "prefill", "minMember": 2}, {"name": "decode", "minMember": 2}]
    alone = {"podAntiAffinity": about(HOST, "model")}
    pods = clique("prefill", "set", 2, 1, "model", **alone) + clique("decode", "set", 2, 1, "model", **alone)
    hall.make(podgroup("set", 4, subGroups=cliques), *pods)
    assert len(set(hall.running("set", 4).values())) == 4


def test_k17_it_is_enough_that_the_pods_of_one_clique_keep_away(hall: Hall) -> None:
    hall.build(tree(racks=1, hosts=2))
    cliques = [{"name": "worker", "minMember": 2}, {"name": "router", "minMember": 3}]
    away = {"podAntiAffinity": about(HOST, "router")}
    pods = clique("worker", "set", 2, 4, "worker", **away) + clique("router", "set", 3, 1, "router")
    hall.make(podgroup("set", 5, subGroups=cliques), *pods)
    nodes = hall.running("set", 5)
    workers = {node for name, node in nodes.items() if "worker" in name}
    assert len(workers) == 1
    assert len(set(nodes.values())) == 2


def test_k17_pods_of_a_gang_follow_those_of_another_clique_and_of_their_own(hall: Hall) -> None:
    """One rack holds two of the three servers, so caches go to both; routers share a zone, which is no level here."""
    hall.build(tree(racks=2, hosts=2))
    cliques = [{"name": name, "minMember": count} for name, count in (("cache", 2), ("server", 3))]
    pods = clique("cache", "set", 2, 0, "cache")
    pods += clique("server", "set", 3, 8, "server", podAffinity=about(RACK, "cache"))
    hall.make(podgroup("set", 5, subGroups=cliques), *pods)
    nodes = hall.running("set", 5)
    servers = hall.domains(node for name, node in nodes.items() if "server" in name)
    caches = hall.domains(node for name, node in nodes.items() if "cache" in name)
    assert servers.keys() == caches.keys()
    assert len(servers) == 2
