"""The graph from which partitions of a program are chosen: nodes, and parts that compute them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Part(NamedTuple):
    """A part that computes some nodes; its leaves are a bit mask of nodes."""

    nodes: tuple[int, ...]
    leaves: int


@dataclass(frozen=True)
class Dag:
    """Nodes in topological order.

    ``reads`` are the nodes that each is computed from directly; ``required`` says which are stored
    in any case (those that no other one reads must be); ``alike`` holds pairs, in order, that one
    part may compute. A part that needs a result of another part follows all results of that part,
    so parts can be ordered by their last results.
    """

    reads: tuple[tuple[int, ...], ...]
    required: tuple[bool, ...]
    alike: frozenset[tuple[int, int]] = field(default_factory=frozenset[tuple[int, int]])

    def wanted_beside(self, node: int, other: int) -> bool:
        """Return whether a part that does not compute ``other`` may read a stored ``node``."""
        reached = {node}
        for v in range(node, len(self.reads)):
            if v != other and not reached.isdisjoint(self.reads[v]):
                reached.add(v)
        return any(self.required[v] for v in reached)

    def inside(self, part: Part) -> list[int]:
        """Return the nodes that are computed in a part besides its results, the last first."""
        return sorted(self._walk(part)[0], reverse=True)

    def single(self, part: Part, node: int) -> Part:
        """Return the part that would compute one result of a part alone, with the others stored."""
        stored = part.leaves | sum(1 << u for u in part.nodes)
        return Part((node,), self._walk(Part((node,), stored))[1])

    def _walk(self, part: Part) -> tuple[set[int], int]:
        inside: set[int] = set()
        used = 0
        stack = list(part.nodes)
        while stack:
            for u in self.reads[stack.pop()]:
                if part.leaves >> u & 1:
                    used |= 1 << u
                elif u not in inside and u not in part.nodes:
                    inside.add(u)
                    stack.append(u)
        return inside, used

    def smaller(self, part: Part) -> Iterator[Part]:
        """Yield parts of the same single node with less inside, from the smallest on: its nodes
        join from the last to the first."""
        (node,) = part.nodes
        leaves = sum(1 << u for u in self.reads[node])
        for u in self.inside(part):
            yield Part(part.nodes, leaves)
            leaves &= ~(1 << u)
            leaves |= sum(1 << w for w in self.reads[u])
