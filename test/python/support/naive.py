"""A second executor, as literal as possible: one block at a time, every output element poisoned
first.

It knows float64 only and shares no code with the evaluator that it checks.
"""

from __future__ import annotations

import itertools
from math import inf, prod

import numpy as np
from mirage.semantics.scalar import BINARY, REDUCE, UNARY
from mirage.semantics.ugraph import (
    AccumulateFn,
    Binary,
    Broadcast,
    Cast,
    Composite,
    Concat,
    Constant,
    KernelGraph,
    Launch,
    LayerNorm,
    Load,
    Loop,
    Mask,
    Matmul,
    Reduce,
    Reshape,
    RmsNorm,
    RunningMax,
    Slice,
    Softmax,
    Transpose,
    Unary,
    axis_extents,
)


class Poisoned(AssertionError):
    """An output element was never written, or written with two values."""


def run(graph: KernelGraph, inputs):
    """Outputs of ``graph``; raises :class:`Poisoned`."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    for op in graph.ops:
        if isinstance(op, Launch):
            results = _launch(op, [values[v] for v in op.operands])
        else:
            results = [_op(op, [values[v] for v in op.operands])]
        values.update(zip(op.results, results, strict=True))
    return [values[v] for v in graph.outputs]


def _op(op, xs):
    if isinstance(op, Constant):
        return np.float64(op.value)
    if isinstance(op, Unary):
        return UNARY[op.fn].evaluate(xs[0])
    if isinstance(op, Binary):
        with np.errstate(all="ignore"):
            return BINARY[op.fn].evaluate(*xs)
    if isinstance(op, Cast):
        return xs[0]
    if isinstance(op, Matmul):
        return np.einsum("...mk,...kn->...mn", *xs)
    if isinstance(op, Reduce):
        return REDUCE[op.fn](xs[0], axis=op.dims, keepdims=True)
    if isinstance(op, Transpose):
        return np.transpose(xs[0], op.permutation)
    if isinstance(op, Reshape):
        return np.reshape(xs[0], op.result.shape)
    if isinstance(op, Broadcast):
        return np.broadcast_to(xs[0], op.result.shape)
    if isinstance(op, Concat):
        return np.concatenate(xs, axis=op.dim)
    if isinstance(op, Slice):
        return xs[0][tuple(slice(o, o + n) for o, n in zip(op.offsets, op.result.shape))]
    assert isinstance(op, Composite)
    x = xs[0]
    if isinstance(op, Softmax):
        e = np.exp(x - x.max(axis=op.dim, keepdims=True))
        return e / e.sum(axis=op.dim, keepdims=True)
    last = tuple(range(-op.dims, 0))
    if isinstance(op, LayerNorm):
        x = x - x.mean(axis=last, keepdims=True)
    assert isinstance(op, (LayerNorm, RmsNorm))
    y = x / np.sqrt((x**2).mean(axis=last, keepdims=True) + op.eps)
    if len(xs) > 1:
        y = y * xs[1]
    return y + xs[2] if len(xs) > 2 else y


def _part(axes, extents, position):
    number = 0
    for a in axes:
        number = number * extents[a] + position[a]
    return number


def _launch(launch, operands):
    extents = axis_extents(launch)
    results = [np.full(v.shape, np.nan) for v in launch.results]
    written = [np.zeros(v.shape, bool) for v in launch.results]
    for point in itertools.product(*(range(a.extent) for a in launch.grid)):
        position = dict(zip((a.name for a in launch.grid), point))
        values = dict(zip(launch.body.params, operands))
        _block(launch.body.ops, values, position, extents)
        for output, y, w in zip(launch.body.outputs, results, written):
            tile = values[output.value]
            for index in np.ndindex(*tile.shape):
                at = tuple(
                    _part(axes, extents, position) * t + i
                    for axes, t, i in zip(output.map, tile.shape, index)
                )
                if all(i < n for i, n in zip(at, y.shape)):
                    if w[at] and not (
                        y[at] == tile[index] or (np.isnan(y[at]) and np.isnan(tile[index]))
                    ):
                        raise Poisoned(f"{at} is written with {y[at]} and {tile[index]}")
                    y[at], w[at] = tile[index], True
    for w in written:
        if not w.all():
            raise Poisoned(f"{(~w).sum()} elements are not written")
    return results


def _block(ops, values, position, extents):
    for op in ops:
        if isinstance(op, Load):
            x = values[op.operands[0]]
            tile = np.zeros(op.result.shape)
            for index in np.ndindex(*tile.shape):
                at = tuple(
                    _part(axes, extents, position) * t + i
                    for axes, t, i in zip(op.map, tile.shape, index)
                )
                if all(i < n for i, n in zip(at, x.shape)):
                    tile[index] = x[at]
            values[op.result] = tile
        elif isinstance(op, Mask):
            x = values[op.operands[0]].copy()
            for i in range(x.shape[op.dim]):
                if _part(op.axes, extents, position) * x.shape[op.dim] + i >= op.extent:
                    x[(slice(None),) * op.dim + (i,)] = op.fill
            values[op.result] = x
        elif isinstance(op, RunningMax):
            values[op.result] = np.maximum(
                values.get(("before", op.result), -inf), values[op.operands[0]]
            )
        elif isinstance(op, Loop):
            _loop(op, values, position, extents)
        else:
            values[op.result] = _op(op, [values[v] for v in op.operands])


def _loop(op, values, position, extents):
    maxima = [m.result for m in op.body if isinstance(m, RunningMax)]
    for m in maxima:
        values["before", m] = np.full(m.shape, -inf)
    starts = {AccumulateFn.SUM: 0.0, AccumulateFn.MAX: -inf, AccumulateFn.LAST: np.nan}
    totals = [np.full(a.value.shape, starts[a.fn]) for a in op.accumulators]
    for step in range(op.axis.extent):
        _block(op.body, values, {**position, op.axis.name: step}, extents)
        for i, a in enumerate(op.accumulators):
            if a.rescale is not None:
                totals[i] = totals[i] * np.exp(values["before", a.rescale] - values[a.rescale])
            if a.fn is AccumulateFn.LAST:
                totals[i] = values[a.value]
            else:
                totals[i] = (np.add if a.fn is AccumulateFn.SUM else np.maximum)(
                    totals[i], values[a.value]
                )
        for m in maxima:
            values["before", m] = values[m]
    assert prod(extents.values()) > 0
    values.update(zip(op.results, totals))
