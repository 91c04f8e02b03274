"""Compares two programs of a user, with the tensors that their modules hold and the structure of
their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mirage.frontend.program import Fixed, Program, Seen
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.transforms.partition.empty import without_empty
from mirage.verify import SignatureMismatch, Verdict, VerifyOptions
from mirage.verify.shared_inputs.bound_tensors import Bound, Result, Stated, align
from mirage.verify.verifier import verify_aligned


def verify_programs(
    reference: Program,
    candidate: Program,
    options: VerifyOptions | None = None,
    pairs: Mapping[str, str] = {},
    *,
    named: bool = True,
) -> Verdict:
    """Verify that ``candidate`` is the same program as ``reference``.

    Parameters are the same if they have the same name, buffers and constants if they hold the same
    elements, results if they have the same key; ``pairs`` maps names in the reference to names in
    the candidate. Without ``named``, all inputs are matched by position. Raises
    :class:`mirage.verify.SignatureMismatch` if the programs cannot be compared."""
    options = options or VerifyOptions()
    first, second = (stated(p, named=named) for p in (reference, candidate))
    return verify_aligned(align(first, second, pairs, by_key=not options.permute), options)


def stated(program: Program, *, named: bool = True) -> Stated:
    """Return a program in the form that the verifier compares. Raises
    :class:`mirage.verify.SignatureMismatch`."""
    if foreign := _uncompared(program):
        raise SignatureMismatch(
            f"expected tensors of types that kernels have, got {', '.join(foreign)}"
        )
    bound = tuple(
        Bound(p.index, p.name, p.trained, None if p.trained else _elements(p.data), p.also)
        for p in program.parameters
    )
    graph, places = _with_elements(program.graph)
    whole = tuple(range(len(program.graph.outputs)))
    results = [r for r in program.results or whole if not isinstance(r, Seen)]
    return Stated(
        graph,
        bound,
        frozenset(program.unread),
        program.keys,
        tuple(Result(r.value) if isinstance(r, Fixed) else places[r] for r in results),
        named,
    )


def _uncompared(program: Program) -> list[str]:
    """Return the types that kernels do not have, except bytes that a program holds: it computes
    with signed ones in their place, and says how."""
    held = {p.index for p in program.parameters}
    taken = [t for i, t in program.carriers.items() if not (t == "uint8" and i in held)]
    given = [r.dtype for r in program.results or () if isinstance(r, Seen)]
    return list(dict.fromkeys((*taken, *given)))


def _with_elements(graph: KernelGraph) -> tuple[KernelGraph, list[int | Result]]:
    """Return ``graph`` without tensors that have no elements, and the result that each of its
    outputs is. Of empty outputs only the types are compared."""
    places: list[int | Result] = []
    outputs: list[Value] = []
    for v in graph.outputs:
        places.append(len(outputs) if v.type.size else Result(f"no elements of {v.type}"))
        outputs += [v] if v.type.size else []
    return replace(without_empty(graph), outputs=tuple(outputs)), places


def _elements(data: Any) -> Array | None:
    """Return the contents of a tensor in float64; None if it has none (in IR, or for fake
    tensors)."""
    if data is None or data.device.type == "meta":
        return None
    import torch

    return np.asarray(data.detach().to(device="cpu", dtype=torch.float64).contiguous().numpy())
