"""The online-maximum rewrite: softmax-like programs made safe from overflow, by algebra.

The search works with plain exponentials, ``exp(S) / sum(exp(S))``, because on real numbers a row
maximum changes nothing. In floating point it does: ``exp`` of a score beyond 88 is infinite in f32.
:func:`stabilize` puts the maximum back wherever that is legal: where the results of the program are
homogeneous of degree 0 in every factor ``exp(m)``, across all its launches. Nothing is matched
against a pattern; split-KV attention gets its running maxima, its rescaled accumulators and the
maxima of its partial results from the rule alone. If the condition fails, the exponential does not
change, and the reason is recorded. The result is verified like any other candidate; this pass makes
no claim about its own output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace

from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import (
    Elementwise,
    KernelGraph,
    Launch,
    Op,
    Unary,
    Value,
    View,
    all_ops,
)
from mirage.transforms.online_max.online_max import rewrite_launch
from mirage.transforms.online_max.padding import Padding, unsafe_paddings
from mirage.transforms.online_max.subtracted import already_stable
from mirage.transforms.shifts.facts import LaunchFacts
from mirage.transforms.shifts.homogeneity import LaunchAnalysis
from mirage.transforms.shifts.recomputed import Sharing
from mirage.transforms.shifts.shifts import NotHomogeneous, TensorShift, TensorTerms


@dataclass(frozen=True)
class Exponential:
    """One exponential of the program and its outcome; ``reason`` is empty if it was stabilised.

    ``launch`` is the position of its kernel among the ops of the graph, ``index`` its position
    among the exponentials there.
    """

    launch: int
    index: int
    reason: str = ""

    @property
    def stable(self) -> bool:
        """Whether its argument cannot exceed 0 now."""
        return not self.reason

    def __str__(self) -> str:
        state = "relative to its row maximum" if self.stable else f"not stabilised: {self.reason}"
        return f"exponential {self.index} of op {self.launch}: {state}"


@dataclass(frozen=True)
class Stabilized:
    """The rewritten graph (the same object if nothing was to be done) and all its exponentials."""

    graph: KernelGraph
    exponentials: tuple[Exponential, ...]

    @property
    def unstable(self) -> tuple[Exponential, ...]:
        """The exponentials that may still overflow."""
        return tuple(e for e in self.exponentials if not e.stable)


def stabilize(graph: KernelGraph) -> Stabilized:
    """Take every exponential relative to a maximum, wherever the results do not depend on it."""
    found = _exponentials(graph)
    reasons: dict[Unary, str] = dict.fromkeys(
        _exponentials_in(graph.ops), "it is not inside of a launch"
    )
    already = already_stable(found, graph)
    sharing = Sharing()
    while True:
        try:
            new = _Stabilizer(graph, already | reasons.keys(), sharing).run()
            break
        except NotHomogeneous as e:
            if not sharing.give_up(e.exps):
                reasons.update(dict.fromkeys(e.exps, e.reason))
    entries = tuple(Exponential(*where, reasons.get(op, "")) for op, where in found.items())
    return Stabilized(new, entries)


def _exponentials(graph: KernelGraph) -> dict[Unary, tuple[int, int]]:
    found: dict[Unary, tuple[int, int]] = {}
    for number, op in enumerate(graph.ops):
        exps = _exponentials_in(all_ops((op,)))
        found.update({e: (number, i) for i, e in enumerate(exps)})
    return found


def _exponentials_in(ops: Iterable[Op]) -> Iterator[Unary]:
    return (op for op in ops if isinstance(op, Unary) and op.fn is UnaryFn.EXP)


class _Stabilizer:
    def __init__(self, graph: KernelGraph, skipped: Set[Unary], sharing: Sharing) -> None:
        self.graph = graph
        self.skipped = skipped
        self.sharing = sharing
        self.tensors: dict[Value, TensorTerms] = {}
        self.facts: dict[Launch, LaunchFacts] = {}

    def run(self) -> KernelGraph:
        self._analyze()
        return self._rewrite()

    def _analyze(self) -> None:
        for op in self.graph.ops:
            if isinstance(op, Launch):
                self._analyze_launch(op)
            elif any(v in self.tensors for v in op.operands):
                self.tensors[op.result] = self._view(op)
        for number, value in enumerate(self.graph.outputs):
            for tensor, term in self.tensors.get(value, {}).items():
                raise NotHomogeneous(
                    tensor.exps,
                    f"output {number} is proportional to power {term.power} of the exponential",
                )

    def _analyze_launch(self, launch: Launch) -> None:
        operands = {
            param: self.tensors[v]
            for param, v in zip(launch.body.params, launch.operands, strict=True)
            if v in self.tensors
        }
        facts = LaunchAnalysis(launch, operands, self.skipped, self.sharing).run()
        padding = Padding(launch)
        for exp, taken in facts.exps.items():
            unsafe = unsafe_paddings(padding, exp, taken.covered)
            if unsafe:
                raise NotHomogeneous(
                    taken.shift.exps,
                    f"elements beyond {unsafe[0].extent} along {list(unsafe[0].axes)} are "
                    "summed unmasked",
                )
        self.facts[launch] = facts
        self.tensors.update(facts.results)

    def _view(self, op: Op) -> TensorTerms:
        """Return the terms of a kernel-level op; anything other than a view of one tensor ends the
        rewrite."""
        (x, *_) = op.operands
        terms = self.tensors.get(x, {})
        if isinstance(op, Elementwise) and op.identity:
            return terms
        source = op.source_dims() if isinstance(op, View) else None
        if source is not None:
            dims = range(len(op.result.shape))
            views = {
                t: e.aligned(tuple(e.align[source[d]] if d in source else None for d in dims))
                for t, e in terms.items()
            }
            if all(
                n == 1 or d in view.align
                for t, view in views.items()
                for d, n in enumerate(t.shape)
            ):
                return views
        exps = frozenset(e for v in op.operands for t in self.tensors.get(v, {}) for e in t.exps)
        raise NotHomogeneous(
            exps, f"a partial result is read by {type(op).__name__.lower()} outside of a launch"
        )

    def _rewrite(self) -> KernelGraph:
        rewritten: dict[Op, Op] = {}
        maxima: dict[TensorShift, Value] = {}
        for launch, facts in self.facts.items():
            if facts.exps or facts.loads:
                result = rewrite_launch(launch, facts, Padding(launch), maxima)
                pairs = zip(facts.stored, result.stored, strict=True)
                maxima.update({exp.tensor: value for exp, value in pairs})
                rewritten[launch] = result.launch
        if not rewritten:
            return self.graph
        return replace(self.graph, ops=tuple(rewritten.get(op, op) for op in self.graph.ops))
