"""Verification kernel by kernel.

A candidate stores tensors, and most of them are values that the reference computes too. Between
stored values lie *pieces*: the part of the candidate that one kernel (or a few of them) computes,
and the part of the reference that computes the same values from the same stored values. A piece is
a pair of small programs whose inputs are free. The verifier shows that each pair is equal, and by
induction in the order of the candidate all stored values are equal, the outputs among them
(``docs/verification.md``).

Which tensor holds which value is a hint from the author of the candidate, or a guess
(:mod:`mirage.verify.evidence.proofs.value_by_value`); soundness does not depend on it. A pair that
cannot be shown to be equal is dropped: the kernels that read its tensor are compared together with
those that write it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mirage.semantics.builder import Builder
from mirage.semantics.signature import signature
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, TensorType, Value, View
from mirage.verify.verdict import Evidence, HoldsFor

Pairs = tuple[tuple[Value, Value], ...]
"""Values of a program and of a candidate that are claimed to be equal, up to a reshape."""


@dataclass(frozen=True)
class Hint:
    """The values that the tensors of a candidate are claimed to hold: ``stored`` pairs values of
    ``program`` with values of the candidate.

    ``source`` is the reference in primitive ops, and ``program`` is the same program with some of
    its ops rewritten; values that both have are claimed to be equal.
    """

    source: KernelGraph
    program: KernelGraph
    stored: Pairs

    @property
    def rewritten(self) -> Pairs:
        """The pairs of equal values of ``source`` and ``program``."""
        theirs = {v for op in self.program.ops for v in op.results}
        return tuple((v, v) for op in self.source.ops for v in op.results if v in theirs)


@dataclass(frozen=True)
class Piece:
    """Two programs with the same inputs whose equality is to be shown. ``targets`` are the
    candidate's values that they compute, and ``ops`` are the candidate's ops in the piece.
    """

    first: KernelGraph
    second: KernelGraph
    targets: tuple[Value, ...]
    ops: tuple[Op, ...]

    @cached_property
    def _signatures(self) -> tuple[str, str]:
        return signature(self.first), signature(self.second)

    @cached_property
    def key(self) -> str:
        """A hash that is equal for equal pieces, whatever the names of their values."""
        return hashlib.sha256("\n=\n".join(self._signatures).encode()).hexdigest()

    @property
    def trivial(self) -> bool:
        """Whether both programs consist of the same ops."""
        return self._signatures[0] == self._signatures[1]


@dataclass(frozen=True)
class Shown:
    """The result for a piece: ``bound_log2`` is 0 if it is not shown, minus infinity for a proof,
    and otherwise the base-2 logarithm of the chance that a wrong piece passes."""

    bound_log2: float
    evidence: tuple[Evidence, ...] = ()
    holds_for: HoldsFor | None = None

    @property
    def holds(self) -> bool:
        """Whether the piece is shown, by a proof or with a bound."""
        return self.bound_log2 < 0.0


SAME_OPS = Shown(float("-inf"), (Evidence("the same ops", True, "on the same operands"),))


@dataclass(frozen=True)
class Account:
    """The result of a comparison by pieces: ``shown`` are the pieces from which the equality of all
    outputs follows, in order, each with its result; ``failed`` are those that could not be shown.
    """

    shown: tuple[tuple[Piece, Shown], ...]
    failed: tuple[tuple[Piece, Shown], ...]

    @property
    def holds(self) -> bool:
        """Whether all outputs are shown to be equal."""
        return not self.failed


Prove = Callable[[Piece], Shown]


def account_for(
    program: KernelGraph, candidate: KernelGraph, pairs: Pairs, prove: Prove
) -> Account:
    """Show that the outputs of ``candidate`` are those of ``program``, through the values that the
    candidate stores."""
    known = _Known(program, candidate)
    shown: list[tuple[Piece, Shown]] = []
    failed: list[tuple[Piece, Shown]] = []
    for group in _targets(program, candidate, pairs):
        if known.is_same(group):
            known.add_same(group)
            continue
        tried: list[tuple[Piece, Shown]] = []
        for grown in range(_MOST_GROWN + 1):
            piece = known.piece(group, grown)
            if tried and piece.key == tried[-1][0].key:
                continue
            tried.append((piece, SAME_OPS if piece.trivial else prove(piece)))
            if tried[-1][1].holds:
                break
        if tried[-1][1].holds:
            shown.append(tried[-1])
            known.add(group)
        else:
            failed.append(tried[0])
    outputs = set(candidate.outputs)
    if not any(outputs.intersection(piece.targets) for piece, _ in failed):
        failed = []  # pieces that could not be proved are not needed: larger ones hold
    return Account(tuple(shown), tuple(failed))


_MOST_GROWN = 3


def _targets(program: KernelGraph, candidate: KernelGraph, pairs: Pairs) -> Iterator[Pairs]:
    """Yield the pairs to show, in the order of the candidate: the pairs whose values one op
    defines, together; and last the outputs that are inputs or equal another output."""
    theirs, ours = set(_defined(program)), set(_defined(candidate))
    said = {c: p for p, c in pairs if p in theirs and c in ours and p.type.size == c.type.size}
    said.update(zip(candidate.outputs, program.outputs, strict=True))
    for op in candidate.ops:
        group = tuple((said[v], v) for v in op.results if v in said)
        if group:
            yield group
    # an output may stand for several of the program's, or be one of the inputs
    left = [
        (p, c)
        for p, c in zip(program.outputs, candidate.outputs, strict=True)
        if said[c] is not p or c in candidate.inputs
    ]
    for pair in left:
        yield (pair,)


class _Known:
    """The pairs that are shown; cuts pieces between them."""

    def __init__(self, program: KernelGraph, candidate: KernelGraph) -> None:
        self.program, self.candidate = program, candidate
        self.defining = {v: op for op in program.ops for v in op.results}
        self.defined = {v: op for op in candidate.ops for v in op.results}
        # the program's value for each known value of the candidate; inputs by position
        self.equal: dict[Value, Value] = dict(zip(candidate.inputs, program.inputs, strict=True))
        # those of them that both programs compute in the same way from few elements
        self.light: set[Value] = set()

    def is_same(self, pairs: Pairs) -> bool:
        """Return whether both programs have the very same op, with operands that are the same
        values."""
        defined = [(self.defining.get(p), self.defined.get(c)) for p, c in pairs]
        return all(
            op is not None and op is other and all(self._is_itself(v) for v in op.operands)
            for op, other in defined
        )

    def _is_itself(self, value: Value) -> bool:
        if self.equal.get(value) is value:
            return True
        op = self.defining.get(value)
        return op is not None and op.number is not None and self.defined.get(value) is op

    def add(self, pairs: Pairs) -> None:
        self.equal.update((c, p) for p, c in pairs)

    def add_same(self, pairs: Pairs) -> None:
        """Add the pairs that are results of the very same op in both programs."""
        self.add(pairs)
        ops = ((c, self.defined[c]) for _, c in pairs)
        self.light.update(c for c, op in ops if isinstance(op, Elementwise | View))

    def piece(self, targets: Pairs, grown: int) -> Piece:
        """Return the piece that computes ``targets`` from known values.

        The candidate's side ends at the nearest known values. The program's side ends at the same
        ones (``grown`` 0) or at all known ones (1). With ``grown`` 2, both sides continue to the
        known values before those, and with 3, through all known values that are parts or
        elementwise functions: knowing parts of a tensor does not help a program that reads all of
        it."""
        equal = self.equal
        if grown == 3:
            equal = {c: p for c, p in equal.items() if c not in self.light}
        ops, read = _back(self.candidate, [c for _, c in targets], equal)
        if grown == 2:
            nearest = set(read) - set(self.candidate.inputs)
            equal = {c: p for c, p in equal.items() if c not in nearest}
            ops, read = _back(self.candidate, [c for _, c in targets], equal)
        ends = set(equal.values()) if grown in (1, 3) else {equal[c] for c in read}
        ends |= set(self.program.inputs)
        program_ops, program_read = _back(self.program, [p for p, _ in targets], ends)
        order = {v: i for i, v in enumerate(_defined(self.program))}
        needed = {*program_read, *(equal[c] for c in read)}
        values = sorted(needed, key=order.__getitem__)
        new = {v: Value(v.type, v.name) for v in values}
        wanted = [p for p, _ in targets]
        values = tuple(c for _, c in targets)
        types = [p.type for p in wanted]
        first = _graph(program_ops, new, {v: v for v in program_read}, wanted, types)
        second = _graph(ops, new, {c: equal[c] for c in read}, values, types)
        return Piece(first, second, values, tuple(ops))


def _defined(graph: KernelGraph) -> Iterator[Value]:
    yield from graph.inputs
    for op in graph.ops:
        yield from op.results


def _back(
    graph: KernelGraph, targets: Sequence[Value], ends: Mapping[Value, object] | set[Value]
) -> tuple[list[Op], list[Value]]:
    """Return the ops that compute ``targets`` from ``ends``, and the ends that they read. A target
    that is an end itself counts as read."""
    needed = {v for v in targets if v not in ends}
    read = dict.fromkeys(v for v in targets if v in ends)
    ops: list[Op] = []
    for op in reversed(graph.ops):
        if needed.isdisjoint(op.results):
            continue
        ops.append(op)
        for v in op.operands:
            if v in ends:
                read[v] = None
            else:
                needed.add(v)
    return ops[::-1], list(read)


def _graph(
    ops: Sequence[Op],
    inputs: Mapping[Value, Value],
    ends: Mapping[Value, Value],
    outputs: Sequence[Value],
    types: Sequence[TensorType],
) -> KernelGraph:
    """Build a program of ``ops`` in which the input that stands for its equal replaces each of
    ``ends``; the outputs have the shapes of ``types``."""
    before, after = Builder(), Builder()
    names = {v: _in_shape(before, inputs[equal], v.shape) for v, equal in ends.items()}
    own = [with_operands(op, tuple(names.get(v, v) for v in op.operands)) for op in ops]
    results = tuple(
        _in_shape(after, names.get(v, v), t.shape) for v, t in zip(outputs, types, strict=True)
    )
    return KernelGraph("piece", tuple(inputs.values()), (*before.ops, *own, *after.ops), results)


def _in_shape(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else builder.reshape(value, shape)
