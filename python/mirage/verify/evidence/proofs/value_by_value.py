"""Proofs of long programs, piece by piece.

A whole decoder layer has too many denominators and squares in a row for one small model. But a
candidate stores tensors, and many of them are values that the reference computes too. Values that
agree on random residues (over cells of indices) are guessed to be equal, and each guess is proved
from the ones before: values that were proved equal are replaced by a new input of both programs. A
guess that cannot be proved is dropped. The guess is a heuristic; only the proofs count.

Programs that agree for all contents of the new inputs agree in particular when these hold the
reference's values, and by induction the candidate's values are the same. ``docs/verification.md``
has the argument.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.region import whole_demand
from mirage.semantics.scalar import Array
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.arithmetic.field import FieldPair
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK
from mirage.verify.arithmetic.primes import draw
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.readings import readings
from mirage.verify.compression.small_program import Cells, compress_all
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.small_model import small_pair
from mirage.verify.evidence.samples.real_sizes import Q_BITS
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.verdict import Evidence

_CELLS = 2
_MAX_GUESSES = 64
_MOST_WORK = 1e7
"""The most elements that are computed to find values in common; all of them are kept."""


@dataclass(frozen=True)
class _Guess:
    """A value of the reference and one of the candidate that seem to be equal."""

    first: Value
    second: Value


def prove_in_segments(
    reference: KernelGraph, candidate: KernelGraph, rng: random.Random
) -> Evidence:
    """Prove by values in common. ``holds`` is True if the outputs are proved equal, else None. Both
    programs have primitive ops only.
    """
    name = "proof in segments"
    try:
        reading = next(readings((reference, candidate)))
        reference, candidate = reading.graphs
        guesses = find_guesses(reference, candidate, rng)
    except Irregular as reason:
        return Evidence(name, None, str(reason))
    proved: list[_Guess] = []
    for guess in guesses[:_MAX_GUESSES]:
        if _follows(reference, candidate, proved, guess):
            proved.append(guess)
    outputs = map(_Guess, reference.outputs, candidate.outputs)
    holds = all(_follows(reference, candidate, proved, g) for g in outputs)
    text = f"{len(proved)} values in common, of {len(guesses)} that seem to be"
    figures = {"proved": len(proved), "guessed": len(guesses)}
    if not holds:
        return Evidence(name, None, f"the outputs do not follow from {text}", figures)
    return Evidence(name, True, f"the outputs follow from {text}", figures)


def _follows(
    reference: KernelGraph, candidate: KernelGraph, proved: Sequence[_Guess], guess: _Guess
) -> bool:
    """Return whether two values are proved equal, given the equalities that were proved before.

    All of these are used first; then those that do not help are left out: the reference's value
    itself, and the results of the same launch of the candidate (they do not depend on each other).
    """
    beside = next((op.results for op in candidate.ops if guess.second in op.results), ())
    options = (
        list(proved),
        [g for g in proved if g.first is not guess.first],
        [g for g in proved if g.second not in beside],
    )
    tried: list[list[_Guess]] = []
    for known in options:
        if known in tried:
            continue
        tried.append(known)
        if prove_shortly(*_between(reference, candidate, known, (guess.first,), (guess.second,))):
            return True
    return False


def prove_shortly(first: KernelGraph, second: KernelGraph) -> bool:
    """Return whether a proof that takes little work shows two programs to be equal."""
    for as_symbols in (False, True):
        try:
            pair = small_pair(first, second, reciprocals_as_symbols=as_symbols)
        except Irregular:
            continue
        if prove(pair, reciprocals_as_symbols=as_symbols, most_work=LITTLE_WORK).holds:
            return True
    return False


def work_of(first: KernelGraph, second: KernelGraph) -> float:
    """Estimate the number of elements that :func:`prove_shortly` computes."""
    try:
        return 2.0 * small_pair(first, second).work
    except Irregular:
        return 0.0


def find_guesses(
    reference: KernelGraph, candidate: KernelGraph, rng: random.Random
) -> list[_Guess]:
    """Return values that agree at a random point, in the order of the candidate. Raises
    :class:`Irregular`, also if there is too much to compute: sizes whose digits cannot be related
    are not reduced.
    """
    both = (reference, candidate)
    reading = next((r for r in readings(both) if r.graphs == both), None)
    if reading is None:
        raise Irregular("values of merged dimensions cannot be told apart")
    cells = Cells.even(reading.structure, _CELLS)
    values = [_values(g) for g in (reference, candidate)]
    graphs, weights = compress_all(
        [
            KernelGraph(g.name, g.inputs, g.ops, tuple(vs))
            for g, vs in zip((reference, candidate), values, strict=True)
        ],
        cells,
    )
    work = sum(graph_work(g, whole_demand(g)) for g in graphs)
    if work > _MOST_WORK:
        raise Irregular(
            f"the values in small form have {work:.0f} elements, limit {_MOST_WORK:.0f}"
        )
    primes = draw(rng, Q_BITS, 1 << 25)
    domain = FieldPair(primes, rng.getrandbits(64))
    source = np.random.default_rng(rng.getrandbits(128))
    count = len(graphs[0].inputs) - len(weights)
    inputs = [domain.random(source, v.shape) for v in graphs[0].inputs[:count]]
    inputs += [domain.integers(np.array(w, dtype=np.float64)) for w in weights]
    marks = [
        [_mark(v, x[0]) for v, x in zip(vs, evaluate(g, domain, inputs), strict=True)]
        for g, vs in zip(graphs, values, strict=True)
    ]
    known: dict[object, Value] = {}
    for v, mark in zip(values[0], marks[0], strict=True):
        known.setdefault(mark, v)
    return [
        _Guess(known[mark], v)
        for v, mark in zip(values[1], marks[1], strict=True)
        if mark is not None and mark in known and v not in candidate.outputs
    ]


def _values(graph: KernelGraph) -> list[Value]:
    return [v for op in graph.ops if op.number is None for v in op.results]


def _mark(value: Value, residues: Array) -> object:
    """Return a key that is equal for values that agree at the random point, up to a reshape; None
    for undefined values."""
    if not np.isfinite(residues).all():
        return None
    return value.type.size, residues.tobytes()


def _between(
    reference: KernelGraph,
    candidate: KernelGraph,
    proved: Sequence[_Guess],
    first: Sequence[Value],
    second: Sequence[Value],
) -> tuple[KernelGraph, KernelGraph]:
    """Return the programs that compute given values from the inputs and from values that are proved
    equal.

    Each value of the reference that is known has one new input in both programs, for all values
    that are equal to it.
    """
    known = tuple(dict.fromkeys(g.first for g in proved))
    graphs: list[KernelGraph] = []
    for graph, outputs, cuts in (
        (reference, first, [(v, v) for v in known]),
        (candidate, second, [(g.second, g.first) for g in proved]),
    ):
        extra = {v: Value(v.type) for v in known}
        shapes = [v.shape for v in first]
        graphs.append(
            _from_cuts(
                graph, tuple(extra.values()), {v: extra[k] for v, k in cuts}, outputs, shapes
            )
        )
    return graphs[0], graphs[1]


def _from_cuts(
    graph: KernelGraph,
    extra: tuple[Value, ...],
    cuts: Mapping[Value, Value],
    outputs: Sequence[Value],
    shapes: Sequence[tuple[int, ...]],
) -> KernelGraph:
    """Return the part of ``graph`` that computes ``outputs``, in ``shapes``, from the inputs and
    the inputs ``extra``, which replace the values in ``cuts``.
    """
    before, after = Builder(), Builder()
    known = {v: _reshaped(before, x, v.shape) for v, x in cuts.items()}
    last = [known.get(v, v) for v in outputs]
    results = tuple(_reshaped(after, v, shape) for v, shape in zip(last, shapes, strict=True))
    needed = {*results, *last}
    ops = list(reversed(after.ops))
    for op in reversed(graph.ops):
        if any(v in needed for v in op.results):
            ops.append(with_operands(op, tuple(known.get(v, v) for v in op.operands)))
            needed.update(ops[-1].operands)
    ops += [op for op in reversed(before.ops) if op.result in needed]
    return KernelGraph(graph.name, (*graph.inputs, *extra), tuple(reversed(ops)), results)


def _reshaped(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else builder.reshape(value, shape)
