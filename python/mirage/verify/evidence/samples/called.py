"""Programs in float64 with the real results of calls of the framework.

A call is made by PyTorch itself, where it is installed, on numbers in float64. Only calls whose
result is determined by their operands are made: no random ones, no eigenvectors (whose sign is
free), and nothing that depends on the order of equal elements. So two equal programs give the same
numbers, up to roundings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from mirage.semantics.evaluation.evaluate import EvaluationError, evaluate_floats
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.scalar import Array, DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import External, KernelGraph, Value
from mirage.verify.evidence.samples.floats import Difference
from mirage.verify.evidence.samples.integer_inputs import compared_with, looked_up

_DRAWS, _DIFFERENT = 4, 2
"""How many inputs are drawn, and on how many of them programs must differ: where numbers are
rounded to whole ones, equal programs may differ on some."""
_LARGEST = 64
"""The magnitude below which whole numbers are drawn."""
_MOST_ELEMENTS = 1 << 20
"""The most elements of values in a program that is run."""
_MOVED, _CHANGES = 1e-10, 100.0
"""By how much inputs are moved, and how many times the change that this makes a difference must
be."""
_NEAR = 1e-6
"""The difference, relative to the largest number, that roundings do not explain."""

_INTEGERS = {DType.I1: "bool", DType.I8: "int8", DType.I16: "int16", DType.I32: "int32"}
_PAIRS = ("complex32", "complex64", "complex128")

_WHOLE = frozenset(
    (
        *("_fft_c2c", "_fft_c2r", "_fft_r2c", "fft_fft", "fft_ifft", "fft_irfft", "fft_rfft"),
        *("cumprod", "cumsum", "det", "floor_divide", "histc", "inverse", "logcumsumexp", "trace"),
        *("bucketize", "searchsorted", "cdist", "_cdist_forward", "pdist", "renorm", "cholesky"),
        *("linalg_eigvalsh", "linalg_inv", "linalg_matrix_exp", "linalg_solve", "linalg_svdvals"),
        "linalg_solve_triangular",
    )
)
"""Calls, other than elementwise ones, whose results are determined by their operands."""

_PARTLY: dict[str, frozenset[int]] = {
    "_linalg_det": frozenset([0]),
    "_linalg_slogdet": frozenset([0, 1]),
    "_linalg_solve_ex": frozenset([0]),
    "_linalg_eigh": frozenset([0]),
    "_linalg_svd": frozenset([1]),
    "linalg_cholesky_ex": frozenset([0]),
    "linalg_inv_ex": frozenset([0]),
}
"""Calls of which some results are determined, by their numbers: eigenvectors have any sign."""

_BY_ORDER = frozenset(("cummax", "cummin", "kthvalue", "median", "sort", "topk"))
"""Calls whose results are determined if the elements of their operand all differ."""


class _NotDeterminedError(Exception):
    """A call cannot be made, or its result is not determined by its operands."""


_FAILS = _NotDeterminedError, EvaluationError, UnknownOp, RuntimeError, TypeError, ValueError


def difference_with_calls(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array], seed: int
) -> Difference | None:
    """Return an element at which two programs (free of composites) differ on random inputs with
    the real results of calls; ``contents`` are the values of some inputs. None if they do not
    differ in several draws, or cannot be run."""
    graphs = reference, candidate
    sizes = (v.type.size for g in graphs for op in g.ops for v in op.results)
    if sum(sizes) > _MOST_ELEMENTS or not _has_torch():
        return None
    rng = np.random.default_rng(seed)
    found: list[Difference] = []
    for _ in range(_DRAWS):
        inputs = _drawn(reference, contents, rng)
        moved = _moved(reference, inputs, contents, rng)
        try:
            results, others = ([_results(g, xs) for g in graphs] for xs in (inputs, moved))
        except _FAILS:
            return None
        d = _first_difference(*results, *others)
        found += [] if d is None else [d]
    return found[0] if len(found) >= _DIFFERENT else None


def _has_torch() -> bool:
    return find_spec("torch") is not None


def _drawn(
    graph: KernelGraph, contents: Mapping[int, Array], rng: np.random.Generator
) -> list[Array]:
    extents, rows = compared_with(graph), looked_up(graph)
    found: list[Array] = []
    for i, v in enumerate(graph.inputs):
        if i in contents:
            found.append(contents[i])
        elif v.dtype.is_integer:
            found.append(_integers(v, extents.get(v), rows.get(v), rng))
        else:
            found.append(np.asarray(v.dtype.round(rng.standard_normal(v.shape))))
    return found


def _integers(v: Value, extent: int | None, rows: int | None, rng: np.random.Generator) -> Array:
    """Draw whole numbers: of rows or classes, if they are such, or small ones of any sign."""
    most = min(n for n in (extent, rows, _LARGEST) if n is not None)
    if v.dtype is DType.I1:
        return rng.integers(0, 2, v.shape).astype(np.float64)
    least = -_LARGEST if extent is None and rows is None else 0
    return rng.integers(least, max(most, 1), v.shape).astype(np.float64)


def _moved(
    graph: KernelGraph,
    inputs: Sequence[Array],
    contents: Mapping[int, Array],
    rng: np.random.Generator,
) -> list[Array]:
    """Return inputs that are hardly different."""
    found = [*inputs]
    for i, v in enumerate(graph.inputs):
        if i not in contents and not v.dtype.is_integer:
            found[i] = inputs[i] * (1.0 + _MOVED * rng.standard_normal(v.shape))
    return found


def _first_difference(
    expected: Sequence[Array],
    actual: Sequence[Array],
    expected_moved: Sequence[Array],
    actual_moved: Sequence[Array],
) -> Difference | None:
    """Return an element that differs far more than it changes for inputs that hardly do: others (of
    the inverse of a matrix that has none) are made of roundings."""
    results = zip(expected, actual, expected_moved, actual_moved, strict=True)
    for i, (x, y, x_moved, y_moved) in enumerate(results):
        numbers = np.isfinite(x) & np.isfinite(y) & np.isfinite(x_moved) & np.isfinite(y_moved)
        largest = max(np.abs(z[numbers]).max(initial=0.0) for z in (x, y))
        with np.errstate(invalid="ignore"):
            change = np.maximum(np.abs(x - x_moved), np.abs(y - y_moved))
            wrong = numbers & (np.abs(x - y) > np.maximum(_NEAR * largest, _CHANGES * change))
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            return Difference(i, at, float(x[at]), float(y[at]), 1.0)
    return None


def _results(graph: KernelGraph, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs. Raises :class:`_NotDeterminedError`, and the errors of evaluation."""
    known = dict(zip(graph.inputs, inputs, strict=True))
    graph = without_dead_ops(graph)
    called = [op for op in graph.ops if op.calls]
    plain = tuple(op for op in graph.ops if not op.calls)

    def values(wanted: tuple[Value, ...]) -> list[Array]:
        part = KernelGraph(graph.name, tuple(known), plain, wanted)
        return [*evaluate_floats(without_dead_ops(part), list(known.values()))]

    read = {v for op in graph.ops for v in op.operands} | {*graph.outputs}
    for op in called:
        given = _called(cast(External, op), values(op.operands), [v in read for v in op.results])
        known.update(zip(op.results, given, strict=True))
    return values(graph.outputs)


def _called(op: External, operands: Sequence[Array], used: Sequence[bool]) -> list[Array]:
    """Return the results of a call."""
    import torch

    namespace, name, *overload = op.target.split(".")
    packet: Any = getattr(getattr(torch.ops, namespace), name, None)
    function: Any = getattr(packet, overload[0] if overload else "default", None)
    if function is None or namespace != "aten":
        raise _NotDeterminedError
    _check_determined(name, function, operands, used)
    seen = op.seen_as or ("",) * len(operands)
    types = [v.dtype for v in op.operands]
    rest = iter(_tensor(*each) for each in zip(operands, types, seen, strict=True))
    named, arguments = dict(op.arguments), dict[str, Any]()
    for parameter in function._schema.arguments:
        given = named.get(parameter.name)
        if parameter.name not in named:
            if (tensor := next(rest, None)) is not None:
                arguments[parameter.name] = tensor
        elif isinstance(given, tuple) and given[:1] == ("tensors",):
            which = (1,) * given[1] if isinstance(given[1], int) else given[1]
            arguments[parameter.name] = [next(rest) if there else None for there in which]
        elif parameter.name in ("dtype", "device", "layout") and given is not None:
            raise _NotDeterminedError  # results of other types
        else:
            arguments[parameter.name] = list(given) if isinstance(given, tuple) else given
    result = function(**arguments)
    results = result if isinstance(result, tuple | list) else (result,)
    return [_array(x, v, u) for x, v, u in zip(results, op.results, used, strict=True)]


def _check_determined(
    name: str, function: Any, operands: Sequence[Array], used: Sequence[bool]
) -> None:
    import torch

    if function._schema.is_mutable or torch.Tag.nondeterministic_seeded in function.tags:
        raise _NotDeterminedError
    if name in _BY_ORDER:
        lines = np.sort(operands[0].ravel())
        if not np.isfinite(lines).all() or (np.diff(lines) == 0).any():
            raise _NotDeterminedError
    elif name in _PARTLY:
        if any(there and i not in _PARTLY[name] for i, there in enumerate(used)):
            raise _NotDeterminedError
    elif name not in _WHOLE and torch.Tag.pointwise not in function.tags:
        raise _NotDeterminedError


def _tensor(x: Array, dtype: DType, seen_as: str) -> Any:
    """Return a tensor of PyTorch: of float64, of pairs of them, or of integers."""
    import torch

    if seen_as and seen_as not in _PAIRS:
        raise _NotDeterminedError
    if not dtype.is_integer:
        found = torch.from_numpy(np.array(x, dtype=np.float64))
        return torch.view_as_complex(found) if seen_as else found
    found = torch.from_numpy(np.array(x, dtype=np.float64))
    kept = found.to(getattr(torch, _INTEGERS.get(dtype, "int64")))
    if not bool((kept.to(torch.float64) == found).all()):
        raise _NotDeterminedError  # too large, or not a number
    return kept


def _array(x: Any, v: Value, used: bool) -> Array:
    import torch

    if not used:
        return np.zeros(v.shape)
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    if tuple(x.shape) != v.shape:
        raise _NotDeterminedError
    return x.to(torch.float64).numpy()
