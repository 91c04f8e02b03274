"""The shifts that every tile of a launch depends on, and the conditions on these shifts.

Shifts start at exponentials and at loads of partial results (:mod:`.loading`), pass through ops
(:mod:`.rules`), meet in sums (:mod:`.groups`), and leave loops. Conditions on them are noted as
they arise (:mod:`.conditions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from fractions import Fraction

from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Launch,
    Load,
    Loop,
    Op,
    Unary,
    Value,
    axis_extents,
)
from mirage.transforms.shifts.conditions import RECIPROCALS, Conditions
from mirage.transforms.shifts.coverage import Coverage
from mirage.transforms.shifts.expressions import Expressions
from mirage.transforms.shifts.facts import LaunchFacts, ShiftedExp
from mirage.transforms.shifts.groups import Groups
from mirage.transforms.shifts.loaded_partials import Loading
from mirage.transforms.shifts.power_rules import Rules
from mirage.transforms.shifts.recomputed import Recomputed, Sharing
from mirage.transforms.shifts.shifts import NotHomogeneous, Origin, Shift, TensorTerms, Term, Terms
from mirage.transforms.shifts.stored_shifts import stored_shifts


class LaunchAnalysis:
    """Runs the analysis; raises :class:`NotHomogeneous`. Use once."""

    def __init__(
        self,
        launch: Launch,
        operands: Mapping[Value, TensorTerms],  # by param
        skipped: Set[Unary],
        sharing: Sharing,
    ) -> None:
        self.launch = launch
        self.skipped = skipped
        self.facts = LaunchFacts()
        self.conditions = Conditions()
        self.groups = Groups(self.conditions)
        self.rules = Rules(self.facts, self.conditions, self.groups)
        extents = axis_extents(launch)
        grid = frozenset(axis.name for axis in launch.grid)
        self.loading = Loading(operands, self.facts, extents, grid)
        tensors = dict(zip(launch.body.params, launch.operands, strict=True))
        self.expressions = Expressions(sharing.keys, tensors, extents)
        self.recomputed = Recomputed(self.expressions, extents, self.loading, sharing)
        self.coverage = Coverage(self.recomputed.firsts, extents, grid)
        self.axes: dict[Value, frozenset[str]] = {}
        self.loops: list[Loop] = []  # around the current op, outermost first

    def run(self) -> LaunchFacts:
        """Return all facts about the launch."""
        self._run(self.launch.body.ops)
        self.loading.finish()
        self.conditions.check()
        facts = self.facts
        facts.stored, facts.results = stored_shifts(self.launch, facts.terms, self.coverage)
        return self.facts

    @property
    def loop(self) -> Loop | None:
        """The loop around the current op."""
        return self.loops[-1] if self.loops else None

    def _run(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._loop(op)
                continue
            axes = frozenset[str]().union(*(self.axes.get(v, frozenset()) for v in op.operands))
            self.axes[op.result] = axes | op.reads_axes
            if op.number is not None:
                self.rules.constants[op.result] = op.number
            self.expressions.add(op)
            terms = self._terms(op)
            if terms:
                self.facts.terms[op.result] = terms

    def _terms(self, op: Op) -> Terms:
        if isinstance(op, Load):
            return self.loading.terms(op, self.loop)
        if isinstance(op, Unary) and op.fn is UnaryFn.EXP:
            (x,) = op.operands
            if not self.rules.terms(x):
                return {} if op in self.skipped else self._exp(op, x)
        return self.rules.result(op, self.loops)

    def _exp(self, op: Unary, x: Value) -> Terms:
        found = self.recomputed.find(op, self.loops)
        if found is None:
            axes, dims = self.axes[op.result], tuple(range(len(x.shape)))
            shift = Shift(Origin.EXP, x.shape, frozenset({op}), self.loop, axes, source=x)
            self.recomputed.add(op, shift, self.loops)
            found = ShiftedExp(shift, dims)
        self.facts.exps[op] = found
        terms = {found.shift: Term(Fraction(1), found.align, partial=found.partial)}
        if found.again:
            self.conditions.complete(terms)
        return terms

    # ---- loops

    def _loop(self, op: Loop) -> None:
        self.loops.append(op)
        self._run(op.body)
        self.loops.pop()
        self.expressions.add(op)
        escaping: dict[Shift, Shift] = {}
        for accumulator, result in zip(op.accumulators, op.results, strict=True):
            v = accumulator.value
            self.axes[result] = self.axes.get(v, frozenset()) - {op.axis.name}
            inside = [s for s in self.rules.terms(v) if s.loop is op]
            self._accumulate(accumulator, inside)
            for s in inside:
                if s not in escaping:
                    axes = s.axes - {op.axis.name}
                    escaping[s] = Shift(Origin.LOOPED, (), s.exps, self.loop, axes, inner=s)
            terms = {
                escaping.get(s, s): self._stepped(s, t, accumulator, op)
                for s, t in self.rules.terms(v).items()
            }
            if terms:
                self.facts.terms[result] = terms
        self.recomputed.outside.update(escaping)
        if escaping:
            self.facts.looped[op] = tuple(escaping.values())

    def _accumulate(self, accumulator: Accumulator, inside: list[Shift]) -> None:
        v = accumulator.value
        if accumulator.rescale is not None and self.rules.terms(v):
            raise self.rules.blame(
                [v], "a rescaled accumulator of values that scale with another exponential"
            )
        if accumulator.fn is AccumulateFn.MAX and inside:
            raise self.rules.blame(
                [v],
                "a maximum over the steps of a loop of values that scale with an exponential",
            )
        if accumulator.fn is AccumulateFn.SUM and inside:
            power = self.rules.terms(v)[inside[0]].power
            if len(inside) > 1 or power < 0:
                raise self.rules.blame(
                    [v], "a loop accumulates a quotient or product of different exponentials"
                )
            inside[0].powers.add(power)

    @staticmethod
    def _stepped(s: Shift, t: Term, accumulator: Accumulator, loop: Loop) -> Term:
        """Return the term after a loop that combined parts of ``m``, which must then be equal."""
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
        return Term(t.power, tuple(align), summed, t.partial)
