"""Verification of one candidate, and of programs that hold tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from mirage.rare_collections import rare_collections
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.pages import of_any_pages
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.roundings.rounding import measure_together
from mirage.verify.evidence.samples.floats import Difference
from mirage.verify.evidence.samples.held import held_difference
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pair.budget import Budget, usual_seconds
from mirage.verify.pair.examine import examine
from mirage.verify.pair.filled_rows import EMPTY_ROWS, IF_ROWS_ARE_LEFT, without_filled_rows
from mirage.verify.pair.in_place import in_place
from mirage.verify.pair.postponed import rounding_evidence
from mirage.verify.pieces.kernel_by_kernel import Hint, Shown
from mirage.verify.shared_inputs.bound_tensors import Aligned
from mirage.verify.shared_inputs.choices_by_position import with_choices_cut
from mirage.verify.shared_inputs.products_of_held import with_products
from mirage.verify.shared_inputs.rounded_tables import before_computing, before_rounding
from mirage.verify.shared_inputs.tables_alike import ROUNDED, with_one_table, with_shared_elements
from mirage.verify.shared_inputs.wrapped_integers import INTEGERS_FIT, with_other_wraps
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness
from mirage.verify.verify_options import VerifyOptions


@rare_collections()
def verify(
    reference: KernelGraph,
    candidate: KernelGraph,
    options: VerifyOptions | None = None,
    hint: Hint | None = None,
    known: Mapping[str, Shown] = {},
    contents: Mapping[int, Array] = {},
) -> Verdict:
    """Verify that ``candidate`` is the same function of its inputs as ``reference``.

    With a ``hint`` of what the candidate's tensors hold, it is verified kernel by kernel; ``known``
    has results for pieces that were examined before, by their key. If a candidate is not shown to
    be equivalent, its constants are read as others that compile to the same numbers. ``contents``
    are the values of inputs that are fixed: rounding errors are measured with them. Raises
    :class:`SignatureMismatch` and :class:`mirage.semantics.check.InvalidGraph`.
    """
    options = options or VerifyOptions()
    budget = Budget(math.inf if options.seconds is None else options.seconds)
    found = examine(
        reference, candidate, options, hint, known, contents, postpone=False, budget=budget
    )
    assert isinstance(found, Verdict)
    return _with_cut(found, budget)


@rare_collections()
def verify_aligned(aligned: Aligned, options: VerifyOptions) -> Verdict:
    """Return the verdict on two programs with the tensors that they hold."""
    aligned, sums = with_other_wraps(aligned, fit=options.assume.integers_fit)
    seconds = options.seconds
    if aligned.misses_are_errors:
        options = replace(options, misses_are_errors=True)
    budget = Budget(seconds or usual_seconds(aligned.reference, aligned.candidate))
    found = _of_aligned(aligned, options, budget)
    found = _with_cut(_where_rows_are_left(aligned, found, options, budget), budget)
    if not sums or not found.equivalent:
        return found
    return replace(found, evidence=(*found.evidence, Evidence("integers", True, INTEGERS_FIT)))


def _where_rows_are_left(
    aligned: Aligned, found: Verdict, options: VerifyOptions, budget: Budget
) -> Verdict:
    """Return the verdict on programs that are not shown to be equal. The reference may give zeros
    in rows that a mask empties, and the candidate something else; if they are equal
    everywhere else, the verdict depends on whether there are such rows."""
    filled = None if found.equivalent else without_filled_rows(aligned.reference)
    if filled is None:
        return found
    other = _of_aligned(replace(aligned, reference=filled), options, budget)
    if not other.equivalent or not other.defined:
        return found
    if options.assume.rows_left:
        text = "each mask leaves something of each row, as is assumed"
        return replace(other, evidence=(Evidence(EMPTY_ROWS, True, text), *other.evidence))
    evidence = Evidence(EMPTY_ROWS, None, IF_ROWS_ARE_LEFT)
    return replace(found, kind=Kind.UNKNOWN, evidence=(*found.evidence, evidence), witness=None)


def _with_cut(verdict: Verdict, budget: Budget) -> Verdict:
    """Return an unknown verdict with the attempts for which there was no time."""
    if verdict.kind is not Kind.UNKNOWN:
        return verdict
    return replace(verdict, evidence=(*verdict.evidence, *budget.evidence))


def _of_aligned(aligned: Aligned, options: VerifyOptions, budget: Budget) -> Verdict:
    if aligned.different:
        evidence = Evidence("results", False, aligned.different)
        return Verdict(Kind.REFUTED, None, (evidence,), options.seed or 0)
    first, second = of_any_pages(aligned.reference), of_any_pages(aligned.candidate)
    if not first.outputs and not second.outputs:
        evidence = Evidence("results", True, "no result is a tensor with elements")
        return Verdict(
            Kind.PROVED, None, (evidence,), options.seed or 0, None, True, (), defined=True
        )
    contents = aligned.contents
    verdict = examine(first, second, options, contents=contents, postpone=False, budget=budget)
    assert isinstance(verdict, Verdict)
    finite = all(np.isfinite(x).all() for x in aligned.contents.values())
    if not aligned.contents:
        return verdict
    if verdict.equivalent and finite:
        return in_place(loaded(first), loaded(second), verdict, aligned.contents, options, budget)
    if any(op.calls for g in (first, second) for op in g.ops):  # they were run with these contents
        return replace(verdict, kind=Kind.UNKNOWN) if verdict.equivalent else verdict
    graphs = (decompose(loaded(first), stable=True), decompose(loaded(second), stable=True))
    difference, count = held_difference(graphs, aligned.contents, options.work, verdict.seed)
    name = "float64 with the elements of buffers and constants"
    alike = [] if difference is None else list(_tables_alike(aligned))
    if difference is not None and _is_rounding(difference, aligned.contents, bool(alike)):
        found = _with_tables_read(aligned, options, budget)
        for other in alike:
            found = found or _with_one_table(aligned, other, options, budget)
        if found is not None:
            return found
        text = "the difference is no larger than what rounding the elements makes"
        evidence = (*verdict.evidence, Evidence(name, None, text))
        return replace(verdict, kind=Kind.UNKNOWN, evidence=evidence, witness=None)
    if difference is not None:
        text = f"{count} random inputs, bound tensors other than parameters with their own elements"
        d = difference
        inputs = f"float64, inputs {d.scale:g} times standard normal, bound tensors as they are"
        witness = Witness(verdict.seed, d.output, d.element, d.expected, d.actual, inputs)
        refuted = Verdict(Kind.REFUTED, None, (Evidence(name, False, text),), verdict.seed, witness)
        return in_place(loaded(first), loaded(second), refuted, aligned.contents, options, budget)
    if verdict.equivalent:  # for all finite elements, and for the results of these infinite ones
        return verdict
    text = f"no difference on {count} random inputs; that they are equal is not shown"
    if not count:
        text = "not tried: too much work at these sizes"
    evidence = (*verdict.evidence, Evidence(name, None, text))
    verdict = replace(verdict, kind=Kind.UNKNOWN, evidence=evidence, witness=None)
    for pair in (with_choices_cut(first, second), (first, second)):
        if pair is None or any(map(_has_positions, pair)):
            continue  # it was tried with positions
        one, other = map(loaded, pair)
        found = in_place(one, other, verdict, aligned.contents, options, budget)
        if found.kind is not Kind.UNKNOWN:
            return found
        verdict = found
    return _with_tables_read(aligned, options, budget) or verdict


def _with_tables_read(aligned: Aligned, options: VerifyOptions, budget: Budget) -> Verdict | None:
    """Return the verdict on programs whose held tensors are read as numbers that round to the same;
    None if this does not show that they are equal."""
    read = before_rounding((aligned.reference, aligned.candidate), aligned.contents)
    if read is None:
        return None
    found = _of_aligned(replace(aligned, contents=read), options, budget)
    if not found.equivalent:
        return None
    evidence = Evidence("held tensors", True, "read as numbers that round to the same")
    return replace(found, evidence=(evidence, *found.evidence))


def _tables_alike(aligned: Aligned) -> Iterator[Aligned]:
    """Yield the programs with other tables that are the same up to a few roundings."""
    for one in (f(aligned) for f in (with_one_table, with_shared_elements, with_products)):
        if one is not None:
            yield one
    computed = before_computing((aligned.reference, aligned.candidate), aligned.contents)
    if computed is not None:
        yield replace(aligned, contents=computed)


def _with_one_table(
    aligned: Aligned, alike: Aligned, options: VerifyOptions, budget: Budget
) -> Verdict | None:
    """Return the verdict on programs that hold the same tables up to their roundings, given them
    with the same tables (``alike``); None if this does not show that they are equal, or if the
    roundings matter."""
    found = _of_aligned(alike, options, budget)
    if not found.equivalent or found.permutation is None:
        return None
    graphs = tuple(
        decompose(loaded(g), stable=True) for g in (aligned.reference, aligned.candidate)
    )
    sample = choose_sample(graphs, options.work, np.random.default_rng(options.rounding_seed))
    (measured,) = measure_together(
        graphs,
        sample,
        options.rounding_seed,
        (found.permutation,),
        aligned.contents,
        options.assume,
    )
    rounding = rounding_evidence(measured.errors, options.assume)
    if not rounding.holds:
        return None
    name = "held tensors"
    note = Evidence(name, True, f"the same up to roundings, each with its own: {rounding.text}")
    return replace(found, evidence=(note, *found.evidence))


def _has_positions(graph: KernelGraph) -> bool:
    return any(isinstance(op, Lookup) and not op.operands for op in graph.ops)


def _is_rounding(difference: Difference, contents: Mapping[int, Array], alike: bool) -> bool:
    """Return whether a difference may come from bound tensors that are rounded to f32: a tensor of
    1/3 holds another number than the division by 3 gives. Where tables are ``alike`` but for their
    roundings, these are as large as those of their largest elements."""
    rounded = [x for x in map(_finite, contents.values()) if (x != np.trunc(x)).any()]
    largest = [float(np.abs(x).max()) for x in rounded] if alike else []
    size = max(abs(difference.expected), abs(difference.actual), *largest)
    return bool(rounded) and abs(difference.expected - difference.actual) <= ROUNDED * size


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)
