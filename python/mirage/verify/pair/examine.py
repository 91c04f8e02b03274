"""Compares one candidate with its reference: first both programs unchanged and then, if that does
not decide, in the other ways in which they can be read.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import Number
from mirage.semantics.positions import with_indices_from_start
from mirage.semantics.scalar import Array
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.normal_form.bit_calls import has_bit_calls, without_bit_calls
from mirage.verify.normal_form.constants import with_functions_read
from mirage.verify.normal_form.counts_of_masks import with_counts_from_one
from mirage.verify.normal_form.cumulations import as_choices
from mirage.verify.normal_form.detours import without_detours
from mirage.verify.normal_form.left_out import numbers_left_out
from mirage.verify.normal_form.normalize import Depth, has_exponentials
from mirage.verify.normal_form.real_functions import has_real_functions
from mirage.verify.normal_form.simple_constants import OfSimple
from mirage.verify.pair.as_written import as_written
from mirage.verify.pair.budget import Budget
from mirage.verify.pair.filled_rows import EMPTY_ROWS
from mirage.verify.pair.guessed_values import guessed_hint, is_long
from mirage.verify.pair.in_floats import AT_REAL_SIZES
from mirage.verify.pair.in_place import in_place
from mirage.verify.pair.least_masks import ALIKE
from mirage.verify.pair.postponed import Open
from mirage.verify.pair.read_constants import Read, constants_read, notes_on_constants
from mirage.verify.pair.readings_of_masks import one_has_least_masks, readings_of_masks
from mirage.verify.pair.results_of_calls import unless_calls_decide
from mirage.verify.pair.verification import Patience, Verification
from mirage.verify.pieces.kernel_by_kernel import Hint, Shown
from mirage.verify.shared_inputs.choices_by_position import with_choices_cut
from mirage.verify.shared_inputs.cut_calls import cut_calls
from mirage.verify.shared_inputs.free_positions import Freed, free_positions, with_positions
from mirage.verify.shared_inputs.shared_rows import cut_rows, with_rows
from mirage.verify.shared_inputs.steps_left_out import NOT_IDLE, all_steps_taken, with_steps
from mirage.verify.verdict import Evidence, Kind, Verdict
from mirage.verify.verify_options import SignatureMismatch, VerifyOptions

PIECE_SECONDS, WHOLE_SECONDS = 3.0, 15.0
"""Seconds of processor time for two long programs without hints about common values: for each part,
for all parts, and then for both programs as a whole."""

BITS_ARE_ANY = "compared with any numbers in place of conjunctions of bits"


def examine(
    reference: KernelGraph,
    candidate: KernelGraph,
    options: VerifyOptions,
    hint: Hint | None = None,
    known: Mapping[str, Shown] = {},
    contents: Mapping[int, Array] = {},
    positions: Mapping[int, Array] = {},
    *,
    postpone: bool = True,
    budget: Budget | None = None,
    seed: int | None = None,
) -> Verdict | Open:
    """Return the verdict of :func:`mirage.verify.verifier.verify`; with ``postpone``, leave out the
    measurements that candidates of one program can share. ``positions`` are the numbers in inputs
    that stand for positions: except for definedness, the verdict holds for any other numbers too.
    Proofs end with the ``budget``. The random tests have the ``seed``, otherwise that of the
    options, otherwise a secret one; it is not a seed of rounding errors."""
    check_graph(reference)
    check_graph(candidate)
    _check_signature(reference, candidate, options.permute)
    if hint is None:  # which is about the unchanged programs
        reference, candidate = map(with_indices_from_start, (reference, candidate))
    if seed is None:
        seed = secrets.randbits(128) if options.seed is None else options.seed
    drawn, budget = seed, budget or Budget()

    def of(
        first: KernelGraph, second: KernelGraph, *, options: VerifyOptions = options
    ) -> Verdict | Open:
        return _as_they_are(
            first,
            second,
            options,
            drawn,
            hint,
            known,
            contents,
            positions,
            budget,
            postpone=postpone,
        )

    given = reference, candidate, contents, options
    masked_alone = hint is None and is_long(reference) and one_has_least_masks(*given[:3])
    if masked_alone and (read := _by_readings_of_masks(*given, of)) is not None:
        return read
    # a hint is about the unchanged programs
    cut = with_choices_cut(reference, candidate) if hint is None else None
    found = None if cut is None else of(*cut)
    if found is None or not _settles(found, contents):
        found = of(reference, candidate)
    if hint is None:
        open_ = not masked_alone and not _settles(found, contents)
        found = _read_in_other_ways(given, of, found, open_=open_) or found
    if isinstance(found, Open):
        return found
    return unless_calls_decide(reference, candidate, found, contents, options.permute)


def _read_in_other_ways(
    given: tuple[KernelGraph, KernelGraph, Mapping[int, Array], VerifyOptions],
    of: Callable[..., Verdict | Open],
    found: Verdict | Open,
    *,
    open_: bool,
) -> Verdict | Open | None:
    """Return the verdict on equivalent programs, if it says more than the one ``found``; ``open_``
    says whether this one may be replaced by any other."""
    pair = given[:2]
    if isinstance(found, Verdict) and not found.equivalent and has_bit_calls(*pair):
        return _with_bits_read(pair, of, found)
    if isinstance(found, Verdict) and found.kind is Kind.UNKNOWN:
        written = _written_otherwise(pair[0], total=True), _written_otherwise(pair[1], total=False)
        other = of(*written) if written != pair else None
        if isinstance(other, Verdict) and other.equivalent:
            return other
    if not open_:
        return None
    return _without_detours(*given, of) or _by_readings_of_masks(*given, of)


def _with_bits_read(
    pair: tuple[KernelGraph, KernelGraph], of: Callable[..., Verdict | Open], found: Verdict
) -> Verdict:
    """Return the verdict on two programs with arithmetic in place of calls that compute bits. If
    such calls are left, a difference refutes nothing, as their results are any numbers there."""
    read = _written_otherwise(pair[0], total=True), _written_otherwise(pair[1], total=False)
    other = of(*read)
    if isinstance(other, Verdict) and (other.equivalent or not has_bit_calls(*read)):
        return other
    if found.kind is not Kind.REFUTED:
        return found
    evidence = (*found.evidence, Evidence("calls to the framework", None, BITS_ARE_ANY))
    return replace(found, kind=Kind.UNKNOWN, evidence=evidence, witness=None)


def _written_otherwise(graph: KernelGraph, *, total: bool) -> KernelGraph:
    """Return an equivalent program, or the same object; with ``total``, it is defined wherever the
    program is."""
    graph = as_choices(graph)
    plain = decompose(graph)
    counted = with_counts_from_one(without_bit_calls(plain), total=total)
    return graph if counted is plain else counted


def _by_readings_of_masks(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    of: Callable[..., Verdict | Open],
) -> Verdict | None:
    """Return the verdict on two programs of which readings are equal, or None."""
    unmeasured = replace(options, numerics=False)
    for first, second, text in readings_of_masks(reference, candidate, contents, options.work):
        pairs = (with_choices_cut(first, second), (first, second))
        for pair in (pair for pair in pairs if pair is not None):
            read = _of_reading(of(*pair, options=unmeasured), text)
            if read is not None:
                refutes = text != ALIKE  # float64 shows the numbers in empty rows
                return as_written(reference, candidate, read, contents, options, refutes=refutes)
    return None


def _without_detours(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    options: VerifyOptions,
    of: Callable[..., Verdict | Open],
) -> Verdict | None:
    """Return the verdict on two programs that are equal without values that are the same as others,
    or None."""
    pair = without_detours(reference), without_detours(candidate)
    if pair == (reference, candidate):
        return None
    read = of(*pair, options=replace(options, numerics=False))
    if not isinstance(read, Verdict) or not read.equivalent or not read.defined:
        return None
    return as_written(reference, candidate, read, contents, options, refutes=True)


def _of_reading(read: Verdict | Open, text: str) -> Verdict | None:
    """Return the verdict on a reading of a candidate: this counts only if the reading is
    equivalent, and defined wherever the reference is."""
    if not isinstance(read, Verdict) or not read.equivalent or not read.defined:
        return None
    return replace(read, evidence=(Evidence(EMPTY_ROWS, True, text), *read.evidence))


def _settles(found: Verdict | Open, contents: Mapping[int, Array]) -> bool:
    """Return whether a verdict is final; a difference for known inputs says nothing about other
    inputs."""
    refuted = isinstance(found, Verdict) and found.kind is Kind.REFUTED
    return isinstance(found, Open) or found.equivalent or (refuted and not contents)


def _as_they_are(
    reference: KernelGraph,
    candidate: KernelGraph,
    options: VerifyOptions,
    seed: int,
    hint: Hint | None,
    known: Mapping[str, Shown],
    contents: Mapping[int, Array],
    positions: Mapping[int, Array],
    budget: Budget,
    *,
    postpone: bool,
) -> Verdict | Open:
    """Return the verdict of :func:`examine` for programs in their original form, with their
    positions."""
    freed = free_positions(reference, candidate)
    taken = all_steps_taken(freed)
    if freed.positions or taken is not freed:
        known_numbers = {**contents, **freed.positions}

        def of_any(pair: Freed) -> Verdict:
            programs = pair.reference, pair.candidate
            given = options, None, known, known_numbers, positions
            some = examine(*programs, *given, postpone=False, budget=budget, seed=seed)
            assert isinstance(some, Verdict)
            return replace(some, seed=seed)

        return _of_positions(freed, taken, of_any, known_numbers, options, seed, budget)
    reference, candidate = freed.reference, freed.candidate
    rows = cut_rows(reference, candidate, contents, seed)
    first, second = rows or (cut_calls(reference), cut_calls(candidate))
    if first.calls != second.calls:
        text = f"expected the calls {list(first.calls)}, got {list(second.calls)}"
        return Verdict(Kind.UNKNOWN, None, (Evidence("calls to the framework", None, text),), seed)
    if hint is not None and (first.calls or not speaks_of(hint, reference)):
        hint = None
    held = partial(Verification, known=known, contents=contents, positions=positions)
    held = partial(
        held, permutable=len(reference.outputs), options=options, seed=seed, budget=budget
    )

    def settled(whole: Verdict) -> Verdict:
        whole = with_rows(reference, candidate, whole, contents, options.work)
        if contents:
            return whole
        return in_place(reference, candidate, whole, contents, options, budget)

    pair = first.graph, second.graph

    def by_parts(programs: _Graphs = pair) -> Verdict | None:
        return _by_parts(programs, held, contents, seed, budget) if options.prove else None

    if hint is None and options.prove and is_long(first.graph):
        return _of_long_programs(pair, by_parts, held, settled, budget)
    found = held(*pair, hint=hint).run(postpone and not first.calls and not contents)
    if isinstance(found, Open) or found.equivalent:
        return found
    plain = hint is None and not any(any(launches(g.ops)) for g in pair)
    plain = plain and not numbers_left_out(first.graph)  # what is left out depends on all labels
    return _read_otherwise(pair, found, hint, held, settled, by_parts if plain else None)


def _of_positions(
    freed: Freed,
    taken: Freed | None,
    of_any: Callable[[Freed], Verdict],
    known: Mapping[int, Array],
    options: VerifyOptions,
    seed: int,
    budget: Budget,
) -> Verdict:
    """Return the verdict on programs with positions, given the verdict ``of_any`` on programs with
    arbitrary numbers in their place."""
    verdict = replace(NOT_IDLE, seed=seed) if taken is None else of_any(taken)
    verdict = with_positions(freed, verdict, known, options.work)
    if taken is None:
        return verdict
    if taken is freed:
        return in_place(freed.reference, freed.candidate, verdict, known, options, budget)
    return with_steps(freed, verdict, known, options.work)


_Graphs = tuple[KernelGraph, KernelGraph]
_Held = Callable[..., Verification]
_Settled = Callable[[Verdict], Verdict]


def _by_parts(
    pair: _Graphs, held: _Held, contents: Mapping[int, Array], seed: int, budget: Budget
) -> Verdict | None:
    """Return the verdict by values that both programs seem to have in common; None if there are
    none."""
    left = budget.left
    guess = budget.unlimited(lambda: guessed_hint(*pair, contents, seed, left))
    if guess is None:
        return None
    limits = Patience(*(min(most, budget.share) for most in (PIECE_SECONDS, WHOLE_SECONDS)))
    found = held(*pair, hint=guess, guessed=True, patience=limits).run()
    assert isinstance(found, Verdict)
    return found


def _of_long_programs(
    pair: _Graphs,
    by_parts: Callable[[_Graphs], Verdict | None],
    held: _Held,
    settled: _Settled,
    budget: Budget,
) -> Verdict:
    """Return the verdict on two programs without hints about common values: by parts, or otherwise
    as a whole, as far as the time allows."""
    one, other, constants = constants_read(*pair)
    found = by_parts((one, other)) or Verdict(Kind.UNKNOWN, None, (), held(*pair, hint=None).seed)
    if found.equivalent:
        return replace(found, evidence=(*_notes(constants, Depth.USUAL), *found.evidence))
    limit = WHOLE_SECONDS if math.isinf(budget.left) else math.inf
    try:
        with time_limit(math.inf, limit):
            whole = held(*pair, hint=None).run()
            assert isinstance(whole, Verdict)
            if whole.equivalent:
                return whole
            return _read_otherwise(pair, whole, None, held, settled)
    except OutOfTime:
        text = f"no result within {WHOLE_SECONDS:g} s of processor time"
        evidence = (*found.evidence, Evidence("both programs as one", None, text))
        return replace(found, kind=Kind.UNKNOWN, evidence=evidence, witness=None)


def _read_otherwise(
    pair: _Graphs,
    found: Verdict,
    hint: Hint | None,
    held: _Held,
    settled: _Settled,
    by_parts: Callable[[], Verdict | None] | None = None,
) -> Verdict:
    """Return the verdict on two programs in other readings, by parts if float64 shows no
    difference, or otherwise with the tensors that they hold."""
    refuted = found.kind is Kind.REFUTED
    for depth, (one, other, constants) in _readings(*pair, found.kind, hint):
        again = held(one, other, hint=None, depth=depth).run()
        assert isinstance(again, Verdict)
        noted = replace(again, evidence=(*_notes(constants, depth), *again.evidence))
        if again.equivalent:
            return noted
        if refuted and again.kind is Kind.UNKNOWN:  # the constants alone are what differs
            found = noted
    tested = any(e.name == AT_REAL_SIZES and e.holds for e in found.evidence)
    open_ = found.kind is Kind.UNKNOWN and tested
    parts = by_parts() if by_parts is not None and open_ else None
    return parts if parts is not None and parts.equivalent else settled(found)


def _readings(
    first: KernelGraph, second: KernelGraph, kind: Kind, hint: Hint | None
) -> Iterator[tuple[Depth, Read]]:
    """Yield the other ways to read two programs."""
    alike = constants_read(first, second)
    pairs: list[Read] = [alike] if alike[2] else []
    one, other, functions = with_functions_read(*alike[:2])
    if functions:
        pairs.append((one, other, {**alike[2], **functions}))
    for pair in pairs:
        yield Depth.USUAL, pair
    if kind is not Kind.UNKNOWN:
        return
    pairs.insert(0, (first, second, {}))
    depths: list[Depth] = []
    if has_exponentials(first, second):
        depths.append(Depth.EXPONENTIALS)
    if hint is None and has_real_functions(*pairs[-1][:2]):
        depths.append(Depth.REALS)
    for depth in depths:
        for pair in pairs:
            yield depth, pair


def _notes(constants: Mapping[Number, Number | OfSimple], depth: Depth) -> Iterator[Evidence]:
    """Yield evidence that says how the programs were read, since their original forms are not shown
    to be equal."""
    yield from notes_on_constants(constants)
    if depth is Depth.EXPONENTIALS:
        yield Evidence("functions", True, "read as what they are made of: exponentials, maxima")
    if depth is Depth.REALS:
        text = "read as magnitudes, roots, logarithms and exponentials of real numbers"
        yield Evidence("functions", True, text)


def speaks_of(hint: Hint, reference: KernelGraph) -> bool:
    """Return whether the hint's source is one of the decompositions of ``reference``: the meaning
    of its composite ops, with or without the row maximum."""
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
