"""Whether a candidate is defined if divisors that shares have in common are cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import Composite, KernelGraph
from mirage.verify.evidence.defined.evidence_of_definedness import defined_evidence
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.normal_form.common_divisors import CANCELLED, without_common_divisors
from mirage.verify.verdict import Evidence


def defined_with_divisors_cancelled(
    references: Sequence[KernelGraph],
    candidate: KernelGraph,
    work: float,
    rng: np.random.Generator,
    order: Sequence[int],
    contents: Mapping[int, Array] = {},
) -> Evidence | None:
    """Return evidence that a candidate is defined if divisors that shares have in common are
    cancelled in both programs, and no maxima are subtracted in its softmaxes. (That changes
    nothing: where nothing is left of a row, the maximum is infinite and the sum is zero.) Return
    None if there are no such divisors, or if the candidate is not defined."""
    cancelled, other = (without_common_divisors(g) for g in (candidate, references[-1]))
    are_cancelled = cancelled is not None or other is not None
    if not are_cancelled and not any(isinstance(op, Composite) for op in candidate.ops):
        return None
    cancelled = cancelled or decompose(candidate)
    references = references if other is None else [*references, other]
    sample = choose_sample((references[0], cancelled), work, rng)
    found = defined_evidence(references, cancelled, sample, rng, order, contents)
    if not found.holds:
        return None
    return replace(found, text=f"{found.text}; {CANCELLED}") if are_cancelled else found
