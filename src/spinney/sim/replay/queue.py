"""The line of gangs that wait: by priority, then by arrival.

Gangs of one shape wait behind each other: when the first of them does not fit, none of them does, so no more than one
of each is ever asked for. A refusal holds until there is more room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from spinney.api.placement.problem import Gang, Group

Place = tuple[int, int]
"""In the line: less priority is later, then whoever came later."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang in the line; `number` counts arrivals."""

    number: int
    came_s: int
    gang: Gang

    @property
    def place(self) -> Place:
        return -self.gang.priority, self.number


class WaitingQueue:
    """`fifo`: only whoever is first is asked for; else everybody in turn."""

    def __init__(self, fifo: bool = False) -> None:
        self._fifo = fifo
        self._shapes: dict[Group, list[tuple[Place, Waiting]]] = {}
        self._refused: set[Group] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, one: Waiting) -> None:
        heappush(self._shapes.setdefault(one.gang.root, []), (one.place, one))
        self._count += 1

    def hope(self) -> None:
        """There may be more room than before."""
        self._refused.clear()

    def advance(self, start: Callable[[Waiting], bool]) -> None:
        """Ask for everybody who may fit, in order; those that are started leave the line."""
        firsts = [(queue[0][0], shape) for shape, queue in self._shapes.items() if self._is_asked(shape)]
        heapify(firsts)
        while firsts:
            _, shape = heappop(firsts)
            if shape in self._refused:
                break
            queue = self._shapes[shape]
            if not start(queue[0][1]):
                self._refused.add(shape)
                if self._fifo:
                    break
                continue
            heappop(queue)
            self._count -= 1
            if queue:
                heappush(firsts, (queue[0][0], shape))
            else:
                del self._shapes[shape]

    def _is_asked(self, shape: Group) -> bool:
        """A line in which nobody overtakes has one first, who may have been refused."""
        return self._fifo or shape not in self._refused
