"""Comparison of programs that are read with rules for rows."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from mirage.semantics.decompose import decompose
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.scalar import Array
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.proofs.exact import compare_exactly
from mirage.verify.evidence.proofs.proof_in_place import prove_in_place
from mirage.verify.evidence.samples.outside_of_rows import gives_no_number_outside
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.normal_form.constants import with_functions_read
from mirage.verify.normal_form.last_sums import without_last_sums
from mirage.verify.normal_form.normalize import Depth, normalize
from mirage.verify.normal_form.read_by_rows import (
    assumed_places,
    named_places,
    read_by_rows,
    reads_otherwise,
    with_masks_as_factors,
)
from mirage.verify.pair.labels_left_out import labels_left_out
from mirage.verify.pair.read_constants import notes_on_constants
from mirage.verify.shared_inputs.free_positions import Freed, free_positions
from mirage.verify.shared_inputs.free_values import with_free_values
from mirage.verify.shared_inputs.shared_rows import cut_rows, has_rows, with_lines_of_indices
from mirage.verify.verdict import Evidence
from mirage.verify.verify_options import VerifyOptions

_SECONDS = 1.5
"""The most seconds of processor time for one comparison."""

_READ = "read by properties of rows (places, orders, picked elements): "
IF_IN_RANGE = (
    "equal wherever each index names an element of its row, and none means to leave out (as "
    "ignore_index does: a mean over the labels that are left is then one over all), which is not "
    "assumed"
)
IF_OUTSIDE = "not shown to be equal; a difference is seen only where an index names no element"


@dataclass(frozen=True)
class ByRows:
    """A proof for programs whose inputs in ``places`` are below their bounds. Otherwise the
    reference, or with ``candidate_only`` the candidate, has no meaning. ``programs`` are others in
    whose form both are compared, if there are any: they have further inputs."""

    proof: Evidence
    places: Mapping[int, int]
    candidate_only: bool = False
    notes: tuple[Evidence, ...] = ()
    programs: tuple[KernelGraph, KernelGraph] | None = None


def by_rows(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    seed: int,
) -> ByRows | None:
    """Return a proof of both programs, read with rules for rows; None if there is no proof, or if
    the rules change nothing."""
    first, second = decompose(reference), decompose(candidate)
    if not reads_otherwise(first, second):
        return None
    if (left := _with_numbers_left_out(first, second, contents, options, seed)) is not None:
        return left
    if options.assume.indices_in_range:
        places = assumed_places((first, second), contents)
    else:
        places = named_places(first, contents)
    proof = _proof(first, second, contents, places.counts, seed)
    proof = proof or _proof_with_free_values(first, second, contents, places.counts, seed)
    outside = {} if options.misses_are_errors else places.infinite
    if proof is not None:
        work = options.work
        if outside and not gives_no_number_outside(first, second, outside, contents, work, seed):
            return None
        return ByRows(proof, places.counts)
    one, other, functions = with_functions_read(reference, candidate)
    if functions:
        given = decompose(one), decompose(other), contents, places.counts, seed
        if not outside and (proof := _proof(*given)) is not None:
            return ByRows(proof, places.counts, notes=tuple(notes_on_constants(functions)))
    others = named_places(second, contents)
    narrower = {i: n for i, n in others.counts.items() if i not in places.counts}
    if not narrower:
        return None
    proof = _proof(first, second, contents, {**places.counts, **narrower}, seed)
    return None if proof is None else ByRows(proof, narrower, candidate_only=True)


def _with_numbers_left_out(
    first: KernelGraph,
    second: KernelGraph,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    seed: int,
) -> ByRows | None:
    """Return a proof of programs whose inputs name places, or are a number with which the reference
    leaves a place out."""
    left = labels_left_out(first, second, contents)
    proof = None if left is None else _proof(*left.programs, contents, left.counts, seed)
    if left is None or proof is None:
        return None
    infinite = left.places.infinite
    errors = options.misses_are_errors or options.assume.indices_in_range
    given = first, second, infinite, contents, options.work, seed
    if infinite and not errors and not gives_no_number_outside(*given, also=left.numbers):
        return None
    return ByRows(proof, left.counts, programs=left.programs)


def if_in_range(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    seed: int,
) -> bool:
    """Return whether programs that are not shown to be equal would be if indices were assumed to be
    in range."""
    pair = decompose(reference), decompose(candidate)
    if options.assume.indices_in_range or not reads_otherwise(*pair):
        return False
    places = assumed_places(pair, contents).counts
    tried = named_places(pair[0], contents).counts
    if all(tried.get(i) == count for i, count in places.items()):
        return False
    return _proof(*pair, contents, places, seed) is not None


def _proof(
    first: KernelGraph,
    second: KernelGraph,
    contents: Mapping[int, Array],
    places: Mapping[int, int],
    seed: int,
) -> Evidence | None:
    plain: tuple[KernelGraph, KernelGraph] | None = None
    late: tuple[tuple[KernelGraph, KernelGraph], Freed] | None = None
    ways = [(False, False), (True, False)] if has_rows(first, second) else [(False, False)]
    for lookups, ranks in (*ways, (False, True)):
        read = read_by_rows(first, second, contents, places, lookups=lookups, ranks=ranks)
        plain = plain or read
        if ranks and tuple(map(signature, read)) == tuple(map(signature, plain)):
            continue
        freed = free_positions(*read)
        pair = freed.reference, freed.candidate
        if lookups:
            known = {**contents, **freed.positions}
            one, other = map(with_lines_of_indices, pair)
            cut = cut_rows(one, other, known, seed)
            if cut is None:
                continue
            pair = cut[0].graph, cut[1].graph
        if (found := _compared(*pair, random.Random(seed))) is not None:
            return found
        factors = [with_masks_as_factors(g, contents) for g in pair]
        if any(g is not None for g in factors):
            pair = factors[0] or pair[0], factors[1] or pair[1]
            if (found := _compared(*pair, random.Random(seed))) is not None:
                return found
            if not lookups and not ranks:
                late = pair, freed
    return None if late is None else _in_place(*late[0], late[1], contents)


def _proof_with_free_values(
    first: KernelGraph,
    second: KernelGraph,
    contents: Mapping[int, Array],
    places: Mapping[int, int],
    seed: int,
) -> Evidence | None:
    """Return a proof for arbitrary values in place of those that both programs compute in the same
    way: facts about the largest probability hold for the largest number of any row, but are lost
    once the probabilities are compared like scores."""
    for freed in with_free_values(first, second):
        if reads_otherwise(*freed.pair):
            found = _proof(*freed.pair, contents, places, seed)
            if found is not None:
                return found
    return None


def _in_place(
    first: KernelGraph, second: KernelGraph, freed: Freed, contents: Mapping[int, Array]
) -> Evidence | None:
    """Return a proof with the actual positions and held tensors."""
    try:
        with time_limit(math.inf, _SECONDS):
            found = prove_in_place(first, second, {**contents, **freed.positions})
    except OutOfTime:
        return None
    return replace(found, text=_READ + found.text) if found.holds else None


def _compared(first: KernelGraph, second: KernelGraph, rng: random.Random) -> Evidence | None:
    """Return a proof of equality, either of the summands of the programs' last sums or of their
    results."""
    pairs = [*without_last_sums(first, second), (first, second)]
    for one, other in chain(pairs, (freed.pair for p in pairs for freed in with_free_values(*p))):
        a, b = (normalize(g, Depth.EXPONENTIALS) for g in (one, other))
        try:
            with time_limit(math.inf, _SECONDS):
                found = compare_exactly(a, b, rng)
        except (UnknownOp, OutOfTime):
            continue
        if found.proved:
            last = found.evidence[-1]
            # the readings hold at these sizes
            return replace(last, text=_READ + last.text.partition(", for all inputs")[0])
    return None
