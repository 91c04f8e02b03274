"""Proofs of kernels through the tiles inside of them.

Tiles that agree at a random point with values of the reference are guessed to be equal. The kernels
are cut there (:mod:`mirage.verify.evidence.proofs.cut_kernels`), and the pieces between the cuts
are shown one by one (:mod:`mirage.verify.pieces.kernel_by_kernel`). Soundness does not depend on
the guess.
"""

from __future__ import annotations

import math
import random

from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs.cut_kernels import Site, cut_at, sites, with_stores
from mirage.verify.evidence.proofs.value_by_value import find_guesses, prove_shortly, work_of
from mirage.verify.pieces.kernel_by_kernel import Piece, Shown, account_for
from mirage.verify.verdict import Evidence

NAME = "proof by tiles inside of kernels"
MOST_SITES = 96


class _OutOfWork(Exception):
    """The pieces take more work than a proof may."""


def prove_opened(
    reference: KernelGraph,
    candidate: KernelGraph,
    rng: random.Random,
    most_work: float = math.inf,
    shown: dict[str, Shown] | None = None,
) -> Evidence:
    """Prove by tiles in common. ``holds`` is True if the outputs are proved equal, else None.

    Both programs are normalized and have primitive ops only. ``most_work`` limits the elements of
    small programs that are computed; ``shown`` keeps the results for pieces for another attempt."""
    places = sites(candidate)
    if not places:
        return Evidence(NAME, None, "no tile inside of a kernel can be stored")
    if len(places) > MOST_SITES:
        return Evidence(NAME, None, f"{len(places)} tiles, limit {MOST_SITES}")
    try:
        guesses = find_guesses(reference, with_stores(candidate, places), rng)
    except Irregular as reason:
        return Evidence(NAME, None, str(reason))
    chosen, pairs = _chosen(places, {g.second: g.first for g in guesses})
    cut = cut_at(candidate, chosen)
    try:
        check_graph(cut)
    except InvalidGraph as reason:
        return Evidence(NAME, None, f"the kernels cannot be cut there: {reason}")

    known_pieces = {} if shown is None else shown
    work = 0.0

    def prove(piece: Piece) -> Shown:
        nonlocal work
        if piece.key not in known_pieces:
            work += work_of(piece.first, piece.second)
            if work > most_work:
                raise _OutOfWork
            holds = prove_shortly(piece.first, piece.second)
            known_pieces[piece.key] = Shown(float("-inf") if holds else 0.0)
        return known_pieces[piece.key]

    try:
        account = account_for(reference, cut, pairs, prove)
    except _OutOfWork:
        return Evidence(NAME, None, f"the pieces are more than {most_work:.0f} elements of work")
    known = f"{len(account.shown)} pieces between {len(pairs)} values in common"
    figures = {"pieces": len(account.shown), "values": len(pairs)}
    if account.holds:
        return Evidence(NAME, True, f"the outputs follow from {known}", figures)
    return Evidence(NAME, None, f"the outputs do not follow from {known}", figures)


def _chosen(
    places: list[Site], equal: dict[Value, Value]
) -> tuple[list[Site], tuple[tuple[Value, Value], ...]]:
    """Choose the sites whose tensors hold values of the reference, one for each value and launch.
    Return them and all pairs of equal values, including the tensors between kernels."""
    chosen: list[Site] = []
    seen: set[tuple[int, Value]] = set()
    for site in places:
        value = equal.get(site.tensor)
        if value is not None and (id(site.launch), value) not in seen:
            seen.add((id(site.launch), value))
            chosen.append(site)
    inside = {s.tensor for s in places}
    kept = {s.tensor for s in chosen}
    pairs = tuple((v, c) for c, v in equal.items() if c not in inside or c in kept)
    return chosen, pairs
