"""Rows that are masked completely, and that a candidate fills with zeros.

The softmax of such a row is NaN. PyTorch's fused attention gives zeros there, and so do kernels
that avoid a division by zero: ``where(any(m), softmax(where(m, x, -inf)) v, 0)``. Without the
choice, the candidate is NaN in those rows and the same in all others. If the candidate without the
choice is equal to the reference, and defined wherever the reference is, then the reference is
undefined in those rows, so it makes no difference what the candidate gives there.

If it is the reference that fills such rows, a candidate that does not is another program, unless no
row is empty: the caller may assume that.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirage.semantics.decompose import decompose
from mirage.semantics.ops.op import Op
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Value,
)
from mirage.verify.normal_form.predicates import Truth, masks_of, truth_of

EMPTY_ROWS = "rows that a mask empties"
FILLED = "rows that a mask empties are NaN in the reference"
IF_ROWS_ARE_LEFT = (
    "equal wherever each mask leaves something of a row, which is not assumed; the reference gives "
    "zeros elsewhere, and the candidate does not"
)

_Makers = Mapping[Value, Op]


def without_filled_rows(graph: KernelGraph) -> KernelGraph | None:
    """Return the program without the choices that only replace rows of NaN; None if there are
    none."""
    written = decompose(graph)  # all values keep their identity except results of composite ops
    makers = {v: op for op in written.ops for v in op.results}
    names: dict[Value, Value] = {}
    for op in graph.ops:
        if op.function is not BinaryFn.KEEP or op.operands[1].type != op.results[0].type:
            continue
        choice, kept = makers[op.results[0]].operands
        some = any_of_row(choice, makers)
        masks, rank = _masks_of_rows(kept, makers)
        if some is not None and some[1] == rank and some[0] in masks:
            names[op.results[0]] = names.get(op.operands[1], op.operands[1])
    if not names:
        return None
    ops = tuple(op for op in graph.ops if not names.keys() & set(op.results))
    rest = KernelGraph(graph.name, graph.inputs, ops, graph.outputs)
    return without_dead_ops(rename_graph(rest, names))


def any_of_row(x: Value, makers: _Makers) -> tuple[Truth, int] | None:
    """If ``x`` says whether any of some truth values is true along their last dimension, return
    these truth values and the number of their dimensions."""
    negated = False
    while (op := makers.get(x)) is not None and op.function is UnaryFn.NOT:
        x, negated = op.operands[0], not negated
    if op is None or op.function is not (BinaryFn.EQ if negated else BinaryFn.NE):
        return None
    for count, zero in (op.operands, op.operands[::-1]):
        total, none = makers.get(count), makers.get(zero)
        if not isinstance(total, Contraction) or total.function is not ReduceFn.SUM:
            continue
        if none is None or none.number != 0:
            continue
        (given,) = total.operands
        rank = len(given.shape)
        truth = truth_of(given, makers)
        if total.over == ((rank - 1,),) and len(count.shape) == rank and truth is not None:
            return truth, rank
    return None


def _masks_of_rows(x: Value, makers: _Makers) -> tuple[list[Truth], int]:
    """Return the masks of the softmax that ``x`` is computed from (a row of ``x`` is NaN if one of
    them leaves nothing of it), and the number of dimensions of ``x``."""
    rank = len(x.shape)
    while (op := makers.get(x)) is not None and len(x.shape) == rank:
        product = isinstance(op, Contraction) and len(op.operands) == 2
        if product or (isinstance(op, Elementwise) and op.identity):
            x = op.operands[0]
            continue
        if op.function is not BinaryFn.DIV or op.operands[1].shape[-1:] != (1,):
            break
        total = makers.get(op.operands[1])
        if not isinstance(total, Contraction) or total.function is not ReduceFn.SUM:
            break
        exp = makers.get(total.operands[0])
        if exp is not None and exp.function is UnaryFn.EXP and total.over == ((rank - 1,),):
            return masks_of(exp.operands[0], makers), rank
        break
    return [], rank
