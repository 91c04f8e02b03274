"""Alternative programs: the form that the stages between search and selection exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from mirage.semantics.substitute import rename_graph, renewed
from mirage.semantics.ugraph import KernelGraph, Op, Value

_T = TypeVar("_T")


@dataclass(frozen=True)
class VerdictNote:
    """`#kernel.verdict`: ``kind`` as in ``mirage.verify.Kind``, the bound as a base-2 logarithm
    rounded up.
    """

    kind: str
    bound_log2: int = 0
    evidence: str | None = None


@dataclass(frozen=True)
class Holds:
    """The values that the tensors of a candidate are claimed to hold: a hint for verification.

    Each triple has the number of a value of the program that was searched (the results of its ops,
    counted), and the number of an op of the candidate with that of its result, which has the same
    elements in row-major order. ``stable`` says with which decomposition of softmax the program was
    searched."""

    stable: bool
    places: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Alternatives(Op):
    """`kernel.alternatives`: programs that are claimed to be equivalent, the reference first.

    Each program's inputs stand for the operands. ``verdicts`` has one entry for each candidate,
    ``costs`` (µs) one for each program (None, in the IR -1, if there is no prediction), and
    ``holds`` one for each candidate."""

    programs: tuple[KernelGraph, ...]
    verdicts: tuple[VerdictNote, ...] | None = None
    costs: tuple[float | None, ...] | None = None
    holds: tuple[Holds, ...] | None = None


_APPLIED: WeakKeyDictionary[Alternatives, Alternatives] = WeakKeyDictionary()


def parts_of(graph: KernelGraph) -> list[Alternatives]:
    """Return the parts of a program that have candidates, in order."""
    return [op for op in graph.ops if isinstance(op, Alternatives)]


def with_parts(graph: KernelGraph, change: Callable[[Alternatives], Alternatives]) -> KernelGraph:
    """Return ``graph`` with each set of alternatives changed by ``change``."""
    ops = (change(op) if isinstance(op, Alternatives) else op for op in graph.ops)
    return replace(graph, ops=tuple(ops))


def kept_of(op: Alternatives, places: Sequence[int]) -> Alternatives:
    """Return ``op`` with its reference and the programs at ``places`` (from 1), in that order."""
    return replace(
        op,
        programs=(op.programs[0], *(op.programs[p] for p in places)),
        verdicts=None if op.verdicts is None else tuple(op.verdicts[p - 1] for p in places),
        costs=None if op.costs is None else (op.costs[0], *(op.costs[p] for p in places)),
        holds=None if op.holds is None else tuple(op.holds[p - 1] for p in places),
    )


def _both(first: tuple[_T, ...] | None, second: tuple[_T, ...] | None) -> tuple[_T, ...] | None:
    return None if first is None or second is None else (*first, *second)


def joined(first: Alternatives | None, second: Alternatives) -> Alternatives:
    """Return the candidates of both sets of alternatives."""
    if first is None:
        return second
    return replace(
        first,
        programs=(*first.programs, *second.programs[1:]),
        verdicts=_both(first.verdicts, second.verdicts),
        costs=None if first.costs is None else (*first.costs, *(second.costs or ())[1:]),
        holds=_both(first.holds, second.holds),
    )


def applied_to(op: Alternatives, graph: KernelGraph) -> Alternatives:
    """Return the same programs for another occurrence of the reference, ``graph``."""
    programs = tuple(map(renewed, op.programs))
    found = replace(op, operands=graph.inputs, results=graph.outputs, programs=programs)
    _APPLIED[found] = original(op)
    return found


def original(op: Alternatives) -> Alternatives:
    """Return the alternatives that these repeat at another place; facts about the programs of those
    also hold here."""
    return _APPLIED.get(op, op)


def inlined(graph: KernelGraph, choose: Callable[[Alternatives], int]) -> KernelGraph:
    """Replace alternatives by the ops of the chosen program."""
    return replaced(graph, lambda op: op.programs[choose(op)])


def replaced(graph: KernelGraph, by: Callable[[Alternatives], KernelGraph | None]) -> KernelGraph:
    """Replace alternatives by the ops of a program with the same inputs and outputs, if ``by``
    returns one."""
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    for op in graph.ops:
        program = by(op) if isinstance(op, Alternatives) else None
        if program is None:
            ops.append(op)
            continue
        mapping = dict(zip(program.inputs, op.operands, strict=True))
        for result, output in zip(op.results, program.outputs, strict=True):
            if output in mapping:  # an input, or another output
                names[result] = mapping[output]
            else:
                mapping[output] = result
        ops.extend(rename_graph(program, mapping).ops)
    whole = KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)
    return rename_graph(whole, names) if names else whole


def result_values(graph: KernelGraph) -> list[Value]:
    """Return the results of all ops, in order."""
    return [v for op in graph.ops for v in op.results]
