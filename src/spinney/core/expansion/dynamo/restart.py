"""A restart that was asked for: which components are marked with it now, and how far it is.

Marks that components carry stay when nothing is asked for: taking one away would make other pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spinney.api.changes import Json

RESTARTING, COMPLETED = "Restarting", "Completed"


@dataclass(frozen=True, slots=True)
class Restart:
    """`marks` by component; `status` as the deployment tells it, None where no restart is asked for."""

    marks: Mapping[str, str]
    status: Json | None = None


def restart_of(deployment: Json, carried: Mapping[str, str], busy: Collection[str], settled: bool) -> Restart:
    """The next step. `carried`: marks of now; `busy`: components that are not ready; `settled`: no update is on."""
    asked = deployment["spec"].get("restart") or {}
    name = str(asked.get("id") or "")
    if not name:
        return Restart(dict(carried))
    before = (deployment.get("status") or {}).get("restart") or {}
    if (before.get("observedID"), before.get("phase")) == (name, COMPLETED):
        return Restart(dict(carried), {"observedID": name, "phase": COMPLETED})
    strategy = asked.get("strategy") or {}
    order = _order(deployment, strategy.get("order") or ())
    open_ = [one for one in order if carried.get(one) != name or one in busy or not settled]
    if strategy.get("type", "Sequential") == "Sequential":
        open_ = _one_of(open_, order, carried, name, settled)
    marks = {**carried, **dict.fromkeys(open_, name)}
    phase = RESTARTING if open_ else COMPLETED
    return Restart(marks, {"observedID": name, "phase": phase, **({"inProgress": open_} if open_ else {})})


def _one_of(open_: list[str], order: list[str], carried: Mapping[str, str], name: str, settled: bool) -> list[str]:
    """The one whose turn it is: the last that was begun while pods change, else the next."""
    begun = [one for one in order if carried.get(one) == name]
    return begun[-1:] if begun and not settled else open_[:1]


def _order(deployment: Json, first: Collection[str]) -> list[str]:
    """Those that are named come first, the others in the order of the deployment."""
    known = [one["name"] for one in deployment["spec"].get("components") or ()]
    named = [one for one in first if one in known]
    return [*named, *(one for one in known if one not in named)]
