"""Programs that hold tensors with fixed elements: do they differ with those?

That two programs are equal for all elements of a mask or a table is more than is asked; that they
differ for some is no difference of the programs. So where programs are not shown to be equal in
general, they are compared in float64 with the elements that they hold, on random other inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.evaluate import Sampled
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.bound import Aligned
from mirage.verify.evidence.floats import Difference, compare_inputs, draw_inputs
from mirage.verify.evidence.sampling import Sample, choose_sample
from mirage.verify.options import VerifyOptions
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness
from mirage.verify.verifier import verify

_SCALES = (1.0, 0.05)
_PARTS = 3  # of the outputs that are looked at
_AT_MOST = 32.0  # times the work of a test that a single element may need


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
    graphs = (decompose(first, stable=True), decompose(second, stable=True))
    difference, count = _difference(graphs, aligned.contents, options.work, verdict.seed)
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


def _difference(
    graphs: tuple[KernelGraph, KernelGraph],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
) -> tuple[Difference | None, int]:
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(_PARTS):
        sample = choose_sample(graphs, 4.0 * work, rng)
        if sample.work > _AT_MOST * work:
            break
        for scale in _SCALES:
            inputs = with_contents(draw_inputs(graphs[0], sample, rng, scale), sample, contents)
            found = compare_inputs(graphs, sample, inputs, range(len(graphs[0].outputs)), scale)
            count += 1
            if found is not None:
                return found, count
        if sample.fraction == 1.0:
            break
    return None, count


def with_contents(
    inputs: list[Sampled], sample: Sample, contents: Mapping[int, Array]
) -> list[Sampled]:
    """The inputs with the elements that are known in place."""
    result = list(inputs)
    for i, content in contents.items():
        x = np.asarray(content, dtype=np.float64)
        for dim, index in enumerate(sample.inputs[i]):
            x = x if index is None else np.take(x, index, axis=dim)
        result[i] = Sampled((x,), sample.inputs[i])
    return result
