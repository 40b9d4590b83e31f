"""Problems of topologies as text: the levels as their status has them, then what is wrong and what to do.

Names come from servers and files: a terminal must not obey them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from spinney.cli.options import Screen
from spinney.cli.render.columns import columns, plain
from spinney.cli.render.topology_tree import middle_cut
from spinney.core.placement.explain.reasons import many
from spinney.core.view.lint import ERROR, NOTE, WARNING, Checked, Lint, Problem

_COLORS = {ERROR: "red", WARNING: "yellow", NOTE: "blue"}
LISTED = 16
_BESIDES = 2 + 3 + 4 * 3 + len("NODES") + len("MISSING") + len("DOMAINS") + len("NOT NESTED")
_LEAST_KEY = 16
_HEAD = ("LEVEL", "KEY", "NODES", "MISSING", "DOMAINS", "NOT NESTED")


def shown(found: Lint, notes: tuple[str, ...], screen: Screen) -> str:
    lines: list[str] = []
    for topology in found.topologies:
        lines += [*_levels(topology, screen), ""]
    for problem in found.problems:
        lines += _problem(problem, screen)
    lines += [""] if found.problems else []
    lines += [f"note: {plain(note)}" for note in notes]
    lines.append(_verdict(found))
    return "\n".join(lines) + "\n"


def _levels(topology: Checked, screen: Screen) -> Iterator[str]:
    yield f"{plain(topology.name)}: {many(topology.nodes, 'node')}"
    widest = screen.width - _BESIDES - max((len(str(level["domain"])) for level in topology.levels), default=0)
    rows = [
        (
            plain(str(level["domain"])),
            middle_cut(plain(str(level["key"])), max(_LEAST_KEY, widest), screen),
            *(str(level.get(count, 0)) for count in ("nodes", "nodesMissing", "domains")),
            _counted(len(level.get("notNested", ()))),
        )
        for level in topology.levels
    ]
    yield from (f"  {line}" for line in columns([_HEAD, *rows]).splitlines())


def _counted(torn: int) -> str:
    """The status lists no more than so many."""
    return f"{torn}+" if torn >= LISTED else str(torn)


def _problem(problem: Problem, screen: Screen) -> Iterator[str]:
    about = f"{plain(problem.topology)}: " if problem.topology else ""
    first = textwrap.wrap(
        f"{problem.severity}: {about}{plain(problem.text)}",
        screen.width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if screen.color:
        first[0] = first[0].replace(problem.severity, click.style(problem.severity, fg=_COLORS[problem.severity]), 1)
    yield from first
    yield from textwrap.wrap(
        plain(problem.hint),
        screen.width,
        initial_indent="  -> ",
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _verdict(found: Lint) -> str:
    counts = {name: sum(problem.severity == name for problem in found.problems) for name in (ERROR, WARNING, NOTE)}
    told = ", ".join(many(count, name) for name, count in counts.items() if count)
    topologies = f"{len(found.topologies)} topolog{'y' if len(found.topologies) == 1 else 'ies'}"
    return f"{topologies}: {told or 'no problems'}"
