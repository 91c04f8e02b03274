"""Ops have kinds, which analyses query: an op of a known kind needs no code in them, and an op
without a rule in an analysis is an error in tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from mirage.cost.features import features_of
from mirage.cost.registers import registers_of
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.search.kernel.problems.growth import growth_of
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.bounds.integer_ranges import ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ops.op import no_rule
from mirage.semantics.region import demand
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    Boundary,
    Cast,
    Composite,
    Contraction,
    Cumulation,
    Elementwise,
    KernelGraph,
    Launch,
    Movement,
    Op,
    Output,
    Rearrangement,
    Reduce,
    Scan,
    Source,
    Structure,
    TensorType,
    UnknownOp,
    Value,
    View,
)
from mirage.transforms.online_max.padding import Padding
from mirage.transforms.partition.calls import as_calls, calls_of
from mirage.transforms.shifts.expressions import Expressions
from mirage.verify import VerifyOptions, verify
from mirage.verify.compression.index_relations import Slots
from mirage.verify.compression.merged_dimensions import merged
from mirage.verify.compression.split_dimensions import split
from mirage.verify.evidence.proofs.tile_places import Places
from new_ops import Clamp, Flip

KINDS = (
    Source,
    Elementwise,
    Movement,
    Contraction,
    Cumulation,
    Scan,
    Structure,
    Boundary,
    Composite,
)
ABSTRACT = {*KINDS, View, Rearrangement, Lookup}


def subclasses(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


@dataclass(frozen=True, eq=False)
class Unheard(Op):
    """An op without a kind."""


def value(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def launched(make: type[Op], *arguments: float) -> Launch:
    """A kernel that applies an op to 100 elements in tiles of 32: the last tile has padding."""
    x, y = value(4, 100), value(4, 100)
    b = Builder(in_block=True)
    param = Value(x.type)
    tile = b.load(param, ((), ("i",)), (4, 32))
    result = value(4, 32)
    op = make((tile,), (result,), *arguments)
    body = BlockGraph((param,), (*b.ops, op), (Output(result, ((), ("i",))),))
    return Launch((x,), (y,), (Axis("i", 4),), body)


def work(launch: Launch) -> float:
    """Return the work of the op beyond that of a cast, which has none."""
    return float(features_of(launch).alu_once - features_of(launched(Cast)).alu_once)


def test_every_op_is_of_one_kind() -> None:
    ours = [c for c in subclasses(Op) if c.__module__.startswith("mirage.") and c not in ABSTRACT]
    assert len(ours) > 15
    for each in ours:
        kinds = [k.__name__ for k in KINDS if issubclass(each, k)]
        assert len(kinds) == 1 or each is Alternatives, (each, kinds)


def test_an_op_that_does_not_say_what_its_kind_asks_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="expected Silent to define work, zeros"):

        class Silent(Elementwise):  # pyright: ignore[reportUnusedClass]
            pass


def test_a_new_elementwise_op_needs_no_line_in_the_analyses() -> None:
    x, y = value(3, 5), value(3, 5)
    graph = KernelGraph("g", (x,), (Clamp((x,), (y,), -0.5, 0.5),), (y,))
    data = np.linspace(-1, 1, 15).reshape(3, 5)
    (result,) = evaluate_floats(graph, [data])
    np.testing.assert_allclose(result, np.clip(data, -0.5, 0.5))
    rows: Region = (np.array([1]), None)
    wanted = demand(graph, [rows]).regions[x]
    assert wanted[1] is None
    assert list(wanted[0]) == [1]  # pyright: ignore[reportArgumentType]

    launch = launched(Clamp, -0.5, 0.5)
    assert work(launch) == 2.0 * 4 * 32
    assert registers_of(launch).wanted > 0
    assert shared_bytes(launch).total == 0
    (output,) = launch.body.outputs
    padding = Padding(launch)
    assert padding.of(output.value)[1]
    assert padding.zeros[output.value] == padding.of(output.value)
    shifted = launched(Clamp, 0.25, 0.5)
    assert not Padding(shifted).zeros[shifted.body.outputs[0].value][1]


def test_a_new_view_needs_no_line_in_the_analyses() -> None:
    x, y = value(3, 5), value(3, 5)
    graph = KernelGraph("g", (x,), (Flip((x,), (y,)),), (y,))
    data = np.arange(15.0).reshape(3, 5)
    (result,) = evaluate_floats(graph, [data])
    np.testing.assert_array_equal(result, data[:, ::-1])
    # it does not say which part it needs: all of its operand is safe
    assert demand(graph, [(np.array([1]), None)]).regions[x] == (None, None)

    launch = launched(Flip)
    assert work(launch) == 0.0
    (output,) = launch.body.outputs
    assert not Padding(launch).of(output.value)[1]  # padding is not where it was


@pytest.mark.parametrize("make", [Flip, Unheard])
def test_the_verifier_accepts_nothing_that_it_has_no_rule_for(make: type[Op]) -> None:
    """A flip relates an index to another one: analyses that take it for an ordinary view would say
    that one column stands for all."""
    x, y, z = value(4, 64), value(4, 64), value(4, 1)
    ops = (make((x,), (y,)), Reduce((y,), (z,), ReduceFn.SUM, (1,)))
    b = Builder()
    plain = KernelGraph("g", (x,), (), (b.reduce(ReduceFn.SUM, x, (1,)),))
    plain = KernelGraph("g", (x,), tuple(b.ops), plain.outputs)
    changed = KernelGraph("g", (x,), ops, (z,))
    for pair in ((plain, changed), (changed, plain)):
        with pytest.raises((UnknownOp, InvalidGraph), match=r"no rule for|a known op"):
            verify(*pair, VerifyOptions(seed=1))
    # nothing after that check relies on it, either
    with pytest.raises(UnknownOp, match="indices"):
        Slots().add(changed)
    with pytest.raises(UnknownOp, match="dimensions"):
        merged((changed, plain))


def test_an_op_without_a_rule_is_an_error_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = launched(Unheard)
    for analysis in (features_of, Padding):
        with pytest.raises(UnknownOp, match="no rule for Unheard"):
            analysis(launch)
    x, y = value(2), value(2)
    graph = KernelGraph("g", (x,), (Unheard((x,), (y,)),), (y,))
    for of_graph in (growth_of, ranges_of, as_calls, lambda g: split((g,))):
        with pytest.raises(UnknownOp, match="no rule for Unheard"):
            of_graph(graph)
    tile = launch.body.ops[-1]
    with pytest.raises(UnknownOp, match="no rule for Unheard"):
        Places(launch)
    expressions = Expressions({}, {p: p for p in launch.body.params}, {"i": 4})
    expressions.add(launch.body.ops[0])
    with pytest.raises(UnknownOp, match="no rule for Unheard"):
        expressions.add(tile)
    with pytest.raises(UnknownOp, match="got Unheard"):
        evaluate_floats(graph, [np.zeros(2)])
    # elsewhere it is a warning, and the safe default
    monkeypatch.delenv("MIRAGE_STRICT")
    assert work(launch) == 0.0
    assert as_calls(graph).ops == graph.ops
    assert split((graph,)) is None
    assert Places(launch).labels[tile.result] is None
    with pytest.raises(UnknownOp, match="calls of PyTorch"):
        calls_of(graph.ops[0])
    no_rule(launch.body.ops[-1], "nothing")
