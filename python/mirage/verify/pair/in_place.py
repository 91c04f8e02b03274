"""The verdict where programs are equal with the positions and tensors that they hold alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.defined.evidence_of_definedness import defined_evidence
from mirage.verify.evidence.proofs.proof_in_place import prove_in_place
from mirage.verify.evidence.roundings.rounding import measure_together
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pair.postponed import rounding_evidence
from mirage.verify.shared_inputs.shared_rows import has_rows
from mirage.verify.verdict import Kind, Verdict
from mirage.verify.verify_options import VerifyOptions


def in_place(
    reference: KernelGraph,
    candidate: KernelGraph,
    verdict: Verdict,
    contents: Mapping[int, Array],
    options: VerifyOptions,
) -> Verdict:
    """The verdict on two programs of which ``contents`` are known inputs: where nothing was shown
    with any numbers in their place, or a candidate is not defined for all of those, they are
    compared with those that are there."""
    open_ = verdict.kind is Kind.UNKNOWN or (verdict.equivalent and verdict.defined is False)
    some = contents or has_rows(reference, candidate)
    if not open_ or not some or not options.prove:
        return verdict
    proof = prove_in_place(reference, candidate, contents)
    if not proof.holds:
        return verdict if verdict.equivalent else replace(
            verdict, evidence=(*verdict.evidence, proof)
        )  # fmt: skip
    count = len(reference.outputs)
    first, second = reference, candidate
    stable = decompose(first, stable=True), decompose(second, stable=True)
    order = tuple(range(count))
    rng = np.random.default_rng(options.rounding_seed)
    sample = choose_sample(stable, options.work, rng)
    try:
        references = [stable[0], decompose(first)]
        defined = defined_evidence(references, stable[1], sample, rng, order, contents)
    except UnknownOp:
        return verdict  # calls, of which nothing is known
    proved = Verdict(
        Kind.PROVED, None, (proof, defined), verdict.seed, None, None, order,
        defined=defined.holds is True,
    )  # fmt: skip
    if not proved.defined or not options.numerics:
        return proved
    (found,) = measure_together(
        stable, sample, options.rounding_seed, (order,), contents, options.assume
    )
    rounding = rounding_evidence(found.errors, options.assume)
    return replace(
        proved, evidence=(*proved.evidence, rounding), numerics_hold=rounding.holds is True
    )
