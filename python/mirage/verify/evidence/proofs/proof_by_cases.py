"""Proofs case by case, for programs that compare numbers and choose among them.

Each element of an output is a function of the elements of the inputs. It is computed with symbols.
Where a sign decides (in a comparison, a maximum or a magnitude), it is computed once for each sign
that is possible together with the previous ones; at every point one of the cases applies. If a sum
is zero, one of its symbols is replaced by its value in terms of the others. Truth values are 0 in
one case and 1 in the other.

If all ops of a program are elementwise, one element represents all elements that read the same
known numbers: each is the same function of the elements that it reads at its place. (Tensors may be
broadcast: all elements of a row may read the same number.)
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Planes
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.indexing.indices import Indices
from mirage.semantics.ops.kinds import Contraction
from mirage.semantics.ops.op import Region, UnknownOp
from mirage.semantics.region import demand, whole
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Elementwise, KernelGraph, View
from mirage.verify.arithmetic.cases import Cases, Impossible, Open
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK, NoProof
from mirage.verify.arithmetic.known_functions import number_of
from mirage.verify.arithmetic.logarithms import Sum
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.normal_form.normalize import Depth, normalize
from mirage.verify.verdict import Evidence

NAME = "proof case by case"
_MOST_CASES, _MOST_ELEMENTS, _MOST_OF_INPUTS = 300, 64, 4096
_MOST_PLACES = 1 << 18
_SECONDS = 1.5
"""The most seconds of processor time."""
_DECIDED = (
    UnaryFn.ABS, UnaryFn.RELU, UnaryFn.NOT, UnaryFn.FLOOR, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.LT,
    BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE, BinaryFn.KEEP,
)  # fmt: skip


@dataclass(frozen=True)
class _Case:
    """Sums and their signs, and the values of symbols that are not free."""

    signed: tuple[tuple[Sum, int], ...] = ()
    instead: Mapping[int, Ratio] = field(default_factory=dict[int, Ratio])


def prove_by_cases(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    not_negative: Collection[int] = (),
    positive: Collection[int] = (),
) -> Evidence:
    """Compare in each case. ``holds`` is True if the outputs are equal in all cases, else None.
    Both programs have the same inputs, of which ``contents`` are known, and some are
    ``not_negative`` or ``positive``."""
    graphs = [normalize(decompose(g), Depth.EXPONENTIALS) for g in (reference, candidate)]
    signs = {**dict.fromkeys(not_negative, 0), **dict.fromkeys(positive, 1)}
    if not any(_decides(g) for g in graphs):
        return Evidence(NAME, None, "nothing is compared")
    try:
        attempt = _Attempt(reference, graphs, contents, signs)
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
        self,
        reference: KernelGraph,
        graphs: Sequence[KernelGraph],
        contents: Mapping[int, Array],
        signs: Mapping[int, int],
    ) -> None:
        """``signs`` are the least signs of some inputs."""
        read = {v for g in graphs for v in (*(v for op in g.ops for v in op.operands), *g.outputs)}
        self.graphs, self.signs = graphs, signs
        self.contents = {
            i: x for i, x in contents.items() if read.intersection(g.inputs[i] for g in graphs)
        }
        self.domain = Cases(most_work=4 * LITTLE_WORK)
        self.end = time.process_time() + _SECONDS
        self.left = _MOST_CASES
        self.inputs = reference.inputs
        self.own: set[int] = set()
        self.alike = all(map(is_elementwise, graphs))
        self.read = [whole(len(v.shape)) for v in self.inputs]
        self.held: list[Planes] = []

    def run(self) -> int:
        """Return the number of cases. Raise :class:`NoProof` if the outputs differ in one."""
        if not self.alike:
            elements = sum(prod(v.shape) for v in self.inputs)
            if elements > _MOST_OF_INPUTS:
                raise NoProof(f"{elements} elements of inputs, limit {_MOST_OF_INPUTS}")
        outputs = self.graphs[0].outputs
        places = [self._places(v.shape) for v in outputs]  # of all elements, before any case
        if not self.alike:
            self._hold()
        cases = 0
        for number, output in enumerate(outputs):
            for place in places[number]:
                if self.alike:
                    self.read = [_at(place, v.shape) for v in self.inputs]
                    self._hold()
                cases += self._of_element(number, _at(place, output.shape))
        return cases

    def _places(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the places of an output that represent all of them."""
        places = self._alike(shape) if self.alike else None
        count = prod(shape) if places is None else len(places)
        if count > _MOST_ELEMENTS:
            raise NoProof(f"{count} elements, limit {_MOST_ELEMENTS}")
        return list(np.ndindex(*shape)) if places is None else places

    def _hold(self) -> None:
        """Return the tensors to read as inputs: symbols, or the known elements."""
        self.held = []
        for i, (v, region) in enumerate(zip(self.inputs, self.read, strict=True)):
            known = self.contents.get(i)
            if known is not None:
                there = known if not self.alike else known[tuple(map(_first, region))]
                self.held.append(self.domain.held(np.reshape(there, self._shape(i))))
                continue
            symbols = self.domain.whole_numbers if v.dtype.is_integer else self.domain.inputs
            self.held.append(symbols(i, self._shape(i)))
            found = self.domain.symbols(i, self._shape(i))
            self.own.update(found)
            if v.dtype is DType.I1:
                self.domain.truths.update(found)
            elif i in self.signs:
                least = self.domain.positive if self.signs[i] else self.domain.not_negative
                least.update(found)

    def _shape(self, i: int) -> tuple[int, ...]:
        return (1,) * len(self.inputs[i].shape) if self.alike else self.inputs[i].shape

    def _alike(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return one place for each set of places that read the same known numbers."""
        if not self.contents:
            return [(0,) * len(shape)]
        if prod(shape) > _MOST_PLACES:
            raise NoProof(f"{prod(shape)} elements besides known numbers, limit {_MOST_PLACES}")
        known = [np.broadcast_to(x, shape).ravel() for x in self.contents.values()]
        _, first = np.unique(np.stack(known), axis=1, return_index=True)
        return [tuple(map(int, np.unravel_index(at, shape))) for at in first]

    def _of_element(self, number: int, region: Region) -> int:
        pending, cases = [_Case()], 0
        while pending:
            case = pending.pop()
            self.left -= 1
            if self.left < 0 or time.process_time() > self.end:
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
            elif s == 0 and (
                solved := self.domain.solved(sign.form, self.own - self.domain.truths)
            ):
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
            if self.domain.same(a, b):
                continue
            both = self.domain.symbols_in(a) | self.domain.symbols_in(b)
            for symbol in sorted(both & self.domain.truths):
                raise Open(self.domain.of_symbol(symbol).top, (1, 0))
            if any(self._contradicts(form, sign, case) for form, sign in case.signed):
                raise Impossible("a sum has another sign at the values of its symbols")
            return False
        return True

    def _contradicts(self, form: Sum, sign: int, case: _Case) -> bool:
        """Return whether a sum is a number of another sign once its symbols have their values."""
        if not self.domain.is_polynomial(form):
            return False
        number = number_of(self.domain.replaced(Ratio(form), case.instead))
        return number is not None and (number > 0) - (number < 0) != sign

    def _input(self, i: int, case: _Case) -> Planes:
        """Return an input in which symbols that are not free are replaced by their values."""
        (plane,) = self.held[i]
        if not case.instead:
            return (plane,)
        return self.domain.given([self._element(x, case) for x in plane.ravel()], plane.shape)

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
        values = [Sampled(x, given) for x, given in zip(inputs, self.read, strict=True)]
        (found,) = evaluate_sampled(one, self.domain, values, demand(one, (region,)))
        return list(restrict(found, region, graph.outputs[number])[0].ravel())


def _at(place: tuple[int, ...], shape: tuple[int, ...]) -> Region:
    """Return the element that the place ``place`` reads from a tensor of this shape, which is
    broadcast."""
    own = ((0,) * len(shape) + place)[len(place) :]
    return tuple(np.asarray([p if n > 1 else 0]) for p, n in zip(own, shape, strict=True))


def _first(indices: Indices) -> int:
    assert indices is not None
    return int(indices[0])


def is_elementwise(graph: KernelGraph) -> bool:
    """Return whether each element of an output is the same function of the inputs' elements at its
    place, where tensors may be broadcast."""
    shape = graph.outputs[0].shape
    return all(v.shape == shape for v in graph.outputs) and all(
        op.number is not None
        or (isinstance(op, View) and not op.operands[0].shape)
        or (isinstance(op, Elementwise) and _is_broadcast(op.results[0].shape, shape))
        for op in graph.ops
    )


def _is_broadcast(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is as large as others along each of its dimensions, or has size 1."""
    sizes = zip(reversed(own), reversed(shape), strict=False)
    return len(own) <= len(shape) and all(n in (1, size) for n, size in sizes)
