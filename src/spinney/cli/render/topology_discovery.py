"""Proposed topologies as YAML to apply, with the reasons as comments.

Names and values come from nodes: what cannot be printed is not, so that no comment ends before its line does.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from spinney.api.documents import LINE, read_document
from spinney.cli.options import Screen
from spinney.cli.render.columns import plain
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.view.discovery import Choice, Discovery, Proposal

_NAMED = 3


def shown(found: Discovery, screen: Screen) -> str:
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
