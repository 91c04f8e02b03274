"""A value that a block would compute twice is emitted once."""

from __future__ import annotations

from mirage.search.kernel.emission.computed_once import without_repeats
from mirage.semantics.builder import Builder
from mirage.semantics.ops.block_ops import AccumulateFn
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Accumulator, Axis, Loop, TensorType, Value


def test_a_block_computes_equal_values_once() -> None:
    source = Value(TensorType((64, 8), DType.F32))
    body = Builder(in_block=True)
    tiles = [body.load(source, (("k",), ()), (16, 8)) for _ in range(2)]
    zeros = [body.constant(number) for number in (0.0, 1.0, 0.0)]
    sums = [Accumulator(AccumulateFn.SUM, tile) for tile in tiles]
    maximum = Accumulator(AccumulateFn.MAX, tiles[1])
    results = [Value(TensorType((16, 8), DType.F32)) for _ in range(3)]
    loop = Loop((), tuple(results), Axis("k", 4), tuple(body.ops), (*sums, maximum))
    known: dict[Value, Value] = {}
    (once,) = without_repeats([loop], known)
    assert isinstance(once, Loop)
    assert known == {tiles[1]: tiles[0], zeros[2]: zeros[0], results[1]: results[0]}
    assert [op.results[0] for op in once.body] == [tiles[0], zeros[0], zeros[1]]
    assert [a.fn for a in once.accumulators] == [AccumulateFn.SUM, AccumulateFn.MAX]
    assert all(a.value is tiles[0] for a in once.accumulators)
    assert once.results == (results[0], results[2])
