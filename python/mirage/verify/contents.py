"""Programs that hold tensors with fixed elements: do they differ with those?

That two programs are equal for all elements of a mask or a table is more than is asked; that they
differ for some is no difference of the programs. So where programs are not shown to be equal in
general, they are compared in float64 with the elements that they hold, on random other inputs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.lookups import loaded
from mirage.verify.bound import Aligned
from mirage.verify.evidence.held import held_difference
from mirage.verify.options import VerifyOptions
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness
from mirage.verify.verifier import verify


def verify_aligned(aligned: Aligned, options: VerifyOptions) -> Verdict:
    """The verdict on two programs as they are, with what they hold."""
    if aligned.different:
        evidence = Evidence("results", False, aligned.different)
        return Verdict(Kind.REFUTED, None, (evidence,), options.seed or 0)
    first, second = aligned.reference, aligned.candidate
    verdict = verify(first, second, options, contents=aligned.contents)
    finite = all(np.isfinite(x).all() for x in aligned.contents.values())
    if not aligned.contents or (verdict.equivalent and finite):
        return verdict
    graphs = (decompose(loaded(first), stable=True), decompose(loaded(second), stable=True))
    difference, count = held_difference(graphs, aligned.contents, options.work, verdict.seed)
    name = "float64 with the elements of buffers and constants"
    if difference is not None:
        text = f"{count} random inputs, all bound tensors that are no parameters as they are"
        d = difference
        inputs = f"float64, inputs {d.scale:g} times standard normal, bound tensors as they are"
        witness = Witness(verdict.seed, d.output, d.element, d.expected, d.actual, inputs)
        return Verdict(Kind.REFUTED, None, (Evidence(name, False, text),), verdict.seed, witness)
    if verdict.equivalent:  # for all finite elements, and on what these infinite ones make of them
        return verdict
    text = f"no difference on {count} random inputs; that they are equal is not shown"
    if not count:
        text = "not tried: too much work at these sizes"
    evidence = (*verdict.evidence, Evidence(name, None, text))
    return replace(verdict, kind=Kind.UNKNOWN, evidence=evidence, witness=None)
