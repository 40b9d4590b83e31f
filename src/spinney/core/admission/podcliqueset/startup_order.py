"""The order in which cliques start: known names, no circles, linear in the number of cliques and dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kube_apimachinery.field_errors import FieldError, duplicate, invalid, required
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.admission.findings import Findings, choice

EXPLICIT = "CliqueStartupTypeExplicit"
IN_ORDER = "CliqueStartupTypeInOrder"


def check_startup(podcliqueset: PodCliqueSet, found: Findings) -> None:
    template = podcliqueset.spec.template
    if template.clique_startup_type == EXPLICIT:
        found.refuse_all(_dependency_errors(podcliqueset))
        return
    for index, clique in enumerate(template.cliques):
        if clique.spec.starts_after:
            path = f"spec.template.cliques[{index}].spec.startsAfter"
            found.warn(f"{path} is ignored unless cliqueStartupType is {EXPLICIT}")


def _dependency_errors(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    cliques = podcliqueset.spec.template.cliques
    known = {clique.name for clique in cliques}
    shown = choice(known)
    for index, clique in enumerate(cliques):
        path = f"spec.template.cliques[{index}].spec.startsAfter"
        seen: set[str] = set()
        for place, parent in enumerate(clique.spec.starts_after):
            where = f"{path}[{place}]"
            if not parent:
                yield required(where, "must name a clique")
            elif parent == clique.name:
                yield invalid(where, parent, "clique must not start after itself")
            elif parent not in known:
                yield invalid(where, parent, f"no such clique; the cliques are [{shown}]")
            elif parent in seen:
                yield duplicate(where, parent)
            seen.add(parent)
    circle = find_cycle(
        {one.name: [p for p in one.spec.starts_after if p in known and p != one.name] for one in cliques}
    )
    if circle:
        yield invalid("spec.template.cliques", " -> ".join(circle), "clique must not have circular dependencies")


def find_cycle(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """One circle, from a name back to itself; empty if there is none. Depth first, without recursion."""
    done: set[str] = set()
    for start in parents:
        if start in done:
            continue
        way: list[str] = [start]
        on_way = {start}
        open_: list[Iterator[str]] = [iter(parents[start])]
        while open_:
            parent = next(open_[-1], None)
            if parent is None:
                open_.pop()
                on_way.discard(way[-1])
                done.add(way.pop())
            elif parent in on_way:
                return [*way[way.index(parent) :], parent]
            elif parent not in done:
                way.append(parent)
                on_way.add(parent)
                open_.append(iter(parents[parent]))
    return []
