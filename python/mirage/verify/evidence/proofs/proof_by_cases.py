"""Proofs case by case, for programs that compare numbers and choose among them.

Each element of an output is a function of the elements of the inputs. It is computed with symbols.
Where a sign decides (in a comparison, a maximum or a magnitude), it is computed once for each sign
that is possible together with the previous ones; at every point one of the cases is true. If a sum
is zero, one of its symbols is replaced by its value in terms of the others. Truth values are 0 in
one case and 1 in the other.

If all ops of a program are elementwise, one element stands for all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Planes
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.ops.op import Contraction, Region, UnknownOp
from mirage.semantics.region import demand, whole
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Elementwise, KernelGraph, View
from mirage.verify.arithmetic.cases import Cases, Impossible, Open
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK, NoProof
from mirage.verify.arithmetic.logarithms import Sum
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.normal_form.normalize import Depth, normalize
from mirage.verify.verdict import Evidence

NAME = "proof case by case"
_MOST_CASES, _MOST_ELEMENTS, _SECONDS = 300, 64, 1.5
_DECIDED = (
    UnaryFn.ABS, UnaryFn.RELU, UnaryFn.NOT, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.LT, BinaryFn.LE,
    BinaryFn.EQ, BinaryFn.NE, BinaryFn.KEEP,
)  # fmt: skip


@dataclass(frozen=True)
class _Case:
    """Sums and their signs, and the values of symbols that are not free."""

    signed: tuple[tuple[Sum, int], ...] = ()
    instead: Mapping[int, Ratio] = field(default_factory=dict[int, Ratio])


def prove_by_cases(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array]
) -> Evidence:
    """Compare in each case. ``holds`` is True if the outputs are equal in all cases, else None.
    Both programs have the same inputs, of which ``contents`` are known."""
    graphs = [normalize(decompose(g), Depth.EXPONENTIALS) for g in (reference, candidate)]
    if not any(_decides(g) for g in graphs):
        return Evidence(NAME, None, "nothing is compared")
    try:
        attempt = _Attempt(reference, graphs, contents)
        cases = attempt.run()
    except (NoProof, EvaluationError, UnknownOp) as reason:
        return Evidence(NAME, None, str(reason))
    return Evidence(NAME, True, f"in {cases} cases", {"cases": cases})


def _decides(graph: KernelGraph) -> bool:
    return any(
        op.function in _DECIDED or (isinstance(op, Contraction) and not op.sums) for op in graph.ops
    )


class _Attempt:
    def __init__(
        self, reference: KernelGraph, graphs: Sequence[KernelGraph], contents: Mapping[int, Array]
    ) -> None:
        self.graphs = graphs
        self.domain = Cases(most_work=4 * LITTLE_WORK)
        self.end = time.monotonic() + _SECONDS
        self.left = _MOST_CASES
        self.held: dict[int, Planes] = {}
        self.inputs = reference.inputs
        self.own: set[int] = set()
        elements = [prod(v.shape) for v in reference.inputs]
        if sum(elements) > 4096:
            raise NoProof(f"{sum(elements)} elements of inputs, limit 4096")
        for i, v in enumerate(reference.inputs):
            if i in contents:
                self.held[i] = self.domain.held(contents[i])
                continue
            symbols = self.domain.whole_numbers if v.dtype.is_integer else self.domain.inputs
            self.held[i] = symbols(i, v.shape)
            found = self.domain.symbols(i, v.shape)
            self.own.update(found)
            if v.dtype is DType.I1:
                self.domain.truths.update(found)

    def run(self) -> int:
        """Return the number of cases. Raises :class:`NoProof` if the outputs are not equal in one
        of them."""
        cases = 0
        for number, output in enumerate(self.graphs[0].outputs):
            regions = list(_elements(output.shape, all(map(_is_elementwise, self.graphs))))
            if len(regions) > _MOST_ELEMENTS:
                raise NoProof(f"{len(regions)} elements, limit {_MOST_ELEMENTS}")
            cases += sum(self._of_element(number, region) for region in regions)
        return cases

    def _of_element(self, number: int, region: Region) -> int:
        pending, cases = [_Case()], 0
        while pending:
            case = pending.pop()
            self.left -= 1
            if self.left < 0 or time.monotonic() > self.end:
                raise NoProof("too many cases")
            self.domain.signed = list(case.signed)
            try:
                same = self._are_same(number, region, case)
            except Impossible:
                continue
            except Open as sign:
                pending += self._split(case, sign)
                continue
            if not same:
                raise NoProof("the normal forms differ in a case")
            cases += 1
        return cases

    def _split(self, case: _Case, sign: Open) -> list[_Case]:
        found: list[_Case] = []
        truth = self._truth(sign.form)
        for s in sign.signs:
            if truth is not None and s < 0:
                continue
            signed, instead = (*case.signed, (sign.form, s)), dict(case.instead)
            if truth is not None:
                instead[truth] = Ratio({(0, 0): 1} if s else {})
            elif s == 0 and (solved := self.domain.solved(sign.form, self.own)):
                instead[solved[0]] = solved[1]
            found.append(_Case(signed, instead))
        return found

    def _truth(self, form: Sum) -> int | None:
        """Return the symbol of the truth value that the sum consists of."""
        for symbol in self.domain.truths:
            if form == self.domain.of_symbol(symbol).top:
                return symbol
        return None

    def _are_same(self, number: int, region: Region, case: _Case) -> bool:
        inputs = [self._input(i, case) for i in range(len(self.inputs))]
        first, second = (self._output(g, number, region, inputs) for g in self.graphs)
        for a, b in zip(first, second, strict=True):
            if _same(self.domain, a, b):
                continue
            both = self.domain.symbols_in(a) | self.domain.symbols_in(b)
            for symbol in sorted(both & self.domain.truths):
                raise Open(self.domain.of_symbol(symbol).top, (1, 0))
            return False
        return True

    def _input(self, i: int, case: _Case) -> Planes:
        """Return an input in which symbols that are not free are replaced by their values."""
        (plane,) = self.held[i]
        if not case.instead:
            return (plane,)
        shape = self.inputs[i].shape
        return self.domain.given([self._element(x, case) for x in plane.ravel()], shape)

    def _element(self, x: Element, case: _Case) -> Element:
        symbol = self.domain.symbol_of(x)
        while symbol is not None and symbol in case.instead:
            x = self.domain.replaced(case.instead[symbol], case.instead)
            symbol = self.domain.symbol_of(x)
        return x

    def _output(
        self, graph: KernelGraph, number: int, region: Region, inputs: Sequence[Planes]
    ) -> list[Element]:
        one = KernelGraph(graph.name, graph.inputs, graph.ops, (graph.outputs[number],))
        values = [
            Sampled(x, whole(len(v.shape))) for x, v in zip(inputs, graph.inputs, strict=True)
        ]
        (found,) = evaluate_sampled(one, self.domain, values, demand(one, (region,)))
        return list(restrict(found, region, graph.outputs[number])[0].ravel())


def _elements(shape: tuple[int, ...], one: bool) -> list[Region]:
    """Return the elements of an output, one at a time; only the first if all are alike."""
    places = [(0,) * len(shape)] if one else list(np.ndindex(*shape))
    return [tuple(np.asarray([p]) for p in place) for place in places]


def _is_elementwise(graph: KernelGraph) -> bool:
    """Return whether each element of an output is the same function of the inputs' elements at its
    place."""
    shape = graph.outputs[0].shape
    return all(v.shape == shape for v in graph.outputs) and all(
        op.number is not None
        or (isinstance(op, View) and not op.operands[0].shape)
        or (isinstance(op, Elementwise) and op.results[0].shape in (shape, ()))
        for op in graph.ops
    )


def _same(domain: Cases, a: Element, b: Element) -> bool:
    if isinstance(a, Ratio) and isinstance(b, Ratio):
        return domain.same(a, b)
    return not isinstance(a, Ratio) and not isinstance(b, Ratio) and a == b
