"""All judges together on one answer: what the long suite counts and the short one demands to be zero."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from placement_oracle import exact
from placement_oracle.cheapest import cheapest, price_of
from placement_oracle.checker import missed_extras, violations
from placement_oracle.reading import Document, World, read
from placement_oracle.rules import split
from placement_oracle.state import state_after
from placement_oracle.values import IDEAL, values_of


@dataclass(slots=True)
class Verdict:
    """Figures per gang, and a sentence for everything that is wrong."""

    figures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, figure: str, sentence: str) -> None:
        self.figures[figure] += 1
        self.wrong.append(f"{figure}: {sentence}")


def judge(problem: Document, result: Document) -> Verdict:
    """Checks an answer against rules, exact feasibility and exact optimum."""
    world, verdict = read(problem), Verdict()
    for sentence in violations(world, result):
        verdict.add("violations", sentence)
    if verdict.wrong:
        return verdict
    for sentence in missed_extras(world, result):
        verdict.add("missed extras", sentence)
    for number, answer in enumerate(result["gangs"]):
        verdict.figures["gangs"] += 1
        verdict.figures[answer["outcome"]] += 1
        try:
            _judge_gang(world, result["gangs"], number, verdict)
        except exact.NotProved:
            verdict.figures["undecided by the judge"] += 1
    return verdict


def _judge_gang(world: World, answers: list[Document], number: int, verdict: Verdict) -> None:
    match answers[number]["outcome"]:
        case "placed":
            verdict.figures["feasible"] += 1
            _judge_waiting(world, answers, number, verdict)
            _judge_values(world, answers, number, verdict)
        case "infeasible":
            if can_be_placed(world, answers, number):
                verdict.figures["feasible"] += 1
                verdict.add("false infeasible", world.gangs[number].name)
        case "exhausted":
            if can_be_placed(world, answers, number):
                verdict.figures["feasible"] += 1
                verdict.add("exhausted on feasible", world.gangs[number].name)
            else:
                verdict.figures["exhausted on infeasible"] += 1


def can_be_placed(world: World, answers: list[Document], number: int) -> bool:
    """Is there room, at worst by evicting others? False where the contract leaves it open."""
    decided, gang = answers[:number], world.gangs[number]
    state = state_after(world, decided)
    if not any(exact.missing(state, gang).values()) and gang.running:
        return False  # only extras are left, and the running members may break a rule by themselves
    if exact.feasible(world, number, decided, releasing=True):
        return True
    return bool(world.options.get("preempt")) and cheapest(world, number, decided) is not None


def _judge_waiting(world: World, answers: list[Document], number: int, verdict: Verdict) -> None:
    answer = answers[number]
    if answer.get("victims"):
        price, least = price_of(world, answers, number), cheapest(world, number, answers[:number])
        if least is None and world.gangs[number].running:
            return  # the exact judge refuses members that break a rule by themselves; the checker has judged the rest
        if price != least:
            verdict.add("victims not cheapest", f"{world.gangs[number].name}: {price}, possible {least}")
    elif answer["waits"] and not answer.get("moves") and exact.feasible(world, number, answers[:number]):
        verdict.add("waits needlessly", world.gangs[number].name)


def _judge_values(world: World, answers: list[Document], number: int, verdict: Verdict) -> None:
    gang, answer = world.gangs[number], answers[number]
    if not _comparable(world, answers, number):
        return
    verdict.figures["with preferences"] += 1
    if not answer["proved"]:
        return
    verdict.figures["proved"] += 1
    members = [(placement["pods"], world.seat(placement)) for placement in answer["placements"]]
    state = state_after(world, answers[:number])
    reached = values_of(world, gang, state.running[gang.name] + members)
    if all(value == IDEAL for _, value in reached):
        return
    best = exact.optimum(world, number, answers[:number])
    if reached != best:
        verdict.add("optimum missed", f"{gang.name}: reached {reached}, optimum {best}")


def _comparable(world: World, answers: list[Document], number: int) -> bool:
    """Values are defined on the minimum: no pods above it, no choice of children, nobody who waited before.

    And the members that run already keep their own rules: what holds where they do not is left open.
    """
    gang, answer = world.gangs[number], answers[number]
    state = state_after(world, answers[:number])
    return (
        bool(gang.constrained("preferred"))
        and bool(answer["placements"])
        and not list(split(state, gang, [], state.running[gang.name]))
        and all(node.least == len(node.children) for node in gang.root.walk())
        and len(answer["placements"]) == sum(exact.missing(state, gang).values())
        and not answer.get("victims")
        and not answer.get("moves")
        and not any(earlier.get("waits") for earlier in answers[:number])
    )
