"""The cuts of a program as a graph of states: the possible decisions, and the states that they lead
to.

The effect of previous decisions on later parts consists of two things: for each decided node that
some undecided one reads, the leaves from which it would be computed (itself, if it is stored); and
the parts that may still get another result. Choices that agree in these are one state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from math import inf
from typing import Any

import numpy as np

from mirage.search.program.dag import Dag, Part

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Level:
    """The choices at one node: the states before and after (-1: none), and the parts that are paid
    for.

    They are sorted by the state before; ``starts`` says where the choices of each state start.
    """

    starts: Array
    to: Array
    paid: Array  # numbers of parts, 0 for none: one row per choice


LEAST_WIDTH = 300
"""The least number of states of a cut that are kept, however little time is left."""
AT_EASE = 0.25
"""The share of the time after which the remaining time is considered."""

_State = tuple[tuple[int, ...], tuple[Part, ...]]
"""The leaves of each decided node that is still read, and the parts that may get another result."""


class _Pace:
    """The number of states of a cut that can be kept if all ``nodes`` are to be decided in time."""

    def __init__(self, deadline: float, nodes: int) -> None:
        self._deadline, self._nodes = deadline, nodes
        self._start, self._states = time.perf_counter(), 0

    def width(self, node: int, states: int) -> float:
        """Return the number of states to keep, after ``states`` before ``node``: as many as fit, at
        the rate so far, into an equal share of the remaining time; unlimited at first."""
        self._states += states
        now = time.perf_counter()
        if now - self._start < AT_EASE * (self._deadline - self._start):
            return inf
        rate = self._states / max(now - self._start, 1e-6)
        share = max(0.0, self._deadline - now) / max(1, self._nodes - node - 1)
        return max(LEAST_WIDTH, int(rate * share))


class Cuts:
    """All states of a graph whose parts are ``possible``, with up to ``results`` in a part. If a
    part is not possible, neither is a part with more inside. ``bound`` gives a part's least cost.
    More than ``width`` states of a cut are cut down to the most promising; ``cut_off`` counts the
    others. ``hurried`` says whether fewer were kept in order to end by ``deadline`` (on the clock
    of ``time.perf_counter``). Raises :class:`ValueError` if a node that nothing reads need not be
    stored.
    """

    def __init__(
        self,
        dag: Dag,
        possible: Callable[[Part], bool],
        bound: Callable[[Part], float],
        width: int,
        results: int = 1,
        deadline: float = inf,
    ) -> None:
        self.dag = dag
        self.parts: list[Part] = []
        self.numbers: dict[Part, int] = {}  # from 1 on
        self.bounds = [0.0]  # by number
        self.states = self.cut_off = 0
        self._possible, self._bound, self._results = possible, bound, results
        self._partners = [0] * len(dag.reads)
        for u, w in dag.alike:
            self._partners[u] |= 1 << w
        self._own: dict[Part, tuple[int, int]] = {}
        self._usable: dict[Part, bool] = {}
        self.hurried = False
        self.levels = self._build(width, _Pace(deadline, len(dag.reads)))

    def _build(self, width: int, pace: _Pace) -> list[Level]:
        reads = self.dag.reads
        last = [-1] * len(reads)
        for v, before in enumerate(reads):
            for u in before:
                last[u] = v
        levels: list[Level] = []
        states: dict[_State, float] = {((), ()): 0.0}
        open_: list[int] = []
        for v, before in enumerate(reads):
            if last[v] < 0 and not self.dag.required[v]:
                raise ValueError(f"expected node {v} to be stored, as nothing reads it")
            places = [open_.index(u) for u in before]
            kept = [i for i, u in enumerate(open_) if last[u] > v]
            after: dict[_State, float] = {}
            moves: list[list[tuple[_State, list[int]]]] = []
            for (cut, pending), least in states.items():
                leaves = 0
                for i in places:
                    leaves |= cut[i]
                rest = tuple(cut[i] for i in kept)
                choices: list[tuple[_State, list[int]]] = []
                for own, parts, read in self._choices(v, leaves, pending):
                    still = tuple(p for p in parts if self._open(p, v, read))
                    closed = [self._number(p) for p in parts if p not in still]
                    new = ((*rest, own) if last[v] > v else rest), still
                    paid = least + sum(self.bounds[n] for n in closed)
                    after[new] = min(after.get(new, inf), paid)
                    choices.append((new, closed))
                moves.append(choices)
            open_ = [open_[i] for i in kept] + [v] * (last[v] > v)
            most = int(min(width, pace.width(v, len(states))))
            if len(after) > most:
                self.cut_off += len(after) - most
                self.hurried |= most < width
                after = self._cheapest(after, open_, most)
            levels.append(self._level(moves, after))
            self.states += len(after)
            states = after
        return levels

    def _choices(
        self, v: int, leaves: int, pending: tuple[Part, ...]
    ) -> Iterator[tuple[int, tuple[Part, ...], int]]:
        """Yield the leaves from which later parts compute the node, the parts that are not paid for
        yet, and the nodes that a part has read."""
        alone = Part((v,), leaves)
        if not self._is_possible(alone):
            return
        if not self.dag.required[v]:
            yield leaves, pending, 0
        yield 1 << v, (*pending, alone), leaves
        for i, part in enumerate(pending):
            own, partners = self._bits(part)
            if partners >> v & 1:
                joint = Part((*part.nodes, v), (part.leaves | leaves) & ~own)
                if self._is_possible(joint):
                    yield 1 << v, (*pending[:i], joint, *pending[i + 1 :]), leaves & ~own

    def _bits(self, part: Part) -> tuple[int, int]:
        """Return the results of a part, and the nodes that may join them, as bits."""
        if part not in self._own:
            own, partners = 0, -1
            for u in part.nodes:
                own |= 1 << u
                partners &= self._partners[u]
            full = len(part.nodes) >= self._results
            self._own[part] = own, 0 if full else partners
        return self._own[part]

    def _open(self, part: Part, node: int, read: int) -> bool:
        """Return whether a part may get another result after a node: no part needs its results
        yet."""
        own, partners = self._bits(part)
        return not own & read and partners >> (node + 1) != 0

    def _is_possible(self, part: Part) -> bool:
        if part not in self._usable:
            self._usable[part] = self._possible(part)
        return self._usable[part]

    def _cheapest(
        self, states: dict[_State, float], open_: list[int], width: int
    ) -> dict[_State, float]:
        """Return the most promising states, assuming that everything that is still read is stored
        now. The state in which everything is stored by separate parts is always among them, so the
        end can always be reached."""

        def promise(state: _State) -> tuple[float, _State]:
            cut, pending = state
            parts = {Part((u,), x) for u, x in zip(open_, cut, strict=True) if x != 1 << u}
            return states[state] + sum(
                self.bounds[self._number(p)] for p in (*parts, *pending)
            ), state

        kept = nsmallest(width, states, key=promise)
        plain = next((state for state in states if self._is_plain(state, open_)), None)
        if plain is not None and plain not in kept:
            kept[-1] = plain
        return {state: states[state] for state in kept}

    def _is_plain(self, state: _State, open_: list[int]) -> bool:
        """Return whether everything that is still read is stored, and no open part computes more
        inside."""
        cut, pending = state
        return all(x == 1 << u for u, x in zip(open_, cut, strict=True)) and not any(
            len(part.nodes) > 1 or self.dag.inside(part) for part in pending
        )

    def _level(
        self, moves: list[list[tuple[_State, list[int]]]], after: dict[_State, float]
    ) -> Level:
        index = {state: i for i, state in enumerate(after)}
        starts: list[int] = []
        to: list[int] = []
        paid: list[list[int]] = []
        for choices in moves:
            starts.append(len(to))
            for state, closed in choices or [(None, [])]:
                to.append(-1 if state is None else index.get(state, -1))
                paid.append(closed)
        most = max(map(len, paid), default=0)
        rows = [[*p, *[0] * (most - len(p))] for p in paid]
        shape = len(to), most
        return Level(
            np.array(starts, dtype=np.int64),
            np.array(to, dtype=np.int64),
            np.array(rows, dtype=np.int64).reshape(shape),
        )

    def _number(self, part: Part) -> int:
        number = self.numbers.get(part)
        if number is None:
            number = self.numbers[part] = len(self.parts) + 1
            self.parts.append(part)
            self.bounds.append(self._bound(part))
        return number
