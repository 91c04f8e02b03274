"""The correspondence of two programs' outputs, found by draws over finite fields."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mirage.verify.evidence.samples.instance import Instance
from mirage.verify.evidence.samples.real_sizes import FieldDraw, field_draw, takes_logarithms
from mirage.verify.verdict import Evidence
from mirage.verify.verify_options import VerifyOptions

_HOPELESS = 2
"""The number of draws in which a whole output is undefined after which this is not taken to be
chance (a divisor that happens to be zero)."""


@dataclass(frozen=True)
class OutputOrder:
    """The order of the candidate's outputs under which all draws agree, if there is one."""

    order: tuple[int, ...] | None
    evidence: Evidence


def order_of_outputs(
    instance: Instance, options: VerifyOptions, permutable: int, rng: random.Random
) -> OutputOrder:
    """Find the order by draws at the real sizes, with logarithms if nothing is found without them.
    The first ``permutable`` outputs may change places if the options allow it."""
    found = _drawn(instance, options, permutable, rng, logarithms=False)
    if found.order is None and any(map(takes_logarithms, instance.exact)):
        found = _drawn(instance, options, permutable, rng, logarithms=True)
    return found


def _drawn(
    instance: Instance,
    options: VerifyOptions,
    permutable: int,
    rng: random.Random,
    *,
    logarithms: bool,
) -> OutputOrder:
    """Find the order by draws in which ``log`` is a random function or, with ``logarithms``, the
    inverse of ``exp``."""
    sample = instance.exact_sample
    draws: list[FieldDraw] = []
    redrawn = 0
    differ = False  # one draw is enough to see that
    hopeless = 0
    while not differ and len(draws) < options.draws and redrawn <= options.redraws:
        result = field_draw(instance.exact, sample, rng, logarithms=logarithms)
        if result.undefined:
            redrawn += 1  # a zero divisor: the draw says nothing
            hopeless += result.hopeless
            if hopeless == _HOPELESS:
                break
            continue
        draws.append(result)
        equal = (row[i] for i, row in enumerate(result.equal))
        differ = not options.permute and not all(equal)
    count = len(instance.exact[0].outputs)
    enough = len(draws) == options.draws and not differ
    order = _common_order(draws, count, permutable if options.permute else 0) if enough else None
    holds = order is not None if len(draws) == options.draws else None
    if differ:
        holds = False
    text = f"{len(draws)} draws, {redrawn} redrawn, {instance.describe(sample)}"
    if logarithms:
        text += ", discrete logarithms"
    numbers = {
        "draws": len(draws),
        "redrawn": redrawn,
        "fraction": sample.fraction,
        "cells": instance.cells,
        "primes": [list(d.primes) for d in draws],
    }
    return OutputOrder(order, Evidence("finite field at the real sizes", holds, text, numbers))


def _common_order(
    draws: Sequence[FieldDraw], count: int, permutable: int
) -> tuple[int, ...] | None:
    """Return an order under which all draws agree, the original order if possible."""
    allowed = [
        [
            (i == j or max(i, j) < permutable) and all(d.equal[i][j] for d in draws)
            for j in range(count)
        ]
        for i in range(count)
    ]
    if all(allowed[i][i] for i in range(count)):
        return tuple(range(count))
    return match_outputs(allowed) if permutable else None


def match_outputs(allowed: Sequence[Sequence[bool]]) -> tuple[int, ...] | None:
    """Return a perfect matching, found by augmenting paths: ``result[i]`` is an allowed partner of
    ``i``, and all partners are different.
    """
    partner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j, ok in enumerate(allowed[i]):
            if ok and j not in seen:
                seen.add(j)
                if j not in partner or place(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    if not all(place(i, set()) for i in range(len(allowed))):
        return None
    matched = {i: j for j, i in partner.items()}
    return tuple(matched[i] for i in range(len(allowed)))
