"""The verdict on programs that are equal only with the positions and tensors that they hold."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.defined.cancelled_divisors import defined_with_divisors_cancelled
from mirage.verify.evidence.defined.evidence_of_definedness import defined_evidence
from mirage.verify.evidence.proofs.exact import compare_exactly
from mirage.verify.evidence.proofs.proof_by_cases import NAME as PROOF_BY_CASES
from mirage.verify.evidence.proofs.proof_by_cases import prove_by_cases
from mirage.verify.evidence.proofs.proof_in_place import (
    MOST_IN_TIME,
    MOST_WORK,
    prove_in_place,
)
from mirage.verify.evidence.proofs.proof_in_place import NAME as PROOF_IN_PLACE
from mirage.verify.evidence.roundings.rounding import measure_together
from mirage.verify.evidence.samples.held import held_difference
from mirage.verify.evidence.samples.integer_inputs import looked_up
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.normal_form.last_sums import without_last_sums
from mirage.verify.normal_form.normalize import Depth, normalize
from mirage.verify.normal_form.read_by_rows import in_range, within_places
from mirage.verify.pair.budget import Budget
from mirage.verify.pair.by_rows import IF_IN_RANGE, IF_OUTSIDE, ByRows, by_rows, if_in_range
from mirage.verify.pair.in_floats import AT_REAL_SIZES
from mirage.verify.pair.postponed import rounding_evidence
from mirage.verify.pair.read_constants import constants_read, notes_on_constants
from mirage.verify.shared_inputs.free_values import with_free_values
from mirage.verify.shared_inputs.shared_rows import has_rows
from mirage.verify.shared_inputs.whole_functions import with_whole_functions
from mirage.verify.verdict import Evidence, Kind, Verdict
from mirage.verify.verify_options import VerifyOptions

WHOLE_FUNCTIONS = "both with functions of whole numbers"


def _has_integers(*graphs: KernelGraph) -> bool:
    """Return whether a program has truth values or whole numbers, about which more can be known
    than about other values."""
    return any(v.dtype.is_integer for g in graphs for op in g.ops for v in op.results)


def in_place(
    reference: KernelGraph,
    candidate: KernelGraph,
    verdict: Verdict,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    budget: Budget | None = None,
) -> Verdict:
    """Return the verdict on two programs whose inputs ``contents`` are known. They are compared
    with these contents if nothing was shown for arbitrary numbers in their place, or if a candidate
    is not defined for all of those. If it gave no number somewhere, it may name elements of rows
    there that do not exist, and be equal everywhere else."""
    open_ = verdict.kind is Kind.UNKNOWN or (verdict.equivalent and verdict.defined is False)
    seen = verdict.witness
    no_number = seen is not None and not math.isfinite(seen.actual) and math.isfinite(seen.expected)
    if not (open_ or no_number) or not options.prove:
        return verdict
    if any(op.calls for g in (reference, candidate) for op in g.ops):
        return verdict  # nothing is known about calls
    budget = budget or Budget()
    first, second, constants = constants_read(reference, candidate)
    rows, given = None, (first, second, contents, options, verdict.seed)
    if verdict.kind is Kind.UNKNOWN or no_number:
        rows = budget.attempt("both by rows", lambda: by_rows(*given))
    proof = None if rows is None else rows.proof
    if no_number and (rows is None or not rows.places):
        return _unless_outside(first, second, verdict, contents, options)
    if proof is None:
        proof = _proof(first, second, verdict, contents, budget)
    if proof is None or not proof.holds:
        if verdict.equivalent:
            return verdict
        notes = [] if proof is None else [proof]
        if budget.attempt("both by rows, with indices in range", lambda: if_in_range(*given)):
            notes.append(Evidence("indices in range", None, IF_IN_RANGE))
        return replace(verdict, evidence=(*verdict.evidence, *notes))
    found = _measured(reference, candidate, verdict, contents, options, proof, rows)
    if found is None:
        return verdict
    notes = (*notes_on_constants(constants), *(() if rows is None else rows.notes))
    return replace(found, evidence=(*notes, *found.evidence))


def _unless_outside(
    reference: KernelGraph,
    candidate: KernelGraph,
    verdict: Verdict,
    contents: Mapping[int, Array],
    options: VerifyOptions,
) -> Verdict:
    """Return the verdict on a candidate that gave no number somewhere: this is not a refutation if
    it looks up rows and no difference is found where whole numbers name rows."""
    pair = decompose(reference, stable=True), decompose(candidate, stable=True)
    if not looked_up(pair[1]):
        return verdict
    found, count = held_difference(pair, contents, options.work, verdict.seed, within=True)
    if found is not None or not count:
        return verdict
    text = f"no difference on {count} random inputs whose whole numbers name elements"
    said = text if options.assume.indices_in_range else IF_OUTSIDE
    evidence = (*verdict.evidence, Evidence("indices in range", None, said))
    return replace(verdict, kind=Kind.UNKNOWN, evidence=evidence, witness=None)


def _measured(
    reference: KernelGraph,
    candidate: KernelGraph,
    verdict: Verdict,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    proof: Evidence,
    rows: ByRows | None,
) -> Verdict | None:
    """Return the verdict with a proof: whether the candidate is defined, and its rounding errors;
    None if there are calls, about which nothing is known."""
    if rows is not None and rows.programs is not None:
        reference, candidate = rows.programs
    stable = decompose(reference, stable=True), decompose(candidate, stable=True)
    order = tuple(range(len(reference.outputs)))
    rng = np.random.default_rng(options.rounding_seed)
    sample = choose_sample(stable, options.work, rng)
    try:
        references = [stable[0], decompose(reference)]
        asked, looked_at = stable[1], sample
        if rows is not None and rows.places:  # elsewhere the reference has no meaning
            asked = within_places(asked, contents, rows.places)
            if rows.programs is not None:  # with the same conditions, of truth values
                references = [within_places(g, contents, rows.places) for g in references]
            looked_at = choose_sample((references[0], asked), options.work, rng)
        defined = defined_evidence(references, asked, looked_at, rng, order, contents)
        if defined.holds is not True and (rows is None or not rows.places):
            given = references, candidate, options.work, rng, order, contents
            defined = defined_with_divisors_cancelled(*given) or defined
    except UnknownOp:
        return None
    if rows is not None and rows.candidate_only:
        bounds = ", ".join(f"input {i} below {n}" for i, n in rows.places.items())
        text = f"it names elements of rows with {bounds}, the reference with other numbers too"
        defined = replace(defined, holds=False, text=text)
    proved = Verdict(
        Kind.PROVED, None, (proof, defined), verdict.seed, None, None, order,
        defined=defined.holds is True,
    )  # fmt: skip
    if not proved.defined or not options.numerics:
        return proved
    if rows is not None and rows.places:
        stable = in_range(stable[0], rows.places), in_range(stable[1], rows.places)
        sample = choose_sample(stable, options.work, rng)
    (found,) = measure_together(
        stable, sample, options.rounding_seed, (order,), contents, options.assume
    )
    rounding = rounding_evidence(found.errors, options.assume)
    return replace(
        proved, evidence=(*proved.evidence, rounding), numerics_hold=rounding.holds is True
    )


def _proof(
    reference: KernelGraph,
    candidate: KernelGraph,
    verdict: Verdict,
    contents: Mapping[int, Array],
    budget: Budget,
) -> Evidence | None:
    """Return the first proof that holds, or the last one that was tried; None if there is nothing
    to try, or no time."""
    proof: Evidence | None = None
    pair = reference, candidate
    if contents or has_rows(*pair) or _has_integers(*pair):
        most = MOST_IN_TIME if math.isfinite(budget.seconds) else MOST_WORK
        proof = budget.attempt(PROOF_IN_PLACE, lambda: prove_in_place(*pair, contents, most))
    if (proof is not None and proof.holds) or verdict.kind is not Kind.UNKNOWN:
        return proof
    cases = budget.attempt(PROOF_BY_CASES, lambda: _by_cases(*pair, contents))
    if cases is not None and cases.holds:
        return cases
    functions = budget.attempt(WHOLE_FUNCTIONS, lambda: _with_whole_functions(*pair, verdict))
    if functions is not None:
        return functions
    freed = budget.attempt(
        "both with values inside as inputs",
        lambda: _with_free_values(*pair, contents, verdict),
        last=True,
    )
    return freed or proof


def _by_cases(
    first: KernelGraph,
    second: KernelGraph,
    contents: Mapping[int, Array],
    *signs: Collection[int],
) -> Evidence:
    """Return the first proof by cases that holds, of the summands of the programs' last sums or of
    their results, or the last one."""
    found = Evidence(PROOF_BY_CASES, None, "nothing is compared")
    for pair in (*without_last_sums(first, second), (first, second)):
        found = prove_by_cases(*pair, contents, *signs)
        if found.holds:
            break
    return found


def _with_whole_functions(
    reference: KernelGraph, candidate: KernelGraph, verdict: Verdict
) -> Evidence | None:
    """Return a proof in which functions of whole numbers are inputs, or None."""
    read = with_whole_functions(decompose(reference), decompose(candidate))
    if read is None:
        return None
    one, other = (normalize(g, Depth.EXPONENTIALS) for g in read)
    try:
        found = compare_exactly(one, other, random.Random(verdict.seed))
    except UnknownOp:  # calls and lookups
        return None
    if not found.proved:
        return None
    return Evidence(WHOLE_FUNCTIONS, True, found.evidence[-1].text)


def _with_free_values(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array], verdict: Verdict
) -> Evidence | None:
    """Return a proof in which values inside of both programs are inputs, or None. The result of
    small programs counts only if float64 has shown no difference at the real sizes."""
    rng = random.Random(verdict.seed)
    tested = any(e.name == AT_REAL_SIZES and e.holds is True for e in verdict.evidence)

    def are_equal(first: KernelGraph, second: KernelGraph) -> bool:
        one, other = (normalize(g, Depth.EXPONENTIALS) for g in (first, second))
        return compare_exactly(one, other, rng).proved

    for freed in with_free_values(decompose(reference), decompose(candidate), are_equal):
        first, second = freed.pair
        count = len(first.inputs) - len(reference.inputs)
        text = f"whatever {count} values inside are: "
        if contents and (proof := prove_in_place(first, second, contents)).holds:
            return replace(proof, text=text + proof.text)
        if freed.total:
            cases = _by_cases(first, second, contents, freed.not_negative, freed.positive)
            if cases.holds:
                return replace(cases, text=text + cases.text)
        if not tested:
            continue
        one, other = (normalize(g, Depth.EXPONENTIALS) for g in (first, second))
        try:
            found = compare_exactly(one, other, rng)
        except UnknownOp:  # calls and lookups
            continue
        if found.proved:
            last = found.evidence[-1]
            return replace(last, text=text + last.text)
    return None
