"""Structural equality of µGraphs, for tests."""

from __future__ import annotations

from dataclasses import fields

from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import (
    Accumulator,
    BlockGraph,
    KernelGraph,
    Loop,
    Op,
    Output,
    Value,
)


def assert_same(a: KernelGraph, b: KernelGraph) -> None:
    """Fail unless both are the same except for the identity of values and ops."""
    assert a.name == b.name
    _Comparison().graph(a, b)


class _Comparison:
    def __init__(self) -> None:
        self.same: dict[Value, Value] = {}

    def graph(self, a: KernelGraph, b: KernelGraph) -> None:
        self.define(a.inputs, b.inputs)
        self.ops(a.ops, b.ops)
        self.use(a.outputs, b.outputs)

    def define(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> None:
        assert [(v.type, v.name) for v in a] == [(v.type, v.name) for v in b]
        self.same.update(zip(a, b, strict=True))

    def use(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> None:
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert self.same[x] is y

    def ops(self, a: tuple[Op, ...], b: tuple[Op, ...]) -> None:
        assert [type(op) for op in a] == [type(op) for op in b]
        for x, y in zip(a, b, strict=True):
            self.use(x.operands, y.operands)
            for field in fields(x):
                if field.name not in ("operands", "results"):
                    self.field(getattr(x, field.name), getattr(y, field.name))
            if isinstance(x, Loop) and isinstance(y, Loop):
                self.ops(x.body, y.body)
                self.accumulators(x.accumulators, y.accumulators)
            if isinstance(x, Alternatives) and isinstance(y, Alternatives):
                for p, q in zip(x.programs, y.programs, strict=True):
                    _Comparison().graph(p, q)
            self.define(x.results, y.results)

    def field(self, a: object, b: object) -> None:
        if isinstance(a, BlockGraph) and isinstance(b, BlockGraph):
            inner = _Comparison()
            inner.define(
                tuple(Value(v.type) for v in a.params), tuple(Value(v.type) for v in b.params)
            )
            inner.same.update(zip(a.params, b.params, strict=True))
            inner.ops(a.ops, b.ops)
            inner.outputs(a.outputs, b.outputs)
        elif isinstance(a, tuple) and a and isinstance(a[0], (Op, Accumulator, KernelGraph)):
            return  # compared with their own rules
        else:
            assert repr(a) == repr(b)  # NaN and -0.0 count

    def outputs(self, a: tuple[Output, ...], b: tuple[Output, ...]) -> None:
        assert [o.map for o in a] == [o.map for o in b]
        self.use(tuple(o.value for o in a), tuple(o.value for o in b))

    def accumulators(self, a: tuple[Accumulator, ...], b: tuple[Accumulator, ...]) -> None:
        assert [(x.fn, x.rescale is None) for x in a] == [(x.fn, x.rescale is None) for x in b]
        self.use(tuple(x.value for x in a), tuple(x.value for x in b))
        self.use(tuple(x.rescale for x in a if x.rescale), tuple(x.rescale for x in b if x.rescale))
