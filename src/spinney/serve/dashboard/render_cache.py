"""What pages keep for the next look: drawings and findings that only nodes and topologies can change."""

from __future__ import annotations

from spinney.core.view.lint import Lint, lint
from spinney.core.view.tree import Tree, View
from spinney.serve.dashboard.boxes import Box, Drawing, held_by
from spinney.serve.dashboard.data_sources import Key
from spinney.serve.dashboard.model import Model

_MOST_DRAWINGS = 8


class RenderCache:
    """Drawings by tree and chosen gang, the least used of which are forgotten; and what is wrong with topologies."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._drawings: dict[tuple[int, str, Key | None], Drawing] = {}
        self._lint: tuple[int, Lint] | None = None

    def boxes(self, view: View, tree: Tree, gang: Key | None) -> tuple[Box, ...]:
        wanted = (self._model.structure, tree.name, gang)
        drawing = self._drawings.pop(wanted, None) or Drawing(tree, view.resources)
        self._drawings[wanted] = drawing
        while len(self._drawings) > _MOST_DRAWINGS:
            del self._drawings[next(iter(self._drawings))]
        pods = self._model.pods_of(gang) if gang is not None else []
        return drawing.boxes(tree, held_by(pods))

    def lint(self) -> Lint:
        if self._lint is None or self._lint[0] != self._model.structure:
            seen = self._model.views
            found = lint(list(seen.nodes), list(seen.cluster_topologies), list(seen.topologies))
            self._lint = (self._model.structure, found)
        return self._lint[1]
