"""The places of tiles that ops make from others, according to the ops' own statements."""

from __future__ import annotations

from collections.abc import Callable

from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import CumulateFn, DType, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, Launch, Op, Output, TensorType, Value
from mirage.verify.evidence.proofs.tile_places import WHOLE, Cut, Label, Places
from new_ops import Clamp, Flip, Twice

ROWS, TILE, COLUMNS = 17, 16, 4
OF_ROWS = Cut(("m",), ROWS)


def label_of(make: Callable[[Builder, Value], Value]) -> Label | None:
    """Return the place of the result of ``make`` for a tile of 16 of 17 rows."""
    x = graphs.tensor(ROWS, COLUMNS, dtype=DType.F32)
    (param,) = graphs.params_of((x,))
    b = Builder(in_block=True)
    y = make(b, b.load(param, (("m",), ()), (TILE, COLUMNS)))
    body = BlockGraph((param,), tuple(b.ops), (Output(y, ((),) * len(y.shape)),))
    return Places(Launch((x,), (Value(y.type),), (Axis("m", 2),), body)).labels[y]


def of(b: Builder, op: type[Op], x: Value, *arguments: float) -> Value:
    """The result of an op without a builder method."""
    shape = (2, *x.shape) if op is Twice else x.shape
    result = Value(TensorType(shape, x.dtype))
    b.ops.append(op((x,), (result,), *arguments))
    return result


def test_elementwise_ops_leave_tiles_where_they_are() -> None:
    assert label_of(lambda b, x: b.unary(UnaryFn.EXP, x)) == (OF_ROWS, WHOLE)
    assert label_of(lambda b, x: of(b, Clamp, x, -1.0, 1.0)) == (OF_ROWS, WHOLE)


def test_views_say_where_dimensions_come_from() -> None:
    assert label_of(lambda b, x: b.transpose(x, (1, 0))) == (WHOLE, OF_ROWS)
    assert label_of(lambda b, x: b.reshape(x, (TILE, 2, 2))) == (OF_ROWS, WHOLE, WHOLE)
    assert label_of(lambda b, x: b.reshape(x, (1, TILE, COLUMNS))) == (WHOLE, OF_ROWS, WHOLE)
    assert label_of(lambda b, x: b.broadcast(x, (3, TILE, COLUMNS))) == (WHOLE, OF_ROWS, WHOLE)
    assert label_of(lambda b, x: of(b, Twice, x)) == (WHOLE, OF_ROWS, WHOLE)
    assert label_of(lambda b, x: b.slice(x, (0, 1), (TILE, 2))) == (OF_ROWS, WHOLE)
    assert label_of(lambda b, x: of(b, Flip, x)) == (OF_ROWS, WHOLE)


def test_a_dimension_that_is_cut_and_moved_within_is_nowhere() -> None:
    """Row ``i`` of the result is another row of the tile: the last tile's rows past the end are
    among those of the tensor."""
    assert label_of(lambda b, x: of(b, Flip, b.transpose(x, (1, 0)))) is None
    assert label_of(lambda b, x: b.slice(x, (1, 0), (8, COLUMNS))) is None


def test_tiles_side_by_side_are_cut_as_each_is() -> None:
    assert label_of(lambda b, x: b.concat((x, x), 1)) == (OF_ROWS, WHOLE)
    assert label_of(lambda b, x: b.concat((x, x), 0)) is None


def test_what_is_so_far_needs_the_dimension_as_a_whole() -> None:
    assert label_of(lambda b, x: b.cumulate(CumulateFn.SUM, x, 1)) == (OF_ROWS, WHOLE)
    assert label_of(lambda b, x: b.cumulate(CumulateFn.SUM, x, 0)) is None
