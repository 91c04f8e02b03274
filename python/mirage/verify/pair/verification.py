"""The layers of verification for one pair of programs, and the verdict that combines them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Structure, Value, launches
from mirage.verify.evidence.defined.cancelled_divisors import defined_with_divisors_cancelled
from mirage.verify.evidence.defined.evidence_of_definedness import defined_evidence
from mirage.verify.evidence.proofs.exact import (
    Exact,
    accounts_of,
    compare_real_functions,
    compare_whole,
    other_sizes,
    show,
    summary,
)
from mirage.verify.evidence.roundings.first_rough import first_rough
from mirage.verify.evidence.roundings.rounding import measure_together
from mirage.verify.evidence.samples.floats import Difference, decisive, everywhere
from mirage.verify.evidence.samples.instance import Instance, TooMuchWork, make_instance
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.normal_form.cumulations import with_shared_weights
from mirage.verify.normal_form.normalize import Depth, normalize
from mirage.verify.pair.budget import Budget
from mirage.verify.pair.guessed_pieces import show_guessed
from mirage.verify.pair.in_floats import floats_at_real_sizes
from mirage.verify.pair.output_order import order_of_outputs
from mirage.verify.pair.postponed import (
    REAL_SIZES,
    Open,
    Tested,
    ops_of,
    rounding_evidence,
    with_tests,
)
from mirage.verify.pieces.kernel_by_kernel import Account, Hint, Pairs, Piece, Shown
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness
from mirage.verify.verify_options import VerifyOptions

_FEW_KERNELS = 4
"""Programs of more kernels than this are not proved for other sizes."""
_LITTLE_TIME = 0.5
"""The seconds that a proof for other sizes may take."""
_NO_IDENTITY = "equal in float64, but not by identities that hold in the finite field"
_ATTEMPTS = {
    Depth.USUAL: "both programs as one",
    Depth.EXPONENTIALS: "both with exponentials written out",
    Depth.REALS: "both as functions of real numbers",
}
_CELLS = ", constant within cells of indices; the element is one of the cells"


@dataclass(frozen=True)
class Patience:
    """The seconds of processor time for a piece, and for all pieces together."""

    piece: float = math.inf
    all_pieces: float = math.inf


class Verification:
    """The layers of verification for one pair, and their evidence."""

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
        positions: Mapping[int, Array] = {},
        depth: Depth = Depth.USUAL,
        patience: Patience = Patience(),
        budget: Budget | None = None,
        guessed: bool = False,
    ) -> None:
        self.depth, self.patience, self.budget = depth, patience, budget or Budget()
        self.permutable = permutable  # outputs; they are followed by operands of calls
        self.reference = reference
        self.candidate = candidate
        self.options = options
        self.seed = seed
        self.hint, self.known = hint, known
        self.contents, self.positions = contents, positions
        self.guessed = guessed  # the hint: there is no continuation with single kernels
        self.unshown: tuple[int, ...] = ()
        self.stored: Pairs = ()
        self.rough: Value | None = None
        self.accounts: tuple[Account, ...] = ()
        self.evidence: list[Evidence] = []

    def _primitive(self) -> tuple[tuple[KernelGraph, KernelGraph], tuple[KernelGraph, KernelGraph]]:
        """Return both programs in primitive ops, in two forms: for floats, and for exact
        numbers."""
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
        identity = tuple(range(len(self.reference.outputs)))
        reals = self.depth is Depth.REALS  # a field has no order, and not all roots
        order = identity if reals else self._order(instance, rng)
        small = Exact()
        if order is not None:
            permuted = KernelGraph(
                second.name, second.inputs, second.ops, tuple(second.outputs[j] for j in order)
            )
            small = (
                self._limited(lambda: compare_real_functions(first, permuted))
                if reals
                else self._exactly(first, permuted, order == identity, rng)
            )
            self.evidence += small.evidence
        results, difference = self._in_floats(instance, source, order)
        useless = False
        if order is not None and small.agrees:
            useless = difference is not None and None not in results
            difference = everywhere(results)
        if difference is not None:
            where = "" if instance.cells is None else _CELLS
            return self._refuted(difference, f"standard normal{where}")
        if small.difference is not None:
            return self._refuted(small.difference, f"standard normal{_CELLS}")
        if order is None and self.hint is not None and results:
            if not self.guessed or not self.options.prove:
                return self._piece_by_piece(first, second, _NO_IDENTITY, rng, postpone)
            order, small = identity, self._exactly(first, second, True, rng)
            self.evidence += small.evidence
        if order is None or small.agrees is False:
            return self._verdict(Kind.UNKNOWN, None, None, None)
        if small.bound is None and not small.proved:
            # A fault in one of a million elements, or in a maximum, passes such tests.
            text = "tests passed, but nothing bounds the chance that a wrong program passes them"
            self.evidence.append(Evidence("bound", None, text))
            return self._verdict(Kind.UNKNOWN, None, None, None)
        return self._measured(instance, source, order, small, useless, postpone)

    def _measured(
        self,
        instance: Instance,
        source: np.random.Generator,
        order: tuple[int, ...],
        small: Exact,
        useless: bool,
        postpone: bool,
    ) -> Verdict | Open:
        """Return the verdict on programs that are shown to be equal: whether the candidate is
        defined, and its rounding errors, unless these are postponed."""
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
        """Return whether the candidate is defined wherever its reference is."""
        references = [instance.stable[0]]
        if instance.cells is None:
            references.append(decompose(self.reference))
        sample = instance.stable_sample
        held = {**self.contents, **self.positions} if instance.cells is None else {}
        found = defined_evidence(references, instance.stable[1], sample, source, order, held)
        if instance.cells is None and found.holds is not True:
            given = references, self.candidate, self.options.work, source, order, held
            found = defined_with_divisors_cancelled(*given) or found
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
        """Verify a program that is too large to be run as a whole: run its pieces, each on its own
        inputs."""
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
            tested[piece.key] = try_piece(
                piece, self.options, seed, left.stored, every=self.guessed
            )
            if not tested[piece.key].passed:
                break
        return with_tests(left, tested)

    def tests(self, rounding: bool) -> tuple[bool | None, bool | None]:
        """Return whether the tests at the real sizes pass, including those of rounding errors if
        they are requested; None if there is no result."""
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
        found = order_of_outputs(instance, self.options, self.permutable, rng)
        self.evidence.append(found.evidence)
        return found.order

    def _in_floats(
        self, instance: Instance, source: np.random.Generator, order: tuple[int, ...] | None
    ) -> tuple[list[Difference | None], Difference | None]:
        """Compare in float64, and return the first difference that decides."""
        results, evidence = floats_at_real_sizes(instance, self.options.work, source, order)
        self.evidence.append(evidence)
        return results, decisive(results)

    def _blame(self, pieces: Iterable[Piece]) -> None:
        """Record the ops of these pieces as those that prevent a proof of the candidate."""
        self.unshown = tuple(sorted({*self.unshown, *ops_of(pieces, self.candidate)}))

    def _exactly(
        self, first: KernelGraph, second: KernelGraph, aligned: bool, rng: random.Random
    ) -> Exact:
        """Compare exactly: kernel by kernel with a hint of what the kernels compute, otherwise as a
        whole."""
        o = self.options
        shared = with_shared_weights(first, second)
        if self.hint is None or not aligned or not o.prove:
            one, other = shared or (first, second)
            found = self._limited(
                lambda: compare_whole(
                    one, other, rng, proofs=o.prove, max_error_log2=o.max_error_log2
                )
            )
            # a difference for other weights does not count
            return found if shared is None else replace(found, difference=None)

        limit = self.patience
        until = time.process_time() + limit.all_pieces

        def prove(piece: Piece) -> Shown:
            found = self.known.get(piece.key)
            left = min(limit.piece, until - time.process_time())
            if found is None and self.guessed:
                return show_guessed(piece, rng.getrandbits(128), left)
            return found or show(piece, rng.getrandbits(128), processor_seconds=left)

        accounts = self.accounts = accounts_of(self.hint, self.candidate, prove)
        self._blame(piece for a in accounts for piece, _ in a.failed)
        found = summary(accounts)
        kernels = len(list(launches(self.candidate.ops)))
        if found.proved and found.holds_for is None and kernels <= _FEW_KERNELS:
            found.holds_for = other_sizes(*(shared or (first, second)), _LITTLE_TIME)
        return found

    def _limited(self, compare: Callable[[], Exact]) -> Exact:
        """Return the result of a comparison, if there is time for it."""
        return self.budget.attempt(_ATTEMPTS[self.depth], compare) or Exact()

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


def try_piece(
    piece: Piece, options: VerifyOptions, seed: int, stored: Pairs = (), *, every: bool = False
) -> Tested:
    """Return the tests of a piece at its real sizes, on its own inputs. They include its rounding
    errors if kernels compute it, or for ``every`` piece. ``stored`` are the values that tensors are
    claimed to hold; it only affects which kernel is blamed for errors."""
    test = Verification(piece.first, piece.second, 0, options, seed, None, {})
    test.stored = stored
    passed, rounding = test.tests(every or any(isinstance(op, Structure) for op in piece.ops))
    ops = enumerate(piece.ops)
    rough = tuple(i for i, op in ops if test.rough is not None and test.rough in op.results)
    return Tested(passed, rounding, tuple(test.evidence), rough)
