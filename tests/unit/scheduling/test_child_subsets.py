"""Gangs of which some children suffice, with each choice of them."""

from __future__ import annotations

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.core.scheduling.gang.demand import subsets

RESOURCES = ("cpu", "gpu")


def leaf(name: str, gpus: int, least: int = 1) -> PodSet:
    return PodSet(name, (1, gpus), least, least)


def names(root: Group) -> list[str]:
    return [pods.name for pods in root.pods] + [name for group in root.groups for name in names(group)]


def choices(root: Group, *running: str) -> list[list[str]]:
    gang = Gang("a", root, running=tuple([Running(path, "n") for path in running]))
    return [names(each.root) for each in subsets(gang, RESOURCES)]


def test_k14_each_choice_of_as_many_children_as_suffice_the_cheapest_first() -> None:
    root = Group("", pods=(leaf("a", 8), leaf("b", 1), leaf("c", 4)), min_groups=2)
    assert choices(root) == [["b", "c"], ["a", "b"], ["a", "c"]]


def test_k14_who_runs_is_in_every_choice() -> None:
    root = Group("", pods=(leaf("a", 8), leaf("b", 1), leaf("c", 4)), min_groups=2)
    assert choices(root, "c") == [["b", "c"], ["a", "c"]]
    assert choices(root, "a", "b", "c") == [["a", "b", "c"]]


def test_k14_choices_within_choices() -> None:
    inner = Group("g", pods=(leaf("a", 8), leaf("b", 1)), min_groups=1)
    assert choices(Group("", groups=(inner,), pods=(leaf("c", 4),))) == [["c", "b"], ["c", "a"]]
    assert choices(Group("", groups=(inner,), pods=(leaf("c", 4),)), "g/a") == [["c", "a"]]


def test_a_gang_without_a_choice_is_as_it_is() -> None:
    assert choices(Group("", pods=(leaf("a", 8), leaf("b", 1)))) == [["a", "b"]]


def test_choices_without_end_are_cut_short() -> None:
    many = Group("", pods=tuple(leaf(f"p{number}", number) for number in range(40)), min_groups=20)
    assert len(choices(many)) == 64
