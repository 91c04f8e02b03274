"""The normal forms of a program's values, by substitution from the outputs inwards.

A bound axis is renamed where its name is already taken (``X @ X.T``), or where that is asked for;
casts are the identity, as everything here is over the reals, except for the roundings that are
asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.search.algebra.atoms import InAtom, MaxAtom, SoFarAtom
from mirage.search.algebra.axes import AxisTable, Dims, UnlabelableError, regroup
from mirage.search.algebra.normal_form import NormalForms
from mirage.semantics.scalar import ReduceFn
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cumulate,
    Elementwise,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Transpose,
    Unary,
    Value,
)


@dataclass
class MatmulRoles:
    """The axes that a matmul of the program contracts, and those that run over its rows, columns
    and batches."""

    contracted: frozenset[str]
    rows: frozenset[str]
    columns: frozenset[str]
    batch: frozenset[str]


@dataclass
class Normalizer:
    """The normal forms of the values of a program, in terms of ``leaves``."""

    table: AxisTable
    definitions: dict[Value, Op]
    leaves: dict[Value, int]
    algebra: NormalForms
    apart: frozenset[str] = frozenset()
    """Axes of the outputs whose names no sum has, so that what is summed is read apart."""
    rounded: frozenset[Value] = frozenset()
    """Values that are rounded to their types, if these have 16 bits; quotients stay whole."""
    matmuls: list[MatmulRoles] = field(default_factory=list[MatmulRoles])
    _memo: dict[tuple[Value, Dims], int] = field(default_factory=dict[tuple[Value, Dims], int])

    def poly(self, value: Value, dims: Dims) -> int:
        """Return the normal form of ``value`` if its dimensions are named ``dims``. Raises
        :class:`UnlabelableError`."""
        key = (value, dims)
        found = self._memo.get(key)
        if found is None:
            found = self._compute(value, dims)
            if value in self.rounded and value.dtype.is_half and value not in self.leaves:
                found = self.algebra.rounded(value.dtype, found)
            self._memo[key] = found
        return found

    def _compute(self, value: Value, dims: Dims) -> int:
        algebra = self.algebra
        if value in self.leaves:
            return algebra.single(algebra.atom(InAtom(self.leaves[value], dims)))
        op = self.definitions.get(value)
        if op is not None and op.number is not None:
            return algebra.constant(op.number)
        match op:
            case Unary():
                return algebra.unary(op.fn, self._operand(op.operands[0], value, dims))
            case Binary():
                a, b = (self._operand(x, value, dims) for x in op.operands)
                return algebra.binary(op.fn, a, b, whole=value in self.rounded)
            case Elementwise(identity=True) | Broadcast():
                return self._operand(op.operands[0], value, dims)
            case Reduce():
                return self._reduce(op, dims)
            case Cumulate():
                return self._cumulate(op, dims)
            case Matmul():
                return self._matmul(op, dims)
            case Transpose():
                inner: list[tuple[str, ...]] = [()] * len(dims)
                for i, p in enumerate(op.permutation):
                    inner[p] = dims[i]
                return self.poly(op.operands[0], tuple(inner))
            case Reshape():
                flat = tuple(x for dim in dims for x in dim)
                return self.poly(
                    op.operands[0], regroup(flat, op.operands[0].shape, self.table.sizes)
                )
            case _:
                what = type(op).__name__.lower() if op is not None else "an unknown value"
                raise UnlabelableError(f"expected an op that axis labels can follow, got {what}")

    def _operand(self, operand: Value, result: Value, dims: Dims) -> int:
        rank = len(operand.shape)
        aligned = dims[len(dims) - rank :] if rank else ()
        return self.poly(
            operand, tuple(d if n > 1 else () for d, n in zip(aligned, operand.shape, strict=True))
        )

    def _bound(self, source: Value, dim: int, taken: set[str]) -> tuple[str, ...]:
        names: list[str] = []
        for label in self.table.dims(source)[dim]:
            names.append(self.table.fresh(label, taken | self.apart | set(names)))
        return tuple(names)

    def _reduce(self, op: Reduce, dims: Dims) -> int:
        (source,) = op.operands
        taken = {x for dim in dims for x in dim}
        inner = list(dims)
        summed: list[str] = []
        for d in op.dims:
            inner[d] = self._bound(source, d, taken | set(summed))
            summed.extend(inner[d])
        arg = self.poly(source, tuple(inner))
        if op.fn is ReduceFn.SUM:
            return self.algebra.sum(arg, summed)
        return self.maximum(arg, summed)

    def _cumulate(self, op: Cumulate, dims: Dims) -> int:
        arg = self.poly(op.operands[0], dims)
        axes = dims[op.dim]
        if len(axes) != 1 or (axes[0], "L") not in self.algebra.free(arg):
            raise UnlabelableError(f"expected values along one axis to cumulate, got {axes}")
        atom = SoFarAtom(op.fn, op.exclusive, op.reversed, axes[0], arg)
        return self.algebra.single(self.algebra.atom(atom))

    def maximum(self, arg: int, axes: list[str]) -> int:
        """Return the maximum over whole axes."""
        algebra = self.algebra
        carried = {x for x, _ in algebra.free(arg)}
        bound = tuple(sorted((a, v) for a in axes if a in carried for v in algebra.levels(a)))
        return algebra.single(algebra.atom(MaxAtom(bound, arg))) if bound else arg

    def _matmul(self, op: Matmul, dims: Dims) -> int:
        a, b = op.operands
        taken = {x for dim in dims for x in dim}
        k = self._bound(a, len(a.shape) - 1, taken)
        sides: list[Dims] = []
        for x, tail in ((a, (dims[-2], k)), (b, (k, dims[-1]))):
            lead = dims[len(dims) - len(x.shape) : -2] if len(x.shape) > 2 else ()
            lead = tuple(d if n > 1 else () for d, n in zip(lead, x.shape[:-2], strict=True))
            sides.append((*lead, *tail))
        left, right = (self.poly(v, side) for v, side in zip((a, b), sides, strict=True))
        # by what the operands really depend on: heads that share a broadcast operand are rows
        free = [frozenset(x for x, _ in self.algebra.free(p)).difference(k) for p in (left, right)]
        roles = MatmulRoles(frozenset(k), free[0] - free[1], free[1] - free[0], free[0] & free[1])
        self.matmuls.append(roles)
        product = self.algebra.mul(left, right)
        return self.algebra.sum(product, k)
