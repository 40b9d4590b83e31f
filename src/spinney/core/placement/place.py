"""Runs the engine on a complete problem: gangs in order, one decision each."""

from __future__ import annotations

from spinney.api.placement.problem import Problem
from spinney.api.placement.result import Result
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import Engine


def place(problem: Problem) -> Result:
    """Decide every gang of a problem in its order."""
    inventory = Inventory.of(problem.resources, problem.topologies, problem.nodes)
    engine = Engine(inventory, {topology.name: topology for topology in problem.topologies}, problem.options)
    for gang in problem.gangs:
        engine.admit_running(gang)
    return Result(tuple(engine.decide(gang) for gang in problem.gangs))
