"""The evaluator of µGraphs, for both levels and generic over the arithmetic.

Every block of a launch is really executed: its loads cut tiles out of the operands (zeros outside),
its loops run step by step, its stores put tiles together. The blocks of a launch run in parallel:
inside a launch each value has one leading array dimension for each grid axis, of size 1 if the
value is the same along that axis. Nothing is assumed about results that blocks do not write or
write inconsistently; both raise an error.

Composite ops are decomposed in their stable form first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Domain, Float64, Planes, TypedFloat, shape_of
from mirage.semantics.evaluation.block_evaluator import BlockEvaluator
from mirage.semantics.evaluation.parts_of_ops import EvaluationError, Tensor, computed
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.positions import Iota
from mirage.semantics.region import (
    Demand,
    Region,
    whole,
    whole_demand,
)
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import Composite, KernelGraph, Launch, Op, Value

__all__ = ["EvaluationError", "Float64", "Sampled", "TypedFloat", "evaluate", "evaluate_floats"]


@dataclass(frozen=True)
class Sampled:
    """A tensor of which only a region is present."""

    planes: Planes
    region: Region


def evaluate_floats(
    graph: KernelGraph, inputs: Sequence[Array], domain: Domain | None = None
) -> tuple[Array, ...]:
    """Return the outputs of ``graph`` for float arrays, in ``domain`` (float64 by default).

    Raises :class:`EvaluationError` if the graph leaves an output undefined or if the inputs do not
    match.
    """
    domain = Float64() if domain is None else domain
    with np.errstate(over="ignore"):
        planes = [
            domain.cast((np.asarray(x, dtype=np.float64),), v.dtype)
            for x, v in zip(inputs, graph.inputs, strict=True)
        ]
    return tuple(y[0] for y in evaluate(graph, domain, planes))


def evaluate(graph: KernelGraph, domain: Domain, inputs: Sequence[Planes]) -> tuple[Planes, ...]:
    """Return the outputs of ``graph`` for ``inputs`` (one value of the domain each, whole tensors).

    Raises :class:`EvaluationError` and the errors of the domain.
    """
    if len(inputs) != len(graph.inputs):
        raise EvaluationError(f"expected {len(graph.inputs)} inputs, got {len(inputs)}")
    for i, (x, v) in enumerate(zip(inputs, graph.inputs, strict=True)):
        if shape_of(x) != v.shape:
            raise EvaluationError(f"input {i}: expected shape {v.shape}, got {shape_of(x)}")
    graph = loaded(graph)
    if any(isinstance(op, Composite) for op in graph.ops):
        graph = decompose(graph, stable=True)
    sampled = [Sampled(x, whole(len(v.shape))) for x, v in zip(inputs, graph.inputs, strict=True)]
    return tuple(y.planes for y in evaluate_sampled(graph, domain, sampled, whole_demand(graph)))


@dataclass(frozen=True)
class Shared:
    """The results of launches that other graphs also contain. ``numbers`` are equal for launches
    with equal results; ``known`` has the results of those that were run, on the same inputs in the
    same arithmetic."""

    numbers: Mapping[Op, int]
    known: dict[int, tuple[Tensor, ...]]


def evaluate_sampled(
    graph: KernelGraph,
    domain: Domain,
    inputs: Sequence[Sampled],
    wanted: Demand,
    shared: Shared | None = None,
    sets: int = 0,
) -> tuple[Sampled, ...]:
    """Return the wanted parts of the outputs; the inputs must contain at least the parts that these
    need.

    ``graph`` must be free of composite ops. Outputs may contain more than the wanted parts. Several
    sets of inputs are evaluated together if arrays start with ``sets`` dimensions, which have one
    entry for each set, or size 1 if all sets have the same array.
    """
    values: dict[Value, Tensor] = {
        v: Tensor(x.planes, x.region) for v, x in zip(graph.inputs, inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        for op, last in _with_last_uses(graph):
            if wanted.regions.keys().isdisjoint(op.results):
                continue
            if isinstance(op, Launch):
                found = _launch(domain, op, values, wanted, shared, sets)
                values.update(zip(op.results, found, strict=True))
            else:
                values[op.result] = _primitive(domain, op, values, wanted, sets)
            for v in last:
                values.pop(v, None)
    return tuple(Sampled(values[v].planes, values[v].region) for v in graph.outputs)


def _launch(
    domain: Domain,
    op: Launch,
    values: dict[Value, Tensor],
    wanted: Demand,
    shared: Shared | None,
    sets: int,
) -> tuple[Tensor, ...]:
    number = None if shared is None else shared.numbers.get(op)
    if shared is not None and number is not None and number in shared.known:
        return shared.known[number]
    params = {p: values[v] for p, v in zip(op.body.params, op.operands, strict=True) if v in values}
    parts = wanted.parts.get(op)
    at = wanted.positions[op]
    results = BlockEvaluator(domain, op, params, at, sets, parts, wanted.takes).run()
    if shared is not None and number is not None:
        shared.known[number] = results
    return results


def _primitive(
    domain: Domain, op: Op, values: dict[Value, Tensor], wanted: Demand, sets: int
) -> Tensor:
    if isinstance(op, Iota):
        rank = len(op.result.shape)
        return Tensor(op.compute(domain, (), sets, op.result.shape), whole(rank))
    operands = [values[v] for v in op.operands]
    return computed(domain, op, operands, wanted.regions[op.result], wanted.takes, sets)


def _with_last_uses(graph: KernelGraph) -> list[tuple[Op, list[Value]]]:
    """Return the ops, each with the values that no later op reads."""
    if (known := _LAST_USES.get(graph)) is not None:
        return known
    last: dict[Value, int] = {}
    for number, op in enumerate(graph.ops):
        for v in (*op.operands, *op.results):
            last[v] = number
    for v in graph.outputs:
        last.pop(v, None)
    uses: list[tuple[Op, list[Value]]] = [(op, []) for op in graph.ops]
    for v, number in last.items():
        uses[number][1].append(v)
    _LAST_USES[graph] = uses
    return uses


# Weak references: the same graph is run on one input after another while it exists.
_LAST_USES: WeakKeyDictionary[KernelGraph, list[tuple[Op, list[Value]]]] = WeakKeyDictionary()
