"""Masks that add a large negative number to exponents, in place of minus infinity.

``softmax(masked_fill(s, m, -1e9))`` is the softmax with minus infinity wherever a row has an
element that is not masked: the exponential of a number below -2^28 is zero in every type. In a row
that is masked completely all masked elements are equal, so that the softmax is a number, while with
minus infinity it is NaN. So a candidate with such masks is read with minus infinity in their place.
If it is then equal to the reference, and defined wherever the reference is, the reference has no
number in those rows, and what the candidate gives there makes no difference. A reference with such
masks is read in this way if it stays defined wherever it was: then no row is masked completely.

If both programs have such masks, they may also be read with the same number in all of them: if a
row is masked completely, its softmax does not depend on the number, because it is that of the
scores without it.

These readings hold for scores below 2^28 (2^14 in f16, whose numbers end at 2^16), and only if
nothing but exponentials, or maxima that are subtracted from their arguments, depends on the number.
Whether scores are that small is tested with the original programs
(:mod:`mirage.verify.pair.as_written`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import Number
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value, View
from mirage.verify.evidence.defined.evidence_of_definedness import defined_evidence
from mirage.verify.evidence.roundings.input_roles import least
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.normal_form.predicates import Truth, truth_of
from mirage.verify.pair.added_masks import added_masks, number_of
from mirage.verify.shared_inputs.held_positions import Held, read, with_positions_written

READ = (
    "large negative numbers that masks add to exponents are read as minus infinity, for scores "
    "that are much smaller than these"
)
ALIKE = (
    "large negative numbers that masks add to exponents are read as the same number, for scores "
    "that are much smaller than these"
)

_CARRIED = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAX, ReduceFn.MAX)


def without_least_masks(
    graph: KernelGraph, contents: Mapping[int, Array] = {}
) -> KernelGraph | None:
    """Return the program with minus infinity in place of the numbers that masks add; None if it has
    no such masks, or if anything else depends on them. ``contents`` are the elements of the tensors
    that it holds, which may be masks by position."""

    def infinite(b: Builder, truth: Truth, dtype: DType) -> Value:
        return b.unary(UnaryFn.BIAS, _as_number(b, (truth[0], not truth[1]), dtype))

    return _written(graph, contents, infinite)


def with_one_least_number(graph: KernelGraph) -> KernelGraph | None:
    """Return the program with another number in place of the one that all of its masks add,
    which is the same for all programs. None if it has no such masks, if they add several numbers
    (where each element of a row is masked by one of them, the larger number wins), or if anything
    else depends on them."""

    def finite(b: Builder, truth: Truth, dtype: DType) -> Value:
        return b.binary(BinaryFn.MUL, _as_number(b, truth, dtype), b.constant(least(dtype)))

    written = decompose(added_masks(graph)[0], stable=True)
    makers = {v: op for op in written.ops for v in op.results}
    numbers = {found[1] for op in written.ops if (found := _masked(op, makers)) is not None}
    return _written(graph, {}, finite) if len(numbers) == 1 else None


def _written(
    graph: KernelGraph,
    contents: Mapping[int, Array],
    write: Callable[[Builder, Truth, DType], Value],
) -> KernelGraph | None:
    graph, contents = added_masks(graph, contents)
    written = decompose(graph, stable=True)  # values keep their identity except inside composites
    makers = {v: op for op in written.ops for v in op.results}
    masks = {op.results[0]: found[0] for op in graph.ops if (found := _masked(op, makers))}
    held = {i: found for i, x in contents.items() if (found := _held(x, graph.inputs[i].dtype))}
    numbers = {*masks, *(graph.inputs[i] for i in held)}
    used = {v for op in written.ops for v in op.operands}
    if not numbers & used or not _reach_only_exponents(written, numbers):
        return None
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        truth = masks.get(op.results[0])
        if truth is None:
            ops.append(with_operands(op, tuple(names.get(v, v) for v in op.operands)))
            continue
        b = Builder()
        names[op.results[0]] = write(b, truth, op.results[0].dtype)
        ops += b.ops
    found = KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)
    return without_dead_ops(with_positions_written(found, held))


def stays_defined(
    reading: KernelGraph, program: KernelGraph, contents: Mapping[int, Array], work: float
) -> bool:
    """Return whether a reading of a program is defined wherever the program is, for any inputs: by
    the signs of its numbers alone, since a row that random masks leave empty is rare."""
    rng = np.random.default_rng(0)
    first, second = decompose(program, stable=True), decompose(reading, stable=True)
    order = tuple(range(len(program.outputs)))
    try:
        sample = choose_sample((first, second), work, rng)
        found = defined_evidence(
            (first, decompose(program)), second, sample, rng, order, dict(contents)
        )
    except UnknownOp:  # calls
        return False
    return found.holds is True and not found.figures["by_reference"]


def _held(x: Array, dtype: DType) -> Held | None:
    """Return the mask by position that a tensor with large negative numbers is."""
    far = x <= least(dtype)
    return read(np.where(far, -np.inf, x), dtype) if far.any() else None


def _as_number(b: Builder, truth: Truth, dtype: DType) -> Value:
    """Write 1 where a truth value is true, and 0 elsewhere."""
    x, negated = truth
    if negated and x.dtype is DType.I1:
        x = b.unary(UnaryFn.NOT, x)
    elif negated:
        x = b.binary(BinaryFn.SUB, b.constant(1, x.dtype), x)
    return b.cast(x, dtype)


def _masked(op: Op, makers: Mapping[Value, Op]) -> tuple[Truth, Number] | None:
    """Return the truth value that an op multiplies with a number that is small enough, and the
    number."""
    if op.function is not BinaryFn.MUL:
        return None
    for x, factor in (op.operands, op.operands[::-1]):
        number = number_of(factor, makers)
        if number is None or not number <= least(op.results[0].dtype):
            continue
        truth = truth_of(x, makers)
        if truth is not None and truth[0].shape == op.results[0].shape:
            return truth, number
    return None


def _reach_only_exponents(graph: KernelGraph, masks: Set[Value]) -> bool:
    """Return whether masks are only added to values, of which maxima are taken and subtracted, and
    whose exponentials are taken in the end."""
    reached, maxima = set(masks), set[Value]()
    for op in graph.ops:
        if not reached & set(op.operands) or op.function is UnaryFn.EXP:
            continue
        same = isinstance(op, View) or is_cast(op)
        if not same and op.function not in _CARRIED:
            return False
        if op.function is BinaryFn.SUB and op.operands[1] in reached - maxima:
            return False  # the numbers of two masks may cancel, which infinities do not
        if op.function is ReduceFn.MAX or (same and op.operands[0] in maxima):
            maxima.update(op.results)
        reached.update(op.results)
    return not reached & set(graph.outputs)
