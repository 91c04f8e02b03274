"""Proofs of programs whose small model is too large for random points; attempts that take little
work come first.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from mirage.semantics.ugraph import KernelGraph
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.proof_by_places import compare_movements, compare_places
from mirage.verify.evidence.proofs.proof_by_tiles import prove_opened
from mirage.verify.evidence.proofs.small_model import SmallPair, direct_pair, small_pair
from mirage.verify.evidence.proofs.value_by_value import prove_in_segments
from mirage.verify.verdict import Evidence


def attempts(
    reference: KernelGraph, candidate: KernelGraph, rng: random.Random
) -> Iterator[Evidence]:
    """Yield attempts at a proof. Both programs have primitive ops only.

    Programs that only move elements are compared by where the elements go. Otherwise the attempts
    are: the programs themselves, if they are small; the small model with reciprocals as symbols;
    formulas of elements, if places have no common digits; tiles inside of kernels; and segments.
    """
    moved = compare_movements(reference, candidate)
    if moved is not None and moved.holds:
        yield moved
        return
    direct = direct_pair(reference, candidate)
    if direct is not None:
        yield prove(direct, most_work=LITTLE_WORK)
    pair: SmallPair | None = None
    with contextlib.suppress(Irregular):
        pair = small_pair(reference, candidate, reciprocals_as_symbols=True)
    if pair is not None:
        yield prove(pair, reciprocals_as_symbols=True, most_work=LITTLE_WORK)
    if pair is None and (found := compare_places(reference, candidate)) is not None:
        yield found
        return
    yield prove_opened(reference, candidate, rng)
    yield prove_in_segments(reference, candidate, rng)
    if direct is not None:
        yield prove(direct)
    if pair is not None:
        yield prove(pair, reciprocals_as_symbols=True)
