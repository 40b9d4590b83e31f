"""The figures of a scheduler at work, as a monitoring system sees them."""

from __future__ import annotations

from kube_apimachinery.times import seconds
from spinney.cli.wiring.roles.metrics_server import metrics_text
from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, gang
from unit.scheduler.scheduler_world import podgroup, pods
from unit.scheduler.test_queue_shares import FOUR_HOSTS, hosts, queue
from unit.scheduler.watched_world import watched


def figures(page: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_k15_a_scheduler_tells_what_it_did_and_who_waits() -> None:
    async def scenario(world: World) -> None:
        assert world.stack.roles.scheduler is not None
        await world.apply(
            [podgroup("a", 2, required=RACK), *pods("a", 2), podgroup("b", 3, required=RACK), *pods("b", 3)]
        )
        await world.settle()
        found = figures(world.stack.roles.scheduler.metrics.page())
        assert found['kai_podgroups_scheduled_by_action{action="allocate"}'] == 1
        assert found['kai_podgroups_acted_on_by_action{action="allocate"}'] >= 2
        assert found["kai_task_bind_latency_milliseconds_count"] == 2
        assert found["kai_placement_score_count"] == 1
        assert found['kai_pending_podgroups{reason="Unschedulable"}'] == 1
        waiting = await world.get("PodGroup", "b")
        assert waiting is not None
        created = seconds(waiting["metadata"]["creationTimestamp"])
        assert found["kai_pending_podgroup_oldest_timestamp_seconds"] == created
        assert found[f'kai_topology_largest_gang{{gpus="8",level="{RACK}",topology="tree"}}'] == 2
        assert found["kai_cycle_duration_seconds_count"] > 0

    watched(scenario)


def test_q8_a_scheduler_tells_the_shares_of_its_queues() -> None:
    async def scenario(world: World) -> None:
        assert world.stack.roles.scheduler is not None
        await world.apply([queue("a", 16), queue("b", 16), *hosts(["a1", "a2", "a3"], "a"), *hosts(["b1"], "b")])
        await world.settle()
        await world.apply(hosts(["b2", "b3"], "b"))
        await world.settle()
        found = figures(world.stack.roles.scheduler.metrics.page())
        told = [found[f'kai_queue_{name}{{queue_name="b"}}'] for name in ("fair_share_gpu", "allocated_gpus")]
        assert (told, found['kai_queue_asked_gpus{queue_name="b"}']) == ([16, 16], 24)
        assert found['kai_queue_asked_gpus{queue_name="default-parent-queue"}'] == 40

    watched(scenario, nodes=FOUR_HOSTS)


def test_k10_pods_that_had_to_go_are_counted_by_their_group() -> None:
    async def scenario(world: World) -> None:
        assert world.stack.roles.scheduler is not None
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        found = figures(world.stack.roles.scheduler.metrics.page())
        (evicted,) = [value for name, value in found.items() if name.startswith("kai_pod_group_evicted_pods_total")]
        assert (evicted, found["kai_total_preemption_attempts"]) == (2, 1)

    watched(scenario, nodes=ONE_RACK)


class _Role:
    """A role with a page of its own."""

    def trouble(self) -> str:
        return ""

    def figures(self) -> dict[str, float]:
        return {"leading": 1.0}

    async def run(self) -> None:
        pass

    def page(self) -> str:
        return "kai_cycle_duration_seconds_count 3.0\n"


def test_the_page_of_a_role_is_served_beside_the_figures_of_all() -> None:
    assert (
        figures(metrics_text({"scheduler": _Role()})).items()
        >= {
            'spinney_ready{role="scheduler"}': 1.0,
            'spinney_leading{role="scheduler"}': 1.0,
            "kai_cycle_duration_seconds_count": 3.0,
        }.items()
    )
