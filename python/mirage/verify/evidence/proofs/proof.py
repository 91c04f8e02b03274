"""Proofs: the programs of :mod:`mirage.verify.evidence.proofs.small_model` compared symbolically.

The small programs decide equality of the real ones (``docs/verification.md``); compared in exact
symbolic arithmetic instead of at random points, they give a proof, for the sizes, maps and
constants at hand. :mod:`mirage.verify.evidence.proofs.proof_for_all_sizes` has proofs for other
sizes as well.
"""

from __future__ import annotations

from collections.abc import Callable

from mirage.semantics.domain import Planes
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK, MOST_WORK, NoProof
from mirage.verify.arithmetic.real_identities import AnotherSign, RealNumbers
from mirage.verify.arithmetic.symbolic import Symbolic
from mirage.verify.arithmetic.waves import Waves
from mirage.verify.compression.small_program import Weights
from mirage.verify.evidence.proofs.small_model import SmallPair
from mirage.verify.verdict import Evidence

NAME = "proof by normal forms"
_MOST_SIGNS = 5
"""With up to this many signs, the cases are examined one by one."""


def prove(
    pair: SmallPair, *, reciprocals_as_symbols: bool = False, most_work: int = MOST_WORK
) -> Evidence:
    """Compare symbolically. ``holds`` is True if the outputs have equal normal forms, else None: a
    failed proof says nothing.

    The first attempt does not expand products of long sums, which proves less and costs less.
    """
    name = f"{NAME}, reciprocals as symbols" if reciprocals_as_symbols else NAME
    symbols = reciprocals_as_symbols
    domain = Symbolic(reciprocals_as_symbols=symbols, fold=True, most_work=most_work)
    evidence = compare(name, pair, domain, domain.integers)
    if evidence.holds or not domain.folded:
        return evidence
    domain = Symbolic(reciprocals_as_symbols=symbols, most_work=most_work)
    return compare(name, pair, domain, domain.integers)


def prove_with_signs(pair: SmallPair) -> Evidence:
    """Prove with properties that real numbers have and a field lacks: signs, and roots of
    nonnegative numbers. ``pair`` must be made for it
    (:func:`~mirage.verify.evidence.proofs.small_model.small_pair`)."""
    name = "proof with signs and roots"
    domain = RealNumbers(most_work=LITTLE_WORK)
    evidence = compare(name, pair, domain, domain.integers)
    if evidence.holds:
        return evidence
    if domain.has_waves:
        waves = Waves(most_work=LITTLE_WORK)
        found = compare(f"{name}, sines as exponentials", pair, waves, waves.integers)
        if found.holds:
            return found
    return _in_each_case(name, pair) or evidence


def _in_each_case(name: str, pair: SmallPair) -> Evidence | None:
    """Prove once for each assignment of signs."""
    open_cases: list[tuple[int, ...]] = [()]
    proved = 0
    while open_cases:
        signs = open_cases.pop()
        domain = RealNumbers(most_work=LITTLE_WORK, signs=signs)
        try:
            case = compare(name, pair, domain, domain.integers, give_up=AnotherSign)
        except AnotherSign:
            if len(signs) >= _MOST_SIGNS:
                return None
            open_cases += [(*signs, 1), (*signs, -1)]
            continue
        if not case.holds:
            return None
        proved += 1
    return Evidence(name, True, f"in {proved} cases of signs", {"cases": proved})


def compare(
    name: str,
    pair: SmallPair,
    domain: Symbolic,
    weights: Callable[[Weights], Planes],
    give_up: type[Exception] | tuple[()] = (),
) -> Evidence:
    """Compare like :func:`prove`, in ``domain``; ``weights`` converts the numbers of indices in
    cells. Exceptions of type ``give_up`` propagate to the caller."""
    sizes = [v.shape for v in pair.reference.graph.inputs[: pair.input_count]]
    inputs = [domain.inputs(i, s) for i, s in enumerate(sizes)]
    try:
        first, second = pair.evaluate(domain, inputs, weights)
        terms = 0
        for (x,), (y,) in zip(first, second, strict=True):
            for a, b in zip(x.ravel(), y.ravel(), strict=True):
                if isinstance(a, float) or isinstance(b, float):
                    return Evidence(name, None, "an output is undefined")
                if not domain.same(a, b):
                    return Evidence(name, None, "the normal forms differ")
                terms += len(a.top) + len(a.bottom or ())
    except give_up:
        raise
    except NoProof as reason:
        return Evidence(name, None, str(reason))
    elements = sum(x[0].size for x in first)
    return Evidence(
        name, True, f"{elements} outputs with {terms} terms", {"elements": elements, "terms": terms}
    )
