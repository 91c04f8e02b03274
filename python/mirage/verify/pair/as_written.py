"""The tests of two programs in their original form, if only readings of them are shown to be equal.

A reading with minus infinity in place of a large negative number is the program for scores that
are much smaller than the number. The original program shows how large scores are: it is compared in
float64, and its rounding errors count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.roundings.rounding import measure_together
from mirage.verify.evidence.samples.instance import TooMuchWork, make_joint
from mirage.verify.pair.postponed import REAL_SIZES, rounding_evidence
from mirage.verify.shared_inputs.cut_calls import cut_calls
from mirage.verify.shared_inputs.free_positions import Freed, free_positions, held_apart
from mirage.verify.verdict import Evidence, Verdict
from mirage.verify.verify_options import VerifyOptions


def as_written(
    reference: KernelGraph,
    candidate: KernelGraph,
    read: Verdict,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    *,
    refutes: bool,
) -> Verdict:
    """Return the verdict on two programs whose readings are equal according to the verdict
    ``read``, which says nothing of rounding errors. A difference in float64 ``refutes`` if the
    programs are the same functions of real numbers in other rows than empty ones."""
    order = read.permutation or range(len(candidate.outputs))
    outputs = tuple(candidate.outputs[j] for j in order if j < len(candidate.outputs))
    pair = free_positions(reference, replace(candidate, outputs=outputs))
    known = {**contents, **pair.positions}
    if refutes:
        apart = held_apart(pair, known, options.work, read.seed)
        if isinstance(apart, Verdict):
            return apart
    if not options.numerics:
        return read
    found = _errors(pair, known, options)
    return replace(read, evidence=(*read.evidence, found), numerics_hold=found.holds)


def _errors(pair: Freed, known: Mapping[int, Array], options: VerifyOptions) -> Evidence:
    """Return the evidence on the rounding errors of a candidate."""
    cut = (cut_calls(g, rows=False).graph for g in (pair.reference, pair.candidate))
    stable = [decompose(g, stable=True) for g in cut]
    rng = np.random.default_rng(options.rounding_seed)
    try:
        graphs, sample = make_joint(stable, options.work, rng)
    except TooMuchWork as reason:
        return Evidence(REAL_SIZES, None, str(reason))
    order = tuple(range(len(graphs[0].outputs)))
    contents = {} if sample.fixed else known
    (found,) = measure_together(
        graphs, sample, options.rounding_seed, (order,), contents, options.assume
    )
    return rounding_evidence(found.errors, options.assume)
