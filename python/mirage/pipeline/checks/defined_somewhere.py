"""Rejects programs that are not defined for any inputs, which are a user's mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.errors import SourceLocation
from mirage.frontend.errors import InvalidGraphError
from mirage.frontend.program import Program
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.kinds import Elementwise
from mirage.semantics.scalar import Array, BinaryFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Op, Value, View
from mirage.verify.evidence.samples.defined_nowhere import first_without_numbers


def check_defined_somewhere(program: Program) -> None:
    """Raise :class:`~mirage.frontend.errors.InvalidGraphError` if no result contains a finite
    number, for any inputs and any contents of the tensors that the program holds (others may be
    loaded).
    """
    data = {p.index: p.data for p in program.parameters}

    def held(number: int, region: Region) -> Array | None:
        return _part(data.get(number), region)

    op = first_without_numbers(program.graph, held)
    if op is not None:
        raise InvalidGraphError(_text(program.graph, op), _place(program, op))


def _part(data: Any, region: Region) -> Array | None:
    """Return the part of a tensor that a region selects; None if the tensor has no contents (IR,
    fake tensors)."""
    if data is None or data.device.type == "meta":
        return None
    import torch

    x = data.detach()
    for dim, index in enumerate(region):
        if index is not None:
            x = x.index_select(dim, torch.from_numpy(np.asarray(index)).to(x.device))
    return np.asarray(x.to(device="cpu", dtype=torch.float64).contiguous().numpy())


def _text(graph: KernelGraph, op: Op) -> str:
    function = op.function
    named = isinstance(function, UnaryFn | BinaryFn)
    name = function.value if named else type(op).__name__.lower()
    text = (
        "expected a program whose results are numbers for some inputs, got one whose results are "
        f"NaN or infinite for all of them: `{name}` gives no finite number ({op.results[0].type})"
    )
    infinite = next((v for v in op.operands if _is_infinite(graph, v)), None)
    if infinite is None:
        return text
    return (
        f"{text}, as one of its operands is an infinite constant of {infinite.dtype.value}; "
        f"numbers of that type go up to {infinite.dtype.largest:g}, larger ones are infinite in it"
    )


def _is_infinite(graph: KernelGraph, value: Value) -> bool:
    """Return whether a value is a constant of infinity, possibly moved or converted."""
    made = {v: op for op in graph.ops for v in op.results}
    op = made.get(value)
    while isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
        op = made.get(op.operands[0])
    return op is not None and op.number is not None and bool(np.isinf(float(op.number)))


def _place(program: Program, op: Op) -> SourceLocation | None:
    """Return the place of an op in the user's program; for an op that belongs to a composite, that
    of the composite."""
    places = {v: at for made, at in program.locations.items() for v in made.results}
    return next((places[v] for v in op.results if v in places), None)
