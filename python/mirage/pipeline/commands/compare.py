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
from mirage.verify.shared_inputs.wrapped_integers import with_wraps
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
    _check_carried(reference, candidate)
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
    graph, places = _with_elements(with_wraps(program.graph))
    whole = tuple(range(len(program.graph.outputs)))
    results = [r.output if isinstance(r, Seen) else r for r in program.results or whole]
    return Stated(
        graph,
        bound,
        frozenset(program.unread),
        program.keys,
        tuple(Result(r.value) if isinstance(r, Fixed) else places[r] for r in results),
        named,
        program.misses_are_errors,
    )


def _uncompared(program: Program) -> list[str]:
    """Return the types that kernels do not have, except bytes without a sign: a program computes
    with signed ones in their place, and says how."""
    given = [r.dtype for r in program.results or () if isinstance(r, Seen)]
    return [t for t in dict.fromkeys((*program.carriers.values(), *given)) if t != "uint8"]


def _check_carried(reference: Program, candidate: Program) -> None:
    """Raise :class:`mirage.verify.SignatureMismatch` if one program takes or returns bytes without
    a sign where the other one has signed ones, which hold the same bits."""
    for what, one, other in zip(
        ("inputs", "results"), _carried(reference), _carried(candidate), strict=True
    ):
        for place in one.keys() ^ other.keys():
            raise SignatureMismatch(
                f"{what}: expected {one.get(place, 'a signed type')}, got "
                f"{other.get(place, 'a signed type')} for {place}"
            )


def _carried(program: Program) -> tuple[Mapping[object, str], Mapping[object, str]]:
    """Return the types of the inputs that a caller passes, by their places, and of the results, by
    their keys, if kernels do not have these types."""
    held = {p.index for p in program.parameters}
    passed = [i for i in range(len(program.graph.inputs)) if i not in held]
    inputs: dict[object, str] = {
        n: program.carriers[i] for n, i in enumerate(passed) if i in program.carriers
    }
    results = program.results or ()
    keys = program.keys if len(program.keys) == len(results) else range(len(results))
    seen: dict[object, str] = {
        k: r.dtype for k, r in zip(keys, results, strict=True) if isinstance(r, Seen)
    }
    return inputs, seen


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
