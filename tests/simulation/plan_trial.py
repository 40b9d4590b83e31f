"""Workloads planned and then applied, one after the other in one world; where plan and world differ is told.

`python -m simulation.plan_trial <seed>` in `tests` repeats a seed.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kube_embedded.server.embedded import ServerOptions, build
from simulation.plan_workloads import (
    CLASSES,
    GPU,
    QUEUES,
    SHARED,
    borrowing,
    grown,
    in_queue,
    nodes,
    shared_queues,
    workload,
)
from simulation.trial import hush
from spinney.api.dynamo_conversion import from_list_form
from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.cli.wiring.api_servers import CONVERTERS
from spinney.cli.wiring.api_servers import _converted_here as definitions_converted_here
from spinney.core.scheduling.settings import Settings
from spinney.core.view.explanation import GangExplanation
from spinney.core.view.plan_result import PlanResult
from spinney.drive.client.errors import ApiStatusError
from spinney.drive.operator.settings_from_config import settings_of
from spinney.sim.event_loop import Sim, run
from spinney.sim.installed_roles import installed_rules
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.manifests import Manifest
from spinney.whatif.inputs.nodes import load_nodes
from spinney.whatif.inputs.operator_settings import (
    dynamo_admission_of,
    dynamo_settings_of,
    read_configuration,
)
from spinney.whatif.inputs.snapshot import read_snapshot
from spinney.whatif.request import PlanRequest, prepare_plan
from spinney.whatif.workloads import WorkloadNotFound, read_explanation

Json = dict[str, Any]
NAMES = frozenset({SCHEDULER_KAI, SCHEDULER_DEFAULT})
_POD = re.compile(r"pods? default/[\w.-]+")
_FIGURE = re.compile(r"\b\d+ GPUs")
_TAKER = re.compile(r"workload \S+")
GROVE = ("PodCliqueSet", "DynamoGraphDeployment", "PodGroup")


@dataclass(slots=True)
class Trial:
    """`different`: sentences. `figures`: how often what was foretold."""

    seed: int
    different: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)


@asynccontextmanager
async def whole_stack(sim: Sim, described: str) -> AsyncIterator[World]:
    """What `spinney up` runs, in simulated time: rules of admission, operator, pod-grouper, scheduler, Dynamo part."""
    told = read_configuration(None)
    rules = (installed_rules(topology=told.topology_aware_scheduling.enabled), dynamo_admission_of(told))
    server = build(ServerOptions(plugins=rules, converters=CONVERTERS), sim.clock, sim.dice)
    parts = Parts(
        nodes=load_nodes(described),
        behaviour=NodeBehaviour(heartbeat_s=0),
        operator=settings_of(told),
        scheduler=Settings(names=NAMES),
        dynamo=dynamo_settings_of(told),
    )
    async with World(sim.clock, sim.dice, parts, server=server) as world:
        await world.apply([*definitions_converted_here()])
        await world.stack.roles.scheduling.wait()
        await world.stack.roles.operating.wait()
        await world.stack.roles.deploying.wait()
        await world.apply([*CLASSES, *QUEUES])
        await world.settle(quiet_s=20)
        yield world


def play(seed: int, workloads: int = 10, shared: bool = False) -> Trial:
    """One world; each workload is planned, applied, compared, and sometimes taken away.

    `shared`: queues share it, which lend and borrow.
    """
    hush()
    trial, dice = Trial(seed), Random(f"plan {seed}{' shared' if shared else ''}")

    async def main(sim: Sim) -> None:
        async with whole_stack(sim, nodes(dice)) as world:
            if shared:
                gpus = sum(int(node["status"]["allocatable"][GPU]) for node in await world.list("Node"))
                await world.apply([*shared_queues(dice), borrowing(dice, gpus)])
                await world.settle(quiet_s=20)
            for number in range(workloads):
                name = f"w{number}"
                manifests = workload(dice, name)
                manifests = in_queue(manifests, dice.choice(SHARED)) if shared else manifests
                is_there = await _compare(world, trial, name, manifests)
                if is_there and dice.random() < 0.3 and (more := grown(manifests)) is not None:
                    await _compare(world, trial, name, [more], grows=True)
                if dice.random() < 0.5:
                    await _take_away(world, manifests)
                    await world.settle(quiet_s=20)

    run(main, seed=seed, limit_s=1_000_000)
    return trial


async def _compare(world: World, trial: Trial, name: str, manifests: list[Json], grows: bool = False) -> bool:
    """Whether the workload is there."""
    forecast = await foretold(world, manifests)
    kind = manifests[-1]["kind"]
    trial.figures[f"{kind} {'grows: ' if grows else ''}{_short(forecast)}"] += 1
    before = {pod["metadata"]["uid"]: pod for pod in await world.list("Pod")}
    refusal = await _apply(world, manifests)
    if refusal or forecast.workloads[0].refusals:
        told = "; ".join(forecast.workloads[0].refusals)
        if bool(refusal) != bool(told) and not (told and await _is_complained_of(world, kind, name)):
            trial.different.append(f"{kind} {name}: applied: {refusal or 'taken'}; planned: {told or 'taken'}")
        return False
    await world.settle(quiet_s=20)
    try:
        story = await read_explanation(world.client, "default", name, kind)
    except WorkloadNotFound as error:
        if forecast.gangs:
            trial.different.append(f"{kind} {name}: {error}; planned: {_short(forecast)}")
        return False
    named = {gang.name for gang in forecast.gangs}
    gangs = [gang for gang in story.gangs if not grows or gang.name in named]
    planned, real = _seen(forecast, kind, grows), _happened(gangs, kind, grows)
    if planned != real:
        trial.different.append(f"{kind} {name}{' grown' if grows else ''}: planned {planned}, happened {real}")
    gone = set(before) - {pod["metadata"]["uid"] for pod in await world.list("Pod")}
    victims = sorted(f"default/{before[uid]['metadata']['name']}" for uid in gone)
    trial.figures["evictions"] += len(victims)
    expected = sorted(victim.pod for gang in forecast.gangs for victim in gang.victims)
    if victims != expected:
        trial.different.append(f"{kind} {name}: planned to evict {expected}, evicted {victims}")
    takers = sum(bool(gang.victims) for gang in forecast.gangs)
    whys = {_told(victim.why, takers) for gang in forecast.gangs for victim in gang.victims if not victim.to}
    trial.figures["reclaims"] += sum("Queue" in why for why in whys)
    said = {_told(event["message"], takers) for event in await world.list("Event") if event["reason"] == "Evict"}
    if not whys <= said:
        trial.different.append(f"{kind} {name}: planned to say {sorted(whys - said)}, said {sorted(said)}")
    return True


def _told(message: str, takers: int) -> str:
    """Without the name of who takes. Of several who take, what the later ones find depends on who made victims anew."""
    text = _TAKER.sub("workload", message)
    return text if takers < 2 else _FIGURE.sub("some", text)


async def foretold(world: World, manifests: list[Json]) -> PlanResult:
    given = [Manifest("test", manifest) for manifest in manifests]
    question = PlanRequest(given, scheduler=Settings(names=NAMES))
    placing = await prepare_plan(question, await read_snapshot(world.client), world.client, world.clock.now())
    return placing.answer()


def _short(forecast: PlanResult) -> str:
    if any(one.refusals for one in forecast.workloads):
        return "refused"
    return ",".join(sorted({gang.verdict for gang in forecast.gangs}))


def _seen(forecast: PlanResult, kind: str, grows: bool) -> Any:
    """Of a gang that grows it is told how many pods have nodes, not whether it fits: it runs."""
    return compared_gangs([(grows or gang.fits, gang.explained) for gang in forecast.gangs], kind)


def _happened(gangs: list[GangExplanation], kind: str, grows: bool) -> Any:
    return compared_gangs([(grows or any(member.node for member in gang.members), gang) for gang in gangs], kind)


def compared_gangs(gangs: list[tuple[bool, GangExplanation]], kind: str) -> Any:
    """The level and the domain of every group, and how many have nodes; by name, and what is told, where names are the
    same.
    """
    found = []
    for fits, gang in gangs:
        places = [(place.group, place.level, place.domain, place.bound) for place in gang.places]
        name = gang.name if kind in GROVE else ""
        words = [_POD.sub("pod <name>", line) for line in gang.lines] if kind in GROVE else []
        found.append((name, fits, gang.state, tuple(places), len(gang.members), tuple(words)))
    return sorted(found)


async def _apply(world: World, manifests: list[Json]) -> str:
    try:
        for manifest in manifests:
            listed = isinstance(manifest["spec"].get("services"), list)
            await world.apply([from_list_form(manifest) if listed else manifest])
    except ApiStatusError as error:
        return str(error)
    return ""


async def _is_complained_of(world: World, kind: str, name: str) -> bool:
    """Taken by the server, and then a controller said what is wrong."""
    await world.settle(quiet_s=20)
    pods = [pod for pod in await world.list("Pod") if pod["metadata"]["name"].startswith(f"{name}-")]
    return all(not pod["spec"].get("nodeName") for pod in pods)


async def _take_away(world: World, manifests: list[Json]) -> None:
    for manifest in manifests:
        if await world.get(manifest["kind"], manifest["metadata"]["name"]) is not None:
            await world.delete(manifest["kind"], manifest["metadata"]["name"])


if __name__ == "__main__":
    for given in sys.argv[1:]:
        found = play(int(given))
        print(found.seed, dict(found.figures))
        print("\n".join(found.different))
