"""Rows of ops that multiply rows by the weights of their experts.

``grouped_mm(x[S, K], w[E, K, N], ends[E])`` multiplies the rows from ``ends[e - 1]`` to ``ends[e]``
by ``w[e]``. The expert of a row is the number of ends at or before it. The cheapest method depends
on the number of rows, since these products are bound by the bytes of weights:

* Fewer rows than experts, as for a token that is decoded: each row reads the weights of its expert.
* Up to :data:`MOST_ROWS`: all rows times all experts, and each row keeps its own product. The
  weights are read once, and the products that are not kept take less time than that.
* More, as for a prompt: products that are not kept would be most of the work. The rows are laid
  into blocks of one expert each (:mod:`mirage.frontend.torch_import.rows.products.grouped_blocks`).
"""

from __future__ import annotations

from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.products.grouped_blocks import grouped_product
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.ops.kinds import Rearrangement
from mirage.semantics.ops.op import Value
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn

MOST_ROWS = 128
"""The rows up to which a product takes no longer than reading the weights: about the number of
operations that a chip performs in the time of reading one byte."""


def _grouped_product(b: Lowering, c: Call) -> Value:
    """``op(x, weights, ends, …)``; rows after the last end, which belong to no expert, are zero."""
    x, weights, ends = c.value(0), c.value(1), c.optional(2)
    if any(c.arg(i) is not None for i in (3, 4)):
        raise Unsupported("a bias, or a result of another type")
    if ends is None or (len(x.shape), len(weights.shape)) != (2, 3):
        raise Unsupported(f"groups of something else than rows: {x.shape} by {weights.shape}")
    rows, experts = x.shape[0], weights.shape[0]
    ends = ends if ends.dtype is DType.I32 else b.typed(ends, DType.I64)
    if rows > MOST_ROWS and rows >= experts:
        return grouped_product(b, x, weights, ends, lambda w, owner: _looked_up(b, w, owner))
    line = iota(b, (rows,), 0, ends.dtype)
    passed = b.binary(BinaryFn.LE, b.reshape(ends, (experts, 1)), line)
    own = b.reduced(ReduceFn.SUM, b.typed(passed, DType.F32), (0,), False)  # E after the last end
    return (_by_row if rows < experts else _own_of_all)(b, x, weights, own)


def most_separate(experts: int) -> int:
    """Return the number of rows up to which each row is multiplied separately, at any place."""
    return max(MOST_ROWS, experts - 1)


def _own_of_all(b: Lowering, x: Value, weights: Value, own: Value) -> Value:
    """Multiply all rows by the weights of all experts; each row keeps the product of its own."""
    rows, experts = x.shape[0], weights.shape[0]
    number = b.typed(iota(b, (experts,), 0), DType.F32)
    mine = b.binary(BinaryFn.EQ, own, b.reshape(number, (experts, 1)))
    all_of_them = b.matmul(b.reshape(x, (1, *x.shape)), weights)
    kept = b.binary(BinaryFn.KEEP, b.reshape(mine, (experts, rows, 1)), all_of_them)
    return b.reduced(ReduceFn.SUM, kept, (0,), False)


def _by_row(b: Lowering, x: Value, weights: Value, own: Value) -> Value:
    """Multiply each row with the weights of its own expert, which are looked up."""
    some = b.typed(b.combine(BinaryFn.MIN, own, weights.shape[0] - 1), DType.I64)
    return _looked_up_product(b, x, weights, some, own)


def _looked_up_product(b: Lowering, x: Value, weights: Value, some: Value, own: Value) -> Value:
    """Multiply each row with the weights that ``some`` names; a row without an ``own`` expert is
    zero. This choice also separates the rows: weights that are looked up row by row cannot be read
    as one matrix of the columns of all rows."""
    rows, experts = x.shape[0], weights.shape[0]
    product = b.matmul(b.reshape(x, (rows, 1, x.shape[1])), _looked_up(b, weights, some))
    y = b.reshape(product, (rows, weights.shape[2]))
    there = b.combine(BinaryFn.LT, b.reshape(own, (rows, 1)), experts)
    return b.binary(BinaryFn.KEEP, there, y)


def _own_products(b: Lowering, c: Call) -> Value:
    """``op(x, weights, experts)``; all experts are known to have weights
    (:mod:`mirage.frontend.torch_import.capture.sorted_rows`)."""
    x, weights, experts = c.value(0), c.value(1), c.value(2)
    own = b.typed(experts, DType.F32)
    if x.shape[0] >= weights.shape[0]:
        return _own_of_all(b, x, weights, own)
    return _looked_up_product(b, x, weights, experts, own)


def _looked_up(b: Lowering, table: Value, index: Value) -> Value:
    """Return rows of a table. If the table is a view that only reorders dimensions after the first,
    rows of the original are looked up, so nothing is copied."""
    op = next((op for op in reversed(b.ops) if table in op.results), None)
    dims = (op.source_dims() or {}) if isinstance(op, Rearrangement) else {}
    order = tuple(dims.get(d, -1) for d in range(len(table.shape)))
    if op is None or sorted(order) != list(range(len(op.operands[0].shape))) or order[0] != 0:
        return gather(b, table, index)
    return b.permuted(_looked_up(b, op.operands[0], index), order)


GROUPED = ("aten._grouped_mm", "transformers.grouped_mm_fallback")
"""The names of products of groups of rows."""
EXPERTS: dict[str, Row] = {
    **dict.fromkeys(GROUPED, _grouped_product),
    "mirage_import.rows_of_experts": _own_products,
}
"""Torch ops of mixtures of experts: products of groups of rows."""
