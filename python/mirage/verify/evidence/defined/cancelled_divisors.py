"""Whether a candidate is defined if divisors that shares have in common are cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
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
    cancelled in both programs, which changes nothing; None if there are none, or if it is not."""
    cancelled, other = (without_common_divisors(g) for g in (candidate, references[-1]))
    if cancelled is None and other is None:
        return None
    cancelled = cancelled or decompose(candidate)
    references = references if other is None else [*references, other]
    sample = choose_sample((references[0], cancelled), work, rng)
    found = defined_evidence(references, cancelled, sample, rng, order, contents)
    return replace(found, text=f"{found.text}; {CANCELLED}") if found.holds else None
