"""Proofs of the parts of two programs whose common values were guessed from numbers.

A part may be written differently in ways that need one of the other readings (a sigmoid as a
quotient of exponentials, a root of a product, a choice by a sign), for which the whole programs
would be too large.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator

from mirage.semantics.decompose import decompose
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.proofs.exact import compare_exactly, compare_real_functions, show
from mirage.verify.evidence.proofs.proof_by_cases import is_elementwise, prove_by_cases
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.normal_form.normalize import Depth, has_exponentials, normalize
from mirage.verify.normal_form.real_functions import has_real_functions
from mirage.verify.pieces.kernel_by_kernel import Piece, Shown


def show_guessed(piece: Piece, seed: int, seconds: float) -> Shown:
    """Return whether a piece is the same function on both sides, in any reading, within some
    seconds of processor time."""
    until = time.process_time() + seconds
    found = show(piece, seed, processor_seconds=seconds)
    if found.holds:
        return found
    for attempt in _readings(piece, random.Random(seed)):
        try:
            with time_limit(math.inf, until - time.process_time()):
                other = attempt()
        except OutOfTime:
            break
        except UnknownOp:
            continue
        if other.holds:
            return other
    return found


def _readings(piece: Piece, rng: random.Random) -> Iterator[Callable[[], Shown]]:
    """Yield attempts at a proof in other readings."""
    pair = piece.first, piece.second

    def written(depth: Depth) -> tuple[KernelGraph, KernelGraph]:
        first, second = (normalize(decompose(g), depth) for g in pair)
        return first, second

    if all(is_elementwise(decompose(g)) for g in pair):
        yield lambda: _by_cases(piece)
    if has_exponentials(*pair):
        yield lambda: compare_exactly(*written(Depth.EXPONENTIALS), rng=rng).shown
    if has_real_functions(*pair):
        yield lambda: compare_real_functions(*written(Depth.REALS)).shown


def _by_cases(piece: Piece) -> Shown:
    proof = prove_by_cases(piece.first, piece.second, {})
    return Shown(-math.inf if proof.holds else 0.0, (proof,))
