"""Metrics: upstream's names to the letter, and room by topology level counted when it is asked for."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from spinney.api.placement.reading import read_problem
from spinney.core.inventory.inventory import Inventory
from spinney.core.scheduling.queues.tree import QueueFigures, Shares
from spinney.drive.scheduler.metrics import Metrics
from unit.placement.refusal_kit import node, nodes, problem

RACKS = {"b0/r0": [8, 8], "b0/r1": [8, 4], "b1/r2": [4]}


def inventory(free: dict[str, list[int]] | None = None) -> Inventory:
    asked = read_problem(problem(nodes(RACKS if free is None else free)))
    return Inventory.of(asked.resources, asked.topologies, asked.nodes)


def samples(metrics: Metrics) -> dict[str, float]:
    """Values by `name{labels}`, labels in the order of their names."""
    found = {}
    for family in text_string_to_metric_families(metrics.page()):
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
            found[f"{one.name}{{{labels}}}" if labels else one.name] = one.value
    return found


def test_upstream_s_names() -> None:
    metrics = Metrics(lambda: None)
    metrics.cycle(0.2, 0.05, 0.01)
    metrics.action("allocate", 0.1)
    metrics.decided("placed", 0.001)
    metrics.scheduled(0.95)
    metrics.bound(0.03, 0.004)
    metrics.preemption_attempt()
    metrics.evicted("a", "u", "default", "preempt", 3)
    found = samples(metrics)
    assert found["kai_e2e_scheduling_latency_milliseconds"] == 200
    assert found["kai_open_session_latency_milliseconds"] == 50
    assert found["kai_close_session_latency_milliseconds"] == 10
    assert found["kai_action_scheduling_latency_milliseconds{action=allocate}"] == 100
    assert found["kai_task_scheduling_latency_milliseconds_bucket{le=40.0}"] == 1
    assert found["kai_task_scheduling_latency_milliseconds_bucket{le=20.0}"] == 0
    assert found["kai_task_bind_latency_milliseconds_bucket{le=5.0}"] == 1
    assert found["kai_podgroups_scheduled_by_action{action=allocate}"] == 1
    assert found["kai_podgroups_acted_on_by_action{action=allocate}"] == 1
    assert found["kai_total_preemption_attempts"] == 1
    assert found["kai_pod_group_evicted_pods_total{action=preempt,nodepool=default,podgroup=a,uid=u}"] == 3


def test_what_only_we_say() -> None:
    metrics = Metrics(lambda: None, lambda: {"Unschedulable": 2, "NotReady": 1})
    metrics.cycle(0.015)
    metrics.scheduled(0.95)
    metrics.plan_conflict()
    found = samples(metrics)
    assert found["kai_cycle_duration_seconds_bucket{le=0.02}"] == 1
    assert found["kai_placement_score_bucket{le=0.99}"] == 1
    assert found["kai_placement_score_bucket{le=0.9}"] == 0
    assert found["kai_plan_conflicts_total"] == 1
    assert found["kai_pending_podgroups{reason=Unschedulable}"] == 2
    assert found["kai_pending_podgroups{reason=NotReady}"] == 1


def test_k4_free_room_and_the_largest_gang_of_each_level() -> None:
    found = samples(Metrics(inventory))
    level = "level=example.com/rack,topology=net"
    assert found[f"kai_topology_domains{{{level}}}"] == 3
    assert found[f"kai_topology_free{{{level}}}"] == 32
    assert found[f"kai_topology_largest_free{{{level}}}"] == 16
    assert found[f"kai_topology_domain_free{{domain=b0/r1,{level}}}"] == 12
    assert found[f"kai_topology_largest_gang{{gpus=8,{level}}}"] == 2
    assert found["kai_topology_largest_gang{gpus=8,level=example.com/block,topology=net}"] == 3
    assert found[f"kai_topology_largest_gang{{gpus=1,{level}}}"] == 16


def test_free_gpus_beside_used_ones_are_fragmentation() -> None:
    assert samples(Metrics(inventory))["kai_gpu_fragmentation"] == 8 / 32
    assert samples(Metrics(lambda: inventory({"b0/r0": [0]})))["kai_gpu_fragmentation"] == 0


def test_the_usual_taint_of_gpu_nodes_is_no_obstacle_and_others_are() -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}], [{"key": "broken", "effect": "NoSchedule"}]
    there = [node(f"n{at}", "b0/r0", 8, taints=each) for at, each in enumerate(taints)]
    asked = read_problem(problem(there))
    found = samples(Metrics(lambda: Inventory.of(asked.resources, asked.topologies, asked.nodes)))
    assert found["kai_topology_free{level=example.com/rack,topology=net}"] == 8
    assert found["kai_topology_largest_gang{gpus=8,level=example.com/rack,topology=net}"] == 1


def test_a_level_of_many_domains_is_told_as_a_whole() -> None:
    many = inventory({f"b0/r{at}": [8] for at in range(65)})
    found = samples(Metrics(lambda: many))
    assert found["kai_topology_domains{level=example.com/rack,topology=net}"] == 65
    assert not [name for name in found if name.startswith("kai_topology_domain_free{domain=b0/")]


def test_a_scrape_sees_what_changed_since_the_last_one() -> None:
    there = inventory()
    metrics = Metrics(lambda: there)
    samples(metrics)
    there.add_pod("p", "n0", (0, 0, 1, 8))
    assert samples(metrics)["kai_topology_largest_free{level=example.com/rack,topology=net}"] == 12


def test_without_an_inventory_there_is_no_room_to_tell() -> None:
    assert not [name for name in samples(Metrics(lambda: None)) if name.startswith("kai_topology")]


def test_two_schedulers_in_one_process_do_not_mix() -> None:
    one, other = Metrics(lambda: None), Metrics(lambda: None)
    one.plan_conflict()
    assert (samples(one)["kai_plan_conflicts_total"], samples(other)["kai_plan_conflicts_total"]) == (1, 0)


def test_q8_queues_have_upstream_s_metrics_and_what_they_ask_for() -> None:
    quota, share = Shares(16_000, -1, 64 * 10**9), Shares(12_000, 1500, 10**9)
    used, asked = Shares(12_500, 500, 2**30), Shares(32_000, 2000, 2**31)
    metrics = Metrics(lambda: None, queues=lambda: {"team": QueueFigures(quota, share, used, asked)})
    found = {
        name.removeprefix("kai_queue_").removesuffix("{queue_name=team}"): value
        for name, value in samples(metrics).items()
        if name.startswith("kai_queue_")
    }
    assert found == {
        "info": 1,
        "deserved_gpus": 16,
        "quota_cpu_cores": -1,
        "quota_memory_bytes": 64 * 10**9,
        "fair_share_gpu": 12,
        "fair_share_cpu_cores": 1.5,
        "fair_share_memory_gb": 1,
        "allocated_gpus": 12.5,
        "allocated_cpu_cores": 0.5,
        "allocated_memory_bytes": 2**30,
        "asked_gpus": 32,
        "asked_cpu_cores": 2,
        "asked_memory_bytes": 2**31,
    }


def test_every_metric_of_the_scheduler_is_documented() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    named = [line.split()[2] for line in Metrics(lambda: None).page().splitlines() if line.startswith("# TYPE kai_")]
    assert len(named) > 20
    missing = [name for name in named if f"`{name}`" not in documented and not name.endswith("_created")]
    assert missing == []
