"""The work of single ops of a derivation, for many sizes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mirage import _target
from mirage.cost.accountant import Accountant, Around, Operands
from mirage.cost.boxes import starts_anywhere
from mirage.cost.compilable import (
    FEW_ROWS,
    MAX_BOX,
    MAX_BOX_RANK,
    MAX_COLUMNS,
    MAX_GROUP_ROWS,
    MAX_LONG,
    MAX_ROWS,
)
from mirage.cost.skewed_rows import is_odd, may_skew
from mirage.cost.target import Target
from mirage.cost.uniform import somewhere, uniform, where
from mirage.cost.warpgroup_limits import instruction_depth
from mirage.search.algebra.atoms import InAtom
from mirage.search.kernel.derivations.derive import Goal
from mirage.search.kernel.derivations.moves import Accumulate, Edge, Load, Product
from mirage.search.kernel.estimates.goal_tiles import GoalTiles
from mirage.search.kernel.loop_nests.phases import Where
from mirage.semantics.scalar import DType

Num = Any


def readers_of(edges: Iterable[Edge]) -> Mapping[Goal, frozenset[str]]:
    """Return the axes along which products contract each goal that some edge reads; the empty text
    stands for other ops that read its elements."""
    found: dict[Goal, frozenset[str]] = {}
    for edge in edges:
        axis = edge.axis if isinstance(edge, Product) else ""
        for child in edge.children:
            found[child] = found.get(child, frozenset()) | {axis}
    return found


@dataclass
class EdgeAccounts(GoalTiles):
    """The work of the edges of one AND-OR graph, over columns of sizes."""

    half: bool
    tf32: bool
    """Whether f32 factors of products may be rounded to TF32."""
    coarse: frozenset[int]
    """The tensors of 8-bit floats whose products may be summed as in hardware."""
    shifted: int | None
    """The tensor whose boxes warpgroups shift, if there is one."""
    target: Target

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.derivations.kind
        self._shares: dict[tuple[tuple[str, ...], tuple[str, ...]], Num] = {}
        self._skews: dict[tuple[InAtom, frozenset[str]], Num] = {}
        self.any_odd = any(is_odd(tensor.type) for tensor in self.tensors)
        self.readers: Mapping[Goal, frozenset[str]] | None = None
        """The readers of goals in the derivation whose work is counted, if there is one
        (:func:`readers_of`)."""
        self._loads: dict[Goal, tuple[int, bool, str]] = {}
        self._multiplied: dict[Goal, bool] = {}
        self._around = {where: Around() for where in Where}
        if kind.loop is not None and kind.inner is not None:
            steps = self.columns.steps[kind.loop]
            slots = np.minimum(self.columns.stages, steps)
            self._around[Where.LOOP] = Around(steps, slots, looped=True)
            self._around[Where.INNER] = Around(steps, crowded=True)

    @cached_property
    def groups(self) -> Num:
        """Where warpgroups multiply."""
        return uniform(self.columns.warpgroups)

    def account(self, account: Accountant, edge: Edge) -> Num:
        """Add the edge's work; return where the sizes permit it."""
        goal = edge.goal
        where = self.derivations.where
        if goal[1] == 2:
            return np.True_
        labels = self.labels(goal)
        inside = self.in_loop(goal)
        size = self.elements(labels)
        if edge.reads:
            for child in edge.children:
                width = self._load_width(child)
                if width:
                    account.around = self._around[where(child)]
                    account.fetch(self.elements(self.labels(child)), width, self.in_loop(child))
        account.around = self._around[where(goal)]
        return self.fits(labels) & edge.account(self, account, size, inside)

    def accumulate(self, account: Accountant, edge: Accumulate, of_matmul: bool) -> None:
        """Add the work of summing over a loop's steps."""
        child = edge.children[0]
        account.around = self._around[self.derivations.where(child)]
        size = self.elements(self.labels(edge.goal))
        account.accumulate(size, of_matmul, self.in_loop(child))

    def load(self, account: Accountant, edge: Load, size: Num, inside: bool) -> Num:
        """Add the work of a load; return where the sizes permit it."""
        atom = self.derivations.algebra.atoms[edge.atom]
        assert isinstance(atom, InAtom)
        own = self.tensors[atom.tensor].type
        run, skewed = self._run(atom.dims), self._skewed(edge.goal)
        shifted = self.groups & (atom.tensor == self.shifted)
        account.load(size, run, own, inside, edge.goal in self.factors, skewed, shifted)
        # converted tensors are loaded into registers
        direct = own.dtype.in_tile is not own.dtype
        fits = self.map_ok(atom.dims)
        ring = self._ring(edge.goal)
        return fits if direct or not somewhere(ring) else fits & (~ring | self._box(atom))

    @cached_property
    def factors(self) -> Mapping[Goal, frozenset[str]]:
        """The goals that products may read, and the axes along which these contract them."""
        edges = (edge for some in self.derivations.edges.values() for edge in some)
        return readers_of(edge for edge in edges if isinstance(edge, Product))

    def of_product(self, goal: Goal) -> bool:
        """Return whether a goal may be computed from a product."""
        found = self._multiplied.get(goal)
        if found is None:
            edges = self.derivations.edges.get(goal, ())
            found = self._multiplied[goal] = any(
                isinstance(edge, Product) or any(map(self.of_product, edge.children))
                for edge in edges
            )
        return found

    def _skewed(self, goal: Goal) -> Num:
        """Return where a goal is loaded as a tile with skewed rows: only products read it, and
        contract it along its rows."""
        odd = self.odd_load(goal)
        if odd is None:
            return np.False_
        found = self._skews.get(odd)
        if found is None:
            atom, contracted = odd
            tile = [self.elements(dim) for dim in atom.dims]
            along = bool(contracted) and contracted <= set(atom.dims[-1])
            found = may_skew(self.tensors[atom.tensor].type, tile) & along
            found = self._skews[odd] = uniform(found & ~self.groups)
        return found

    def odd_load(self, goal: Goal) -> tuple[InAtom, frozenset[str]] | None:
        """Return how a goal is loaded whose tensor's rows start at odd elements, and the axes along
        which it is contracted: by the derivation's products or, if no derivation is chosen yet, by
        any product. None for other goals."""
        if not self.any_odd:
            return None
        for edge in self.derivations.edges.get(goal, ()):
            if isinstance(edge, Load):
                atom = self.derivations.algebra.atoms[edge.atom]
                if isinstance(atom, InAtom) and is_odd(self.tensors[atom.tensor].type):
                    readers = self.factors if self.readers is None else self.readers
                    return atom, readers.get(goal, frozenset())
        return None

    def _ring(self, goal: Goal) -> Num:
        """Return where a value belongs to a loop whose tiles are copied into rings."""
        looped = self.derivations.where(goal) is not Where.OUTSIDE
        return self.groups if looped else np.False_

    def _box(self, atom: InAtom) -> Num:
        """Return where the tensor memory accelerator can copy a tile."""
        tensor = self.tensors[atom.tensor]
        if not atom.dims:
            return np.False_
        extents = [self.elements(dim) for dim in atom.dims]
        last = extents[-1] * tensor.dtype.bytes
        rows: Num = np.ones(self.columns.count)
        for extent in extents[:-1]:
            rows = rows * extent
        aligned = atom.tensor == self.shifted or starts_anywhere(tensor.type)
        fits = aligned and 2 <= len(tensor.shape) <= MAX_BOX_RANK
        return fits & (last % 32 == 0) & (rows <= MAX_BOX)

    def matmul(self, account: Accountant, edge: Product, inside: bool) -> Num:
        """Add the work of a matrix product; return where the sizes permit it."""
        a, b = (set(self.labels(c)) for c in edge.children)
        k = edge.axis
        shared = tuple(sorted((a & b) - {k}))
        sides = tuple(sorted(a - b)), tuple(sorted(b - a))
        m, n = map(self.elements, sides)
        half = self.half and not edge.wide
        for child in edge.children:
            if self._loaded(child)[1]:
                kept = self._skewed(child) | (self.groups & (self.shifted is not None))
                size = where(kept, 0.0, self.elements(self.labels(child)))
                account.copy_odd(size, self.in_loop(child))
        left, right = (not half and self._load_width(child) in (1, 2) for child in edge.children)
        widths = [self._load_width(child) for child in edge.children]
        eight_bits = half and all(width == 1 for width in widths)
        tf32 = self.tf32 and not half and not edge.wide
        skewed = self._skewed(edge.children[0]), self._skewed(edge.children[1])
        operands = Operands(half, (left, right), eight_bits, 0 in widths, tf32, skewed)
        account.matmul(m, n, self.columns.tile[k], operands, inside)
        feasible = self.elements(shared) == 1
        if somewhere(self.groups):
            ours = self._for_groups(edge, operands, widths, sides, inside)
            feasible = feasible & (~self.groups | ours)
        if self.half:
            for child in edge.children:  # computed values are f32
                if (self._load_width(child) or 4) != (2 if half else 4):
                    account.around = self._around[self.derivations.where(child)]
                    size = self.elements(self.labels(child))
                    if eight_bits:  # warpgroups multiply them unconverted
                        size = where(self.groups, 0.0, size)
                    account.convert(size, self.in_loop(child))
        for child in edge.children:
            feasible = feasible & self.fits(self.labels(child))
        few, many = np.minimum(m, n), np.maximum(m, n)
        long = ~self.groups & (few <= FEW_ROWS) & (many <= MAX_LONG)
        rows = where(self.groups, MAX_GROUP_ROWS, MAX_ROWS)
        return feasible & (long | ((many <= MAX_COLUMNS) & (few <= rows)))

    def _for_groups(
        self,
        edge: Product,
        operands: Operands,
        widths: list[int],
        sides: tuple[tuple[str, ...], tuple[str, ...]],
        inside: bool,
    ) -> Num:
        """Return where warpgroups can compute a product of loaded factors."""
        if operands.tf32:
            loaded = all(width == 4 for width in widths)
        else:
            narrow = operands.eight_bits or (2 in widths and {0, 2}.issuperset(widths))
            loaded = operands.half and narrow
        if not (inside and loaded):
            return np.False_
        depth = self.columns.tile[edge.axis]
        # which of the two are rows is known only once the whole kernel is
        shared = self._groups_share(*sides) | self._groups_share(*sides[::-1])
        shared = shared & (depth % instruction_depth(operands.width) == 0)
        if operands.eight_bits or operands.tf32:
            along = all(self._loaded(child)[2] == edge.axis for child in edge.children)
            deep = operands.eight_bits & (depth > _target.PROMOTED_DEPTH)
            return shared & ~deep if along else np.False_
        return shared

    def _groups_share(self, rows: tuple[str, ...], columns: tuple[str, ...]) -> Num:
        """Return where groups of four warps can share a product with these axes as rows and
        columns."""
        found = self._shares.get((rows, columns))
        if found is None:
            m, n = self.elements(rows), self.elements(columns)
            groups = np.maximum(self.columns.warps // 4, 1)
            above = (m % (64 * groups) == 0) & (n % 8 == 0)
            found = above | ((m % 64 == 0) & (n % (64 * groups) == 0))
            self._shares[rows, columns] = found
        return found

    def lies_for_warpgroups(self, edge: Product, order: Sequence[str], is_summed: bool) -> Num:
        """Return where groups of four warps can share a product. Its rows are the side with the
        axis that comes first in ``order``, the order of the result's dimensions, or the other side
        if loaded factors are multiplied and the loop only adds up the product (``is_summed``): then
        it is transposed after the loop. If not both sides are stored, the answer is True
        everywhere: the rows are known only once the kernel is written."""
        a, b = (set(self.labels(c)) - {edge.axis} for c in edge.children)
        sides = [side for side in (a - b, b - a) if not side.isdisjoint(order)]
        if len(sides) < 2:
            return np.True_
        sides.sort(key=lambda side: min(order.index(axis) for axis in side.intersection(order)))
        rows, columns = (tuple(sorted(side)) for side in sides)
        if not is_summed or not all(self._load_width(child) for child in edge.children):
            return self._groups_share(rows, columns)
        # Such a block fills a multiprocessor. If they start while another kernel ends, some of them
        # share a multiprocessor in pairs (rms_swiglu_down_m16: 89 µs with 128 blocks, 104 µs with
        # 64).
        many = 2 * self.columns.blocks() > self.target.sms
        return self._groups_share(rows, columns) | (many & self._groups_share(columns, rows))

    def _load_width(self, goal: Goal) -> int:
        """Return the bytes of an element of a goal that is loaded, otherwise 0."""
        return self._loaded(goal)[0]

    def _loaded(self, goal: Goal) -> tuple[int, bool, str]:
        """Return the bytes of an element of a goal that is loaded, otherwise 0; whether its
        tensor's rows start at odd elements; and the axis along which rows run, for a tensor that
        warpgroups multiply only along its rows."""
        found = self._loads.get(goal)
        if found is None:
            atoms = (
                self.derivations.algebra.atoms[edge.atom]
                for edge in self.derivations.edges.get(goal, ())
                if isinstance(edge, Load)
            )
            loads = [a for a in atoms if isinstance(a, InAtom)]
            tensors = [self.tensors[a.tensor] for a in loads]
            width = tensors[0].dtype.bytes if tensors else 0
            last = {a.dims[-1][-1] for a in loads if self._by_rows(a.tensor) and all(a.dims[-1:])}
            axis = last.pop() if len(loads) == len(last) == 1 else ""
            found = self._loads[goal] = width, any(is_odd(t.type) for t in tensors), axis
        return found

    def _by_rows(self, tensor: int) -> bool:
        """Return whether warpgroups multiply a tensor only along its rows: one of 8-bit floats
        whose products may be summed as the hardware does, or one of f32 that is rounded to TF32."""
        return tensor in self.coarse or (self.tf32 and self.tensors[tensor].dtype is DType.F32)
