"""Which shifts every tile of a launch depends on, and what that asks of the shifts.

The rules are those of homogeneous functions: products add powers, quotients subtract them,
``square`` doubles and ``sqrt`` halves them; ``abs``, ``relu``, ``neg`` and maxima keep them (the
factor is positive); ``log`` turns a factor into a summand and so ends the dependence; sums need
summands of equal power, and a shift that does not vary along what is summed; any other function
needs a power of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod

from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Binary,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    Reshape,
    RunningMax,
    Slice,
    TileMap,
    Transpose,
    Unary,
    Value,
    axis_extents,
)
from mirage.transforms.facts import LaunchFacts, LoadedShift
from mirage.transforms.padding import same_unit_free_dims
from mirage.transforms.shifts import (
    Align,
    NotHomogeneous,
    Origin,
    Shift,
    TensorShift,
    TensorTerms,
    Term,
    Terms,
)
from mirage.transforms.stores import stored_shifts

HELD = 4096
"""Elements of ``m`` that a block may hold to know the maximum before its loops."""
MATRIX = 2
"""Dimensions of a tile that may be larger than one."""
RECIPROCALS = "a sum of reciprocals of exponentials, which the row maximum does not bound"

_ONE = Fraction(1)
_POWERS: dict[UnaryFn, Fraction] = {
    UnaryFn.NEG: _ONE,
    UnaryFn.ABS: _ONE,
    UnaryFn.RELU: _ONE,
    UnaryFn.SQUARE: Fraction(2),
    UnaryFn.SQRT: Fraction(1, 2),
    UnaryFn.RSQRT: Fraction(-1, 2),
    UnaryFn.RECIPROCAL: Fraction(-1),
}


class LaunchAnalysis:
    """Runs the analysis; raises :class:`NotHomogeneous`. Use once."""

    def __init__(
        self, launch: Launch, operands: Mapping[Value, TensorTerms], wanted: Callable[[Unary], bool]
    ) -> None:
        self.launch = launch
        self.grid = {axis.name for axis in launch.grid}
        self.extents = axis_extents(launch)
        self.operands = operands  # by param
        self.wanted = wanted
        self.facts = LaunchFacts()
        self.axes: dict[Value, frozenset[str]] = {}
        self.constants: dict[Value, float] = {}
        self.loaded: dict[tuple[object, ...], Shift] = {}
        self.checks: list[Callable[[], None]] = []

    def run(self) -> LaunchFacts:
        """All facts of the launch."""
        self._run(self.launch.body.ops, None)
        for shift in self.loaded.values():
            if shift.reduced:  # the maximum is taken before the loops, over all of their steps
                shift.constant.update(d for d, axes in shift.steps.items() if axes - {()})
        for check in self.checks:
            check()
        facts = self.facts
        facts.stored, facts.results = stored_shifts(self.launch, facts.terms)
        return self.facts

    def terms(self, value: Value) -> Terms:
        """The shifts that a tile depends on."""
        return self.facts.terms.get(value, {})

    def _run(self, ops: tuple[Op, ...], loop: Loop | None) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._loop(op, loop)
                continue
            axes = frozenset[str]().union(*(self.axes.get(v, frozenset()) for v in op.operands))
            if isinstance(op, Load):
                axes = frozenset(a for axes in op.map for a in axes)
            elif isinstance(op, Mask):
                axes |= frozenset(op.axes)
            elif isinstance(op, Constant):
                self.constants[op.result] = op.value
            self.axes[op.result] = axes
            terms = self._apply(op, loop)
            if terms:
                self.facts.terms[op.result] = terms

    # ---- rules

    def _apply(self, op: Op, loop: Loop | None) -> Terms:
        if isinstance(op, Load):
            return self._load(op, loop)
        if isinstance(op, Unary):
            return self._unary(op, loop)
        if not any(self.terms(v) for v in op.operands):
            return {}
        if isinstance(op, Binary):
            return self._binary(op)
        if isinstance(op, Matmul):
            return self._matmul(op)
        if isinstance(op, Reduce):
            return self._reduce(op)
        (x, *_) = op.operands
        if isinstance(op, Mask):
            if op.fill != 0.0:
                raise self._blame(
                    [x], f"a mask fills with {op.fill} what should scale with an exponential"
                )
            return self.terms(x)
        if isinstance(op, Cast):
            return self.terms(x)
        if isinstance(op, Broadcast):
            return {
                s: Term(t.power, self._widen(t.align, x.shape, op.result.shape))
                for s, t in self.terms(x).items()
            }
        if isinstance(op, Transpose):
            return {
                s: Term(t.power, tuple(t.align[d] for d in op.permutation))
                for s, t in self.terms(x).items()
            }
        if isinstance(op, Reshape):
            return self._reshape(x, op.result)
        if isinstance(op, Slice):
            return self._slice(op, x)
        if isinstance(op, Concat):
            raise self._blame(op.operands, "a concatenation mixes exponentials of different scale")
        what = (
            "a running maximum" if isinstance(op, RunningMax) else f"op {type(op).__name__.lower()}"
        )
        raise self._blame(
            op.operands, f"{what} has no rule for values that scale with an exponential"
        )

    def _load(self, op: Load, loop: Loop | None) -> Terms:
        found: dict[Shift, Term] = {}
        carried: list[LoadedShift] = []
        for tensor, term in self.operands.get(op.operands[0], {}).items():
            dims = {a: d for d, a in enumerate(term.align) if a is not None}
            tile_map = tuple(op.map[dims[i]] if i in dims else () for i in range(len(tensor.shape)))
            tile = tuple(
                op.result.shape[dims[i]] if i in dims else 1 for i in range(len(tensor.shape))
            )
            shift = self._loaded_before_loops(tensor, tile_map, tile)
            if shift is None:
                shift = self._loaded(tensor, tile_map, tile, loop)
            found[shift] = term
            carried.append(LoadedShift(shift, tile_map, tile))
        if carried:
            self.facts.loads[op] = tuple(carried)
        return found

    def _loaded(
        self, tensor: TensorShift, tile_map: TileMap, tile: tuple[int, ...], loop: Loop | None
    ) -> Shift:
        key = (tensor, tile_map, tile, loop)
        if key not in self.loaded:
            axes = frozenset(a for axes in tile_map for a in axes)
            self.loaded[key] = Shift(
                Origin.LOADED, tile, tensor.exps, loop, axes, tensor=tensor, map=tile_map
            )
        return self.loaded[key]

    def _loaded_before_loops(
        self, tensor: TensorShift, tile_map: TileMap, tile: tuple[int, ...]
    ) -> Shift | None:
        """One shift for all that the block reads of a tensor, whatever the loops around the loads.

        ``m`` is in device memory, so its maximum can be known before the first partial result is
        read: no running maximum is needed, and loads in different loops (or in none) share it.
        None where the loops do not cut a contiguous part, or ``m`` is too large to be held.
        """
        cuts = [tuple(a for a in axes if a in self.grid) for axes in tile_map]
        steps = [tuple(a for a in axes if a not in self.grid) for axes in tile_map]
        if any(c + s != axes for c, s, axes in zip(cuts, steps, tile_map, strict=True)):
            return None
        shape = tuple(
            t * prod(self.extents[a] for a in s) if c or not s else n
            for n, t, c, s in zip(tensor.shape, tile, cuts, steps, strict=True)
        )
        if prod(shape) > HELD or sum(n > 1 for n in shape) > MATRIX:
            return None
        shift = self._loaded(tensor, tuple(cuts), shape, None)
        for d, axes in enumerate(steps):
            known = shift.steps.setdefault(d, {axes})
            if axes not in known:
                known.add(axes)
                shift.constant.add(d)  # cut in two ways: only a common maximum fits both
        return shift

    def _unary(self, op: Unary, loop: Loop | None) -> Terms:
        (x,) = op.operands
        terms = self.terms(x)
        if op.fn is UnaryFn.EXP and not terms:
            if not self.wanted(op):
                return {}
            shift = Shift(
                Origin.EXP, x.shape, frozenset({op}), loop, self.axes[op.result], source=x
            )
            self.facts.exps[op] = shift
            return {shift: Term(_ONE, tuple(range(len(x.shape))))}
        if not terms:
            return {}
        if op.fn is UnaryFn.LOG:
            self._check_divisor(x, "a logarithm")
            return {}
        if op.fn not in _POWERS:
            raise self._blame([x], f"{op.fn.value} of a value that scales with an exponential")
        power = _POWERS[op.fn]
        if power < 0:
            self._check_divisor(x, op.fn.value)
        return {s: Term(t.power * power, t.align) for s, t in terms.items()}

    def _binary(self, op: Binary) -> Terms:
        a, b = op.operands
        if op.fn in (BinaryFn.MUL, BinaryFn.DIV):
            if op.fn is BinaryFn.DIV:
                self._check_divisor(b, "a division")
            return self._multiply(a, b, _ONE if op.fn is BinaryFn.MUL else -_ONE, op.result.shape)
        if op.fn is BinaryFn.POW:
            exponent = self.constants.get(b)
            if exponent is None:
                raise self._blame([a, b], "a power of a value that scales with an exponential")
            if exponent < 0:
                self._check_divisor(a, "a negative power")
            factor = Fraction(exponent)
            return {s: Term(t.power * factor, t.align) for s, t in self.terms(a).items() if factor}
        for x, y in ((a, b), (b, a)):
            if self.constants.get(x) == 0.0:
                return {
                    s: Term(t.power, self._widen(t.align, y.shape, op.result.shape))
                    for s, t in self.terms(y).items()
                }
        terms_a, terms_b = self.terms(a), self.terms(b)
        for s in {**terms_a, **terms_b}:
            powers = [t[s].power if s in t else Fraction(0) for t in (terms_a, terms_b)]
            if powers[0] != powers[1]:
                raise NotHomogeneous(
                    s.exps,
                    f"{op.fn.value} of values that scale with powers {powers[0]} and "
                    f"{powers[1]} of an exponential",
                )
        return {
            s: Term(t.power, self._agree(s, self._widen(t.align, a.shape, op.result.shape),
                                         self._widen(terms_b[s].align, b.shape, op.result.shape)))
            for s, t in terms_a.items()
        }  # fmt: skip

    def _multiply(self, a: Value, b: Value, sign: Fraction, shape: tuple[int, ...]) -> Terms:
        terms_a, terms_b = self.terms(a), self.terms(b)
        found: dict[Shift, Term] = {}
        for s in {**terms_a, **terms_b}:
            power = Fraction(0)
            align: Align | None = None
            for terms, v, factor in ((terms_a, a, _ONE), (terms_b, b, sign)):
                if s in terms:
                    power += terms[s].power * factor
                    wide = self._widen(terms[s].align, v.shape, shape)
                    align = wide if align is None else self._agree(s, align, wide)
            if power:
                assert align is not None
                found[s] = Term(power, align)
        return found

    def _matmul(self, op: Matmul) -> Terms:
        a, b = op.operands
        for x, dim in ((a, len(a.shape) - 1), (b, len(b.shape) - 2)):
            self._sum_along(x, (dim,))
        shape = op.result.shape
        found: dict[Shift, Term] = {}
        aligned: tuple[dict[Shift, Align], dict[Shift, Align]] = ({}, {})
        for side, x in enumerate((a, b)):
            for s, t in self.terms(x).items():
                lead = self._widen(t.align[:-2], x.shape[:-2], shape[:-2])
                aligned[side][s] = (
                    (*lead, t.align[-2], None) if side == 0 else (*lead, None, t.align[-1])
                )
        for s in {**aligned[0], **aligned[1]}:
            power = sum((self.terms(x)[s].power for x in (a, b) if s in self.terms(x)), Fraction(0))
            aligns = [side[s] for side in aligned if s in side]
            align = aligns[0] if len(aligns) == 1 else self._agree(s, *aligns)
            if power:
                found[s] = Term(power, align)
        return found

    def _reduce(self, op: Reduce) -> Terms:
        (x,) = op.operands
        if op.fn is ReduceFn.SUM:
            self._sum_along(x, op.dims)
        else:
            for s, t in self.terms(x).items():
                s.constant.update(a for d in op.dims if (a := t.align[d]) is not None)
        return {
            s: Term(t.power, tuple(None if d in op.dims else a for d, a in enumerate(t.align)))
            for s, t in self.terms(x).items()
        }

    def _reshape(self, x: Value, result: Value) -> Terms:
        source = same_unit_free_dims(x.shape, result.shape)
        if source is None:
            raise self._blame(
                [x],
                "a reshape merges or splits dimensions of values that scale with an exponential",
            )
        dims = range(len(result.shape))
        return {
            s: Term(t.power, tuple(t.align[source[d]] if d in source else None for d in dims))
            for s, t in self.terms(x).items()
        }

    def _slice(self, op: Slice, x: Value) -> Terms:
        for s, t in self.terms(x).items():
            for d, a in enumerate(t.align):
                if a is not None and op.result.shape[d] != x.shape[d]:
                    self._require_constant(s, a, "a slice cuts along rows of different scale")
        return self.terms(x)

    def _sum_along(self, x: Value, dims: tuple[int, ...]) -> None:
        for s, t in self.terms(x).items():
            for d in dims:
                a = t.align[d]
                if a is None:
                    continue
                if t.power < 0 and x.shape[d] > 1:
                    raise NotHomogeneous(s.exps, RECIPROCALS)
                s.constant.add(a)

    # ---- loops -----------------------------------------------------------------------------------

    def _loop(self, op: Loop, outer: Loop | None) -> None:
        self._run(op.body, op)
        escaping: dict[Shift, Shift] = {}
        for accumulator, result in zip(op.accumulators, op.results, strict=True):
            v = accumulator.value
            self.axes[result] = self.axes.get(v, frozenset()) - {op.axis.name}
            inside = [s for s in self.terms(v) if s.loop is op]
            if accumulator.rescale is not None and self.terms(v):
                raise self._blame(
                    [v], "a rescaled accumulator of values that scale with another exponential"
                )
            if accumulator.fn is AccumulateFn.MAX and inside:
                raise self._blame(
                    [v],
                    "a maximum over the steps of a loop of values that scale with an exponential",
                )
            if accumulator.fn is AccumulateFn.SUM and inside:
                if len(inside) > 1 or self.terms(v)[inside[0]].power < 0:
                    raise self._blame(
                        [v], "a loop accumulates a quotient or product of different exponentials"
                    )
                inside[0].powers.add(self.terms(v)[inside[0]].power)
            for s in inside:
                if s not in escaping:
                    escaping[s] = Shift(
                        Origin.LOOPED, s.shape, s.exps, outer, s.axes - {op.axis.name}, inner=s
                    )
            terms = {
                escaping.get(s, s): self._stepped(s, t, accumulator, op)
                for s, t in self.terms(v).items()
            }
            if terms:
                self.facts.terms[result] = terms
        for s, after in escaping.items():
            after.shape = s.result_shape  # complete: nothing outside of the loop sees ``s`` itself
        if escaping:
            self.facts.looped[op] = tuple(escaping.values())

    @staticmethod
    def _stepped(s: Shift, t: Term, accumulator: Accumulator, loop: Loop) -> Term:
        """The term after a loop that combined parts of ``m``, which must then be equal."""
        axis = loop.axis.name
        steps = {d: [c for c in cuts if axis in c] for d, cuts in s.steps.items()}
        dims = {d for d, cuts in steps.items() if cuts}
        s.constant.update(dims)
        if dims and accumulator.fn is not AccumulateFn.SUM:
            raise NotHomogeneous(
                s.exps, "a loop keeps the largest or last of several parts of a sum"
            )
        if dims and t.power < 0:
            raise NotHomogeneous(s.exps, RECIPROCALS)
        summed = t.summed | {axis}
        whole = {d for d in dims if all(summed.issuperset(cut) for cut in steps[d])}
        shape = accumulator.value.shape
        align = (None if a in whole and n == 1 else a for a, n in zip(t.align, shape, strict=True))
        return Term(t.power, tuple(align), summed)

    # ---- conditions ------------------------------------------------------------------------------

    def _blame(self, values: list[Value] | tuple[Value, ...], reason: str) -> NotHomogeneous:
        return NotHomogeneous(
            frozenset(e for v in values for s in self.terms(v) for e in s.exps), reason
        )

    def _require_constant(self, s: Shift, dim: int, reason: str) -> None:
        def check() -> None:
            if s.shape[dim] > 1 and dim not in s.constant:
                raise NotHomogeneous(s.exps, reason)

        self.checks.append(check)

    def _agree(self, s: Shift, a: Align, b: Align) -> Align:
        """One alignment for two factors; where they differ the shift must not vary."""
        for x, y in zip(a, b, strict=True):
            if x != y:
                for dim in (x, y):
                    if dim is not None:
                        self._require_constant(
                            s, dim, "a combination of exponentials of different rows"
                        )
        return tuple(y if x is None else x for x, y in zip(a, b, strict=True))

    def _check_divisor(self, x: Value, what: str) -> None:
        """Divisors must not underflow: they contain the largest exponential of everything that the
        maximum covers.
        """
        for s, t in self.terms(x).items():
            if t.power < 0:
                continue

            def check(s: Shift = s, t: Term = t) -> None:
                if any(a is not None and a in s.constant and s.shape[a] > 1 for a in t.align):
                    raise NotHomogeneous(
                        s.exps,
                        f"{what} by a part of a row, which may vanish beside the row's maximum",
                    )
                if s.running:
                    raise NotHomogeneous(
                        s.exps, f"{what} inside a loop by a value that the loop also accumulates"
                    )

            self.checks.append(check)

    @staticmethod
    def _widen(align: Align, shape: tuple[int, ...], result: tuple[int, ...]) -> Align:
        """``align`` after broadcasting: nothing runs along a dimension that is repeated."""
        lead = len(result) - len(shape)
        kept = tuple(
            a if n == result[lead + d] else None
            for d, (a, n) in enumerate(zip(align, shape, strict=True))
        )
        return (None,) * lead + kept
