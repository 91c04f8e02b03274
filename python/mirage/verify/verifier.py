"""Verification of one candidate: runs the layers and combines what they say."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import Number, nearest
from mirage.semantics.scalar import Array
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    KernelGraph,
    Structure,
    Value,
    launches,
)
from mirage.verify.calls import cut_calls
from mirage.verify.constants import read_alike
from mirage.verify.evidence.domains import defined_evidence
from mirage.verify.evidence.exact import (
    Exact,
    accounts_of,
    compare_exactly,
    other_sizes,
    show,
    summary,
)
from mirage.verify.evidence.first_rough import first_rough
from mirage.verify.evidence.floats import Difference, compare_floats, decisive, everywhere
from mirage.verify.evidence.instance import Instance, TooMuchWork, make_instance
from mirage.verify.evidence.real_sizes import FieldDraw, field_draw, takes_logarithms
from mirage.verify.evidence.rounding import measure_together
from mirage.verify.evidence.sampling import choose_sample
from mirage.verify.exponents import has_written
from mirage.verify.kernel_by_kernel import Account, Hint, Pairs, Piece, Shown
from mirage.verify.left_out import NOT_IDLE, all_steps_taken, with_steps
from mirage.verify.lookups import free_positions, with_positions
from mirage.verify.normalize import Depth, normalize
from mirage.verify.options import SignatureMismatch, VerifyOptions
from mirage.verify.outputs import match_outputs as match_outputs
from mirage.verify.postponed import (
    REAL_SIZES,
    Open,
    Tested,
    ops_of,
    rounding_evidence,
    with_tests,
)
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness

_OTHER_SAMPLES = 3
_FEW_KERNELS = 4
"""Programs of more kernels are not proved for other sizes."""
_LITTLE_TIME = 0.5
"""Seconds that such a proof may take."""
_NO_IDENTITY = "equal in float64, but not by identities that hold in the finite field"
CELLS = ", constant within cells of indices; the element is one of the cells"


def verify(
    reference: KernelGraph,
    candidate: KernelGraph,
    options: VerifyOptions | None = None,
    hint: Hint | None = None,
    known: Mapping[str, Shown] = {},
    contents: Mapping[int, Array] = {},
) -> Verdict:
    """Whether ``candidate`` is the same function of its inputs as ``reference``.

    With a ``hint`` of what the candidate's tensors hold it is verified kernel by kernel; ``known``
    are pieces that were looked at before, by their key. A candidate that is not shown to be
    equivalent as it is may be with constants that compile to the same. ``contents`` are the
    values of inputs that are fixed: rounding errors are measured with those. Raises
    :class:`SignatureMismatch` and :class:`mirage.semantics.check.InvalidGraph`.
    """
    options = options or VerifyOptions()
    found = examine(reference, candidate, options, hint, known, contents, postpone=False)
    assert isinstance(found, Verdict)
    return found


def examine(
    reference: KernelGraph,
    candidate: KernelGraph,
    options: VerifyOptions,
    hint: Hint | None = None,
    known: Mapping[str, Shown] = {},
    contents: Mapping[int, Array] = {},
    *,
    postpone: bool = True,
) -> Verdict | Open:
    """:func:`verify`; with ``postpone`` up to what candidates of one program can share."""
    check_graph(reference)
    check_graph(candidate)
    _check_signature(reference, candidate, options.permute)
    seed = secrets.randbits(128) if options.seed is None else options.seed
    freed = free_positions(reference, candidate)
    taken = all_steps_taken(freed)
    if freed.positions or taken is not freed:
        known_numbers = {**contents, **freed.positions}
        options = replace(options, seed=seed)
        verdict = NOT_IDLE
        if taken is not None:
            pair = taken.reference, taken.candidate
            verdict = verify(*pair, options, None, known, known_numbers)
        verdict = with_positions(freed, replace(verdict, seed=seed), known_numbers, options.work)
        if taken is None or taken is freed:
            return verdict
        return with_steps(freed, verdict, known_numbers, options.work)
    reference, candidate = freed.reference, freed.candidate
    first, second = cut_calls(reference), cut_calls(candidate)
    if first.calls != second.calls:
        text = f"expected the calls {list(first.calls)}, got {list(second.calls)}"
        return Verdict(Kind.UNKNOWN, None, (Evidence("calls to the framework", None, text),), seed)
    count = len(reference.outputs)
    if hint is not None and (first.calls or not speaks_of(hint, reference)):
        hint = None
    held = partial(_Verification, known=known, contents=contents)
    found = held(first.graph, second.graph, count, options, seed, hint).run(
        postpone and not first.calls and not contents
    )
    if isinstance(found, Open) or found.equivalent:
        return found
    source, alike, read = read_alike(decompose(first.graph), second.graph)
    pairs = [(source, alike, read)] if read else []
    tries = [(Depth.USUAL, pair) for pair in pairs]
    if found.kind is Kind.UNKNOWN and has_written(first.graph, second.graph):
        pairs.insert(0, (first.graph, second.graph, {}))
        tries += [(Depth.EXPONENTIALS, pair) for pair in pairs]
    for depth, (one, other, constants) in tries:
        again = held(one, other, count, options, seed, None, depth=depth).run()
        assert isinstance(again, Verdict)
        if again.equivalent:
            return replace(again, evidence=(*_notes(constants, depth), *again.evidence))
    return found


def _notes(constants: Mapping[Number, Number], depth: Depth) -> Iterator[Evidence]:
    """How programs were read that are not shown to be equal as they are."""
    if constants:
        pairs = (f"{nearest(a)!r} as {b}" for a, b in sorted(constants.items()))
        text = f"read what compiles to the same: {', '.join(pairs)}"
        yield Evidence("constants", True, text)
    if depth is not Depth.USUAL:
        yield Evidence("functions", True, "read as what they are made of: exponentials, maxima")


def speaks_of(hint: Hint, reference: KernelGraph) -> bool:
    """Whether the hint's source is one of the decompositions of ``reference``: what its composite
    ops mean, with or without the row maximum."""
    text = signature(hint.source)
    return any(signature(decompose(reference, stable=s)) == text for s in (False, True))


def _check_signature(reference: KernelGraph, candidate: KernelGraph, permute: bool) -> None:
    for what, first, second in (
        ("inputs", reference.inputs, candidate.inputs),
        ("outputs", reference.outputs, candidate.outputs),
    ):
        expected, actual = [str(v.type) for v in first], [str(v.type) for v in second]
        if permute and what == "outputs":
            expected, actual = sorted(expected), sorted(actual)
        if expected != actual:
            raise SignatureMismatch(f"{what}: expected types {expected}, got {actual}")


class _Verification:
    def __init__(
        self,
        reference: KernelGraph,
        candidate: KernelGraph,
        permutable: int,
        options: VerifyOptions,
        seed: int,
        hint: Hint | None,
        known: Mapping[str, Shown],
        contents: Mapping[int, Array] = {},
        depth: Depth = Depth.USUAL,
    ) -> None:
        self.depth = depth
        self.permutable = permutable  # outputs; what follows them are operands of calls
        self.reference = reference
        self.candidate = candidate
        self.options = options
        self.seed = seed
        self.hint, self.known = hint, known
        self.contents = contents
        self.unshown: tuple[int, ...] = ()
        self.stored: Pairs = ()
        self.rough: Value | None = None
        self.accounts: tuple[Account, ...] = ()
        self.evidence: list[Evidence] = []

    def _primitive(self) -> tuple[tuple[KernelGraph, KernelGraph], tuple[KernelGraph, KernelGraph]]:
        """Both programs in primitive ops: as floats are computed, and as exact numbers are."""
        a, b = self.reference, self.candidate
        stable = (decompose(a, stable=True), decompose(b, stable=True))
        first, second = (normalize(decompose(g), self.depth) for g in (a, b))
        return stable, (first, second)

    def run(self, postpone: bool = False) -> Verdict | Open:
        rng = random.Random(self.seed)
        stable, (first, second) = self._primitive()
        source = np.random.default_rng(rng.getrandbits(128))
        try:
            instance = make_instance((first, second), stable, self.options.work, source)
        except TooMuchWork as reason:
            return self._piece_by_piece(first, second, str(reason), rng, postpone)
        order = self._order(instance, rng)
        identity = tuple(range(len(self.reference.outputs)))
        small = Exact()
        if order is not None:
            permuted = KernelGraph(
                second.name, second.inputs, second.ops, tuple(second.outputs[j] for j in order)
            )
            small = self._exactly(first, permuted, order == identity, rng)
            self.evidence += small.evidence
        results, difference = self._in_floats(instance, source, order)
        useless = False
        if order is not None and small.agrees:
            useless = difference is not None and None not in results
            difference = everywhere(results)
        if difference is not None:
            where = "" if instance.cells is None else CELLS
            return self._refuted(difference, f"standard normal{where}")
        if small.difference is not None:
            return self._refuted(small.difference, f"standard normal{CELLS}")
        if order is None and self.hint is not None and results:
            return self._piece_by_piece(first, second, _NO_IDENTITY, rng, postpone)
        if order is None or small.agrees is False:
            return self._verdict(Kind.UNKNOWN, None, None, None)
        if small.bound is None and not small.proved:
            # A fault in one of a million elements, or in a maximum, passes such tests.
            text = "tests passed, but nothing bounds the chance that a wrong program passes them"
            self.evidence.append(Evidence("bound", None, text))
            return self._verdict(Kind.UNKNOWN, None, None, None)
        defined = self._defined(instance, source, order)
        if not defined:
            kind = Kind.PROVED if small.proved else Kind.PROBABLE
            verdict = self._verdict(kind, None if small.proved else small.bound, None, order)
            return replace(verdict, defined=False, holds_for=small.holds_for)
        numerics: bool | None = False if useless else None
        if self.options.numerics and not useless and not postpone:
            numerics = self._numerics(instance, order)
        if small.proved:
            verdict = self._verdict(Kind.PROVED, None, numerics, order)
            verdict = replace(verdict, holds_for=small.holds_for)
        else:
            verdict = self._verdict(Kind.PROBABLE, small.bound, numerics, order)
        verdict = replace(verdict, defined=True)
        if postpone and self.options.numerics and not useless:
            return Open(verdict, self.candidate, in_cells=instance.cells is not None)
        return verdict

    def _defined(
        self, instance: Instance, source: np.random.Generator, order: tuple[int, ...]
    ) -> bool:
        """Whether the candidate is defined wherever its reference is."""
        references = [instance.stable[0]]
        if instance.cells is None:
            references.append(decompose(self.reference))
        sample = instance.stable_sample
        found = defined_evidence(references, instance.stable[1], sample, source, order)
        self.evidence.append(found)
        return found.holds is True

    def _piece_by_piece(
        self,
        first: KernelGraph,
        second: KernelGraph,
        reason: str,
        rng: random.Random,
        postpone: bool,
    ) -> Verdict | Open:
        """Where the whole is too large to be run: its pieces are, each on inputs of its own."""
        if self.hint is None or not self.options.prove:
            self.evidence.append(Evidence(REAL_SIZES, None, reason))
            return self._verdict(Kind.UNKNOWN, None, None, None)
        small = self._exactly(first, second, True, rng)
        self.evidence += small.evidence
        if not small.agrees or (small.bound is None and not small.proved):
            self.evidence.append(Evidence(REAL_SIZES, None, reason))
            return self._verdict(Kind.UNKNOWN, None, None, None)
        order = tuple(range(len(self.reference.outputs)))
        kind = Kind.PROVED if small.proved else Kind.PROBABLE
        verdict = self._verdict(kind, small.bound, None, order)
        pieces = {p.key: p for a in self.accounts for p, _ in a.shown if not p.trivial}
        left = Open(verdict, self.candidate, tuple(pieces.values()), self.hint.stored, reason)
        if postpone:
            return left
        tested: dict[str, Tested] = {}
        for piece in left.pieces:
            seed = rng.getrandbits(128)
            tested[piece.key] = try_piece(piece, self.options, seed, left.stored)
            if not tested[piece.key].passed:
                break
        return with_tests(left, tested)

    def tests(self, rounding: bool) -> tuple[bool | None, bool | None]:
        """Whether the tests at the real sizes hold, and those of rounding errors where they are
        asked for; None where there is no result."""
        rng = random.Random(self.seed)
        stable, (first, second) = self._primitive()
        source = np.random.default_rng(rng.getrandbits(128))
        try:
            instance = make_instance((first, second), stable, self.options.work, source)
        except TooMuchWork as reason:
            self.evidence.append(Evidence(REAL_SIZES, None, str(reason)))
            return None, None
        order = self._order(instance, rng)
        results, difference = self._in_floats(instance, source, order)
        if order is None or everywhere(results) is not None:
            return False, None
        if difference is not None and None not in results:
            return True, False  # without right numbers at any magnitude
        numerics = rounding and self.options.numerics
        return True, self._numerics(instance, order) if numerics else None

    def _order(self, instance: Instance, rng: random.Random) -> tuple[int, ...] | None:
        """:meth:`_real_sizes`, with logarithms where nothing is found without them."""
        order = self._real_sizes(instance, rng)
        if order is None and any(map(takes_logarithms, instance.exact)):
            self.evidence.pop()
            order = self._real_sizes(instance, rng, logarithms=True)
        return order

    def _in_floats(
        self, instance: Instance, source: np.random.Generator, order: tuple[int, ...] | None
    ) -> tuple[list[Difference | None], Difference | None]:
        """Comparisons in float64, and the first difference that decides."""
        sample = instance.stable_sample
        identity = tuple(range(len(self.reference.outputs)))
        results = compare_floats(instance.stable, sample, source, order or identity)
        if order is None and decisive(results) is None:
            results += self._look_again(instance, source)
        difference = decisive(results)
        self.evidence.append(
            Evidence(
                "float64 at the real sizes",
                None if not results else difference is None,
                f"{len(results)} random inputs, {instance.describe(sample)}",
                {"inputs": len(results), "fraction": sample.fraction, "cells": instance.cells},
            )
        )
        return results, difference

    def _blame(self, pieces: Iterable[Piece]) -> None:
        """These are what the candidate could not be shown for."""
        self.unshown = tuple(sorted({*self.unshown, *ops_of(pieces, self.candidate)}))

    def _exactly(
        self, first: KernelGraph, second: KernelGraph, aligned: bool, rng: random.Random
    ) -> Exact:
        """Kernel by kernel where there is a hint of what the kernels compute, else as one."""
        o = self.options
        if self.hint is None or not aligned or not o.prove:
            return compare_exactly(
                first, second, rng, proofs=o.prove, max_error_log2=o.max_error_log2
            )

        def prove(piece: Piece) -> Shown:
            found = self.known.get(piece.key)
            return found or show(piece, rng.getrandbits(128))

        accounts = self.accounts = accounts_of(self.hint, self.candidate, prove)
        self._blame(piece for a in accounts for piece, _ in a.failed)
        found = summary(accounts)
        kernels = len(list(launches(self.candidate.ops)))
        if found.proved and found.holds_for is None and kernels <= _FEW_KERNELS:
            found.holds_for = other_sizes(first, second, _LITTLE_TIME)
        return found

    def _look_again(
        self, instance: Instance, source: np.random.Generator
    ) -> list[Difference | None]:
        """Comparisons in float64 where the finite field shows a difference or is undefined: there,
        and at some other parts of the outputs.
        """
        order = range(len(self.reference.outputs))
        fixed = instance.stable_sample.fixed
        samples = [(instance.exact, instance.exact_sample)]
        for _ in range(_OTHER_SAMPLES):
            pair = instance.stable
            samples.append((pair, choose_sample(pair, self.options.work, source, fixed)))
        results: list[Difference | None] = []
        for pair, sample in samples:
            results += compare_floats(pair, sample, source, order)
            if decisive(results) is not None:
                break
        return results

    def _verdict(
        self,
        kind: Kind,
        bound: float | None,
        numerics: bool | None,
        permutation: tuple[int, ...] | None,
    ) -> Verdict:
        return Verdict(
            kind, bound, tuple(self.evidence), self.seed, None, numerics, permutation,
            unshown=self.unshown,
        )  # fmt: skip

    def _refuted(self, d: Difference, kind: str) -> Verdict:
        inputs = f"float64, inputs {d.scale:g} times {kind}"
        witness = Witness(self.seed, d.output, d.element, d.expected, d.actual, inputs)
        return Verdict(Kind.REFUTED, None, tuple(self.evidence), self.seed, witness)

    def _real_sizes(
        self, instance: Instance, rng: random.Random, *, logarithms: bool = False
    ) -> tuple[int, ...] | None:
        """The order of outputs under which all draws agree, if any. ``log`` is any function, or
        with ``logarithms`` what undoes ``exp``.
        """
        sample = instance.exact_sample
        draws: list[FieldDraw] = []
        redrawn = 0
        differ = False  # one draw is enough for that
        while not differ and len(draws) < self.options.draws and redrawn <= self.options.redraws:
            result = field_draw(instance.exact, sample, rng, logarithms=logarithms)
            if result.undefined:
                redrawn += 1  # a zero divisor: the draw says nothing
                continue
            draws.append(result)
            equal = (row[i] for i, row in enumerate(result.equal))
            differ = not self.options.permute and not all(equal)
        count = len(self.reference.outputs)
        permutation: tuple[int, ...] | None = None
        if len(draws) == self.options.draws and not differ:
            free = self.permutable
            allowed = [
                [
                    (i == j or max(i, j) < free) and all(d.equal[i][j] for d in draws)
                    for j in range(count)
                ]
                for i in range(count)
            ]
            permutation = match_outputs(allowed) if self.options.permute else None
            if all(allowed[i][i] for i in range(count)):
                permutation = tuple(range(count))
        holds = permutation is not None if len(draws) == self.options.draws else None
        if differ:
            holds = False
        text = f"{len(draws)} draws, {redrawn} redrawn, {instance.describe(sample)}"
        if logarithms:
            text += ", discrete logarithms"
        self.evidence.append(
            Evidence(
                "finite field at the real sizes",
                holds,
                text,
                {
                    "draws": len(draws),
                    "redrawn": redrawn,
                    "fraction": sample.fraction,
                    "cells": instance.cells,
                    "primes": [list(d.primes) for d in draws],
                },
            )
        )
        return permutation

    def _numerics(self, instance: Instance, order: tuple[int, ...]) -> bool:
        sample = instance.stable_sample
        contents = self.contents if instance.cells is None else {}
        seed = self.options.rounding_seed
        if instance.cells is None:
            rng = np.random.default_rng(seed)
            sample = choose_sample(instance.stable, self.options.work, rng)
        (found,) = measure_together(
            instance.stable, sample, seed, (order,), contents, self.options.assume
        )
        self.evidence.append(rounding_evidence(found.errors, self.options.assume))
        if found.failed is not None and instance.cells is None and self.stored:
            first, second = instance.stable
            self.rough = first_rough(first, second, self.stored, 1, *found.failed)
        return self.evidence[-1].holds is True


def try_piece(piece: Piece, options: VerifyOptions, seed: int, stored: Pairs = ()) -> Tested:
    """Tests of a piece at its real sizes, on inputs of its own; its rounding errors too where
    kernels compute it. ``stored`` is what tensors are said to hold: it says at most whose fault
    errors are."""
    test = _Verification(piece.first, piece.second, 0, options, seed, None, {})
    test.stored = stored
    passed, rounding = test.tests(any(isinstance(op, Structure) for op in piece.ops))
    ops = enumerate(piece.ops)
    rough = tuple(i for i, op in ops if test.rough is not None and test.rough in op.results)
    return Tested(passed, rounding, tuple(test.evidence), rough)
