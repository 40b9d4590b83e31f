"""What is wrong with topologies, what nodes propose, and who uses them, as text.

Problems come after the levels as their status has them, each with what to do. Proposals are YAML to apply, with the
reasons as comments; what cannot be printed is not, so that no comment ends before its line does. Names come from
servers and files: a terminal must not obey them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from spinney.api.documents import LINE, read_document
from spinney.cli.options import Screen
from spinney.cli.render.columns import columns, plain
from spinney.cli.render.topology_tree import middle_cut
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.view.discovery import Choice, Discovery, Proposal
from spinney.core.view.lint import ERROR, NOTE, WARNING, Checked, Lint, Problem
from spinney.core.view.topology_usage import TopologyUse

_NAMED = 3


def proposals_shown(found: Discovery, screen: Screen) -> str:
    documents = ["\n".join(_document(proposal, screen)) + "\n" for proposal in found.proposals]
    text = "---\n".join(documents)
    rest = [
        line for why, nodes in found.without for line in _comment(f"No proposal for {_nodes(nodes)}: {why}.", screen)
    ]
    return text + "".join(f"{line}\n" for line in rest)


def _document(proposal: Proposal, screen: Screen) -> Iterator[str]:
    yield from _comment(f"From the labels of {_nodes(proposal.nodes)}.", screen)
    if proposal.same_as:
        yield from _comment(f"The ClusterTopology {proposal.same_as} is there with the same levels.", screen)
    for why in _reasons(proposal):
        yield from _comment(why, screen, "  ")
    yield "apiVersion: grove.io/v1alpha1"
    yield "kind: ClusterTopology"
    yield f"metadata: {{name: {_text(proposal.name)}}}"
    yield "spec:"
    yield "  levels:"
    for level in proposal.levels:
        yield from (f"    {line}" for line in _comment(_figures(level), screen, indent=4))
        yield f"    - {{domain: {level.domain}, key: {level.key}}}"


def _text(name: str) -> str:
    """In quotes where YAML reads a number, a date, a truth value or nothing; names have no character that it minds."""
    is_text = not name[:1].isdigit() and read_document(name, limits=LINE) == name
    return name if is_text else f'"{name}"'


def _reasons(proposal: Proposal) -> Iterator[str]:
    for one in proposal.left_out:
        yield f"Left out {one.key}: {one.why}."
    for misses, found in groupby(proposal.incomplete, key=lambda one: one[1]):
        nodes = [name for name, _ in found]
        they_are = "it is" if len(nodes) == 1 else "they are"
        yield f"Label {_nodes(nodes)}: without {enumerated(misses)} {they_are} outside."
    for offer in proposal.offers:
        yield f"Nests as well, above {offer.above}: {offer.key} ({many(offer.domains, 'domain')})."


def _figures(level: Choice) -> str:
    size = many(level.most, "node") if level.least == level.most else f"{level.least} to {level.most} nodes"
    each = " each" if level.domains > 1 and level.least == level.most else ""
    counted = many(level.domains, "domain") + f" of {size}{each}" if level.most > 1 else many(level.domains, "host")
    remark = f"; {level.remark}" if level.remark else ""
    return f"{counted} ({level.source}){remark}"


def _nodes(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return f"{'node' if len(names) == 1 else 'nodes'} {enumerated(names)}"
    return f"{len(names)} nodes ({', '.join(names[: _NAMED - 1])} .. {names[-1]})"


def _comment(text: str, screen: Screen, hanging: str = "", indent: int = 0) -> list[str]:
    return textwrap.wrap(
        plain(text),
        screen.width - indent,
        initial_indent="# ",
        subsequent_indent=f"# {hanging}",
        break_long_words=False,
        break_on_hyphens=False,
    )


_COLORS = {ERROR: "red", WARNING: "yellow", NOTE: "blue"}
LISTED = 16
_BESIDES = 2 + 3 + 4 * 3 + len("NODES") + len("MISSING") + len("DOMAINS") + len("NOT NESTED")
_LEAST_KEY = 16
_HEAD = ("LEVEL", "KEY", "NODES", "MISSING", "DOMAINS", "NOT NESTED")


def problems_shown(found: Lint, notes: tuple[str, ...], screen: Screen) -> str:
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
    counted = ", ".join(many(count, name) for name, count in counts.items() if count)
    topologies = f"{len(found.topologies)} topolog{'y' if len(found.topologies) == 1 else 'ies'}"
    return f"{topologies}: {counted or 'no problems'}"


_USAGE_HEAD = ("TOPOLOGY", "PODCLIQUESET", "APPLIES")


def usage_table(found: Sequence[TopologyUse], *, headers: bool) -> str:
    rows = [(plain(one.topology), plain(one.podcliqueset), plain(_verdict_of(one))) for one in found]
    return columns([_USAGE_HEAD, *rows] if headers else rows)


def _verdict_of(one: TopologyUse) -> str:
    word = "yes" if one.applies else "no"
    return f"{word}: {one.why}" if one.why else word
