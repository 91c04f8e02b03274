"""Complex tensors as pairs of real ones.

Rotary embeddings are written as products of complex numbers. Kernels have real numbers, so each
complex tensor of a captured graph becomes a real one with a last dimension of two, as
``view_as_real`` gives it, and the ops on it become ops on that. A complex op that has no rule here
stays unchanged, between conversions of its operands and its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate, map_arg

aten: Any = torch.ops.aten
_OF_TENSORS = {
    aten.pow.Tensor_Scalar: aten.pow.Tensor_Tensor,
    aten.pow.Scalar: aten.pow.Tensor_Tensor,
}
"""Ops that take a complex number, and their variants that take it as a tensor."""
_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


class _NoRule(Exception):
    """A complex op has no rule, and so stays unchanged."""


def complex_as_pairs(graph: Graph) -> None:
    """Rewrite the graph in place."""
    found = [node for node in graph.nodes if _is_complex(node)]
    if not found:
        return
    made = _Pairs(graph)
    for node in list(graph.nodes):
        made.visit(node)
    for node, real in made.replaced.items():
        node.replace_all_uses_with(real)
    for node in reversed(list(graph.nodes)):
        if node in made.gone:
            graph.erase_node(node)


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else node


def _is_complex(node: Any) -> bool:
    value = _value(node)
    return isinstance(value, torch.Tensor) and value.is_complex()


class _Pairs:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.pairs: dict[Node, Node] = {}
        self.replaced: dict[Node, Node] = {}
        """Replacements of ops with complex operands and real results."""
        self.gone: set[Node] = set()
        self.at: Node | None = None
        self.first = next(n for n in graph.nodes if n.op != "placeholder")
        self.mode = detect_fake_mode([_value(n) for n in graph.nodes]) or nullcontext()

    def visit(self, node: Node) -> None:
        inputs = [n for n in node.all_input_nodes if _is_complex(n)]
        if not inputs and not _is_complex(node):
            return
        if node.op == "placeholder":
            self.at = node
            with self.graph.inserting_before(self.first):
                self.pairs[node] = self.call(aten.view_as_real.default, node)
            return
        if node.target is aten._assert_tensor_metadata.default:  # was checked at the capture
            self.gone.add(node)
            return
        self.at = node
        if node.op == "output":
            with self.graph.inserting_before(node):
                node.args = map_arg(node.args, self.whole)
            return
        with self.graph.inserting_before(node):
            try:
                result = self.by_rule(node)
            except _NoRule:
                result = self.stays(node)
        if _is_complex(node):
            self.pairs[node] = result
        else:
            self.replaced[node] = result
        self.gone.add(node)

    def by_rule(self, node: Node) -> Node:
        """Return the replacement for an op: pairs if its result is complex. Raises
        :class:`_NoRule`."""
        rule = _RULES.get(node.target) if node.op == "call_function" else None
        if rule is None or node.kwargs.keys() - {"dtype", "memory_format"}:
            raise _NoRule
        kwargs = {k: v for k, v in node.kwargs.items() if k == "dtype" and v is not None}
        if kwargs and rule is not _converted:
            raise _NoRule
        return rule(self, *node.args, **kwargs)

    def stays(self, node: Node) -> Node:
        """Return the replacement for an op without a rule: the op itself, on complex numbers."""
        copy = self.graph.node_copy(node, self.whole)
        if any(isinstance(x, complex) for x in node.args):
            copy.target = _OF_TENSORS.get(node.target, node.target)
            copy.args = map_aggregate(copy.args, self.tensor)
        return self.call(aten.view_as_real.default, copy) if _is_complex(node) else copy

    def tensor(self, x: Any) -> Any:
        """Convert a complex number to a tensor; return anything else unchanged."""
        return self.call(aten.view_as_complex.default, self.pair(x)) if type(x) is complex else x

    def whole(self, node: Node) -> Node:
        """Convert pairs to a complex tensor; return anything else unchanged."""
        if node not in self.pairs:
            return node
        return self.call(aten.view_as_complex.default, self.pairs[node])

    def call(self, op: Any, *args: Any) -> Node:
        """Insert a new op at the place of the op that is rewritten."""
        assert self.at is not None
        node = self.graph.call_function(op, args)
        values = map_arg(args, _value)
        node.meta = {k: v for k, v in self.at.meta.items() if k not in ("val", "tensor_meta")}
        with self.mode:
            node.meta["val"] = op(*values)
        return node

    def pair(self, z: Any) -> Node:
        if isinstance(z, complex):
            return self.joined(*(self.call(aten.full.default, [], x) for x in (z.real, z.imag)))
        if not isinstance(z, Node) or z not in self.pairs:
            raise _NoRule
        return self.pairs[z]

    def parts(self, z: Any) -> tuple[Node, Node]:
        pair = self.pair(z)
        return self.call(aten.select.int, pair, -1, 0), self.call(aten.select.int, pair, -1, 1)

    def joined(self, re: Node, im: Node) -> Node:
        a, b = torch.broadcast_shapes(_value(re).shape, _value(im).shape), []
        for part in (re, im):
            wide = part if _value(part).shape == a else self.call(aten.expand.default, part, [*a])
            b.append(wide)
        return self.call(aten.stack.default, b, -1)


def _rank(z: Node) -> int:
    return _value(z).dim()


def _dim(z: Node, dim: int) -> int:
    """Convert a dimension of a complex tensor to a dimension of its pairs."""
    return dim % max(_rank(z), 1)


def _polar(p: _Pairs, size: Node, angle: Node) -> Node:
    re = p.call(aten.mul.Tensor, size, p.call(aten.cos.default, angle))
    return p.joined(re, p.call(aten.mul.Tensor, size, p.call(aten.sin.default, angle)))


def _product(p: _Pairs, a: Any, b: Any) -> Node:
    if not _is_complex(a):
        a, b = b, a
    if not isinstance(b, Node | complex):
        return p.call(aten.mul.Tensor, p.pair(a), b)
    if isinstance(b, Node) and not _is_complex(b):
        return p.call(aten.mul.Tensor, p.pair(a), p.call(aten.unsqueeze.default, b, -1))
    (ar, ai), (br, bi) = p.parts(a), p.parts(b)

    def times(x: Node, y: Node) -> Node:
        return p.call(aten.mul.Tensor, x, y)

    re = p.call(aten.sub.Tensor, times(ar, br), times(ai, bi))
    return p.joined(re, p.call(aten.add.Tensor, times(ar, bi), times(ai, br)))


def _quotient(p: _Pairs, a: Any, b: Any) -> Node:
    """Return ``a / b`` as ``a conj(b) / |b|^2``."""
    if isinstance(b, complex):
        return _product(p, a, 1 / b)
    if not isinstance(b, Node) or not _is_complex(b):
        real = p.call(aten.unsqueeze.default, b, -1) if isinstance(b, Node) else b
        return p.call(aten.div.Tensor, p.pair(a), real)
    if not isinstance(a, Node) or not _is_complex(a):
        raise _NoRule
    (ar, ai), (br, bi) = p.parts(a), p.parts(b)

    def times(x: Node, y: Node) -> Node:
        return p.call(aten.mul.Tensor, x, y)

    def total(x: Node, y: Node) -> Node:
        return p.call(aten.add.Tensor, x, y)

    size = total(times(br, br), times(bi, bi))
    re = total(times(ar, br), times(ai, bi))
    im = p.call(aten.sub.Tensor, times(ai, br), times(ar, bi))
    return p.joined(*(p.call(aten.div.Tensor, part, size) for part in (re, im)))


def _sum_over(p: _Pairs, z: Node, dims: Any = None, keep: bool = False) -> Node:
    if not _rank(z):
        return p.pair(z)
    given = range(_rank(z)) if not dims else [_dim(z, d) for d in dims]
    return p.call(aten.sum.dim_IntList, p.pair(z), list(given), keep)


def _mean_over(p: _Pairs, z: Node, dims: Any = None, keep: bool = False) -> Node:
    total = _sum_over(p, z, dims, keep)
    count = _value(z).numel() / max(_value(total).numel() / 2, 1)
    return p.call(aten.div.Tensor, total, count)


def _sum(op: Any) -> Callable[..., Node]:
    """Return a rule for a sum or difference one of whose operands may be real."""

    def rule(p: _Pairs, a: Any, b: Any) -> Node:
        return p.call(op, *(_with_no_imaginary_part(p, x) for x in (a, b)))

    return rule


def _with_no_imaginary_part(p: _Pairs, x: Any) -> Node:
    """Return the pairs of a complex tensor, of a real one, or of a number."""
    if isinstance(x, complex) or _is_complex(x):
        return p.pair(x)
    if isinstance(x, Node):
        return p.joined(x, p.call(aten.zeros_like.default, x))
    return p.pair(complex(x))


def _from(p: _Pairs, a: Any, b: Any) -> Node:
    return _sum(aten.sub.Tensor)(p, b, a)


def _exponential(p: _Pairs, z: Node) -> Node:
    re, im = p.parts(z)
    return _polar(p, p.call(aten.exp.default, re), im)


def _matrix_product(op: Any) -> Callable[..., Node]:
    def rule(p: _Pairs, a: Node, b: Node) -> Node:
        (ar, ai), (br, bi) = p.parts(a), p.parts(b)
        re = p.call(aten.sub.Tensor, p.call(op, ar, br), p.call(op, ai, bi))
        return p.joined(re, p.call(aten.add.Tensor, p.call(op, ar, bi), p.call(op, ai, br)))

    return rule


def _choice(p: _Pairs, where: Node, a: Any, b: Any) -> Node:
    of_pairs = p.call(aten.unsqueeze.default, where, -1)
    return p.call(aten.where.self, of_pairs, *(_with_no_imaginary_part(p, x) for x in (a, b)))


def _conjugate(p: _Pairs, z: Node) -> Node:
    re, im = p.parts(z)
    return p.joined(re, p.call(aten.neg.default, im))


def _converted(p: _Pairs, z: Node, dtype: Any = None) -> Node:
    pair = _with_no_imaginary_part(p, z)
    if dtype is not None and _REAL.get(dtype) is not _value(pair).dtype:
        raise _NoRule
    return pair


def _same(op: Any) -> Callable[..., Node]:
    return lambda p, z, *rest: p.call(op, p.pair(z), *rest)


def _sized(op: Any) -> Callable[..., Node]:
    return lambda p, z, sizes: p.call(op, p.pair(z), [*sizes, 2])


def _at_dims(op: Any, count: int) -> Callable[..., Node]:
    """Return a rule for an op whose first ``count`` arguments after the tensor are dimensions of
    it."""

    def rule(p: _Pairs, z: Node, *args: Any) -> Node:
        dims = (_dim(z, d) for d in args[:count])
        return p.call(op, p.pair(z), *dims, *args[count:])

    return rule


def _unsqueeze(p: _Pairs, z: Node, dim: int) -> Node:
    return p.call(aten.unsqueeze.default, p.pair(z), dim % (_rank(z) + 1))


def _permute(p: _Pairs, z: Node, dims: Sequence[int]) -> Node:
    order = [_dim(z, d) for d in dims]
    return p.call(aten.permute.default, p.pair(z), [*order, _rank(z)])


def _cat(p: _Pairs, zs: Sequence[Node], dim: int = 0) -> Node:
    return p.call(aten.cat.default, [p.pair(z) for z in zs], _dim(zs[0], dim))


Rule: TypeAlias = Callable[..., Node]

_RULES: dict[Any, Rule] = {
    aten.view_as_complex.default: lambda p, x: x,
    aten.view_as_real.default: lambda p, z: p.pair(z),
    aten.complex.default: lambda p, re, im: p.joined(re, im),
    aten.polar.default: _polar,
    aten.real.default: lambda p, z: p.parts(z)[0],
    aten.imag.default: lambda p, z: p.parts(z)[1],
    aten.abs.default: lambda p, z: p.call(aten.hypot.default, *p.parts(z)),
    aten.angle.default: lambda p, z: p.call(aten.atan2.default, *reversed(p.parts(z))),
    aten.sum.default: _sum_over,
    aten.sum.dim_IntList: _sum_over,
    aten.div.Tensor: _quotient,
    aten.div.Scalar: _quotient,
    aten.mul.Tensor: _product,
    aten.mul.Scalar: _product,
    aten.mean.default: _mean_over,
    aten.mean.dim: _mean_over,
    aten.add.Tensor: _sum(aten.add.Tensor),
    aten.add.Scalar: _sum(aten.add.Tensor),
    aten.sub.Tensor: _sum(aten.sub.Tensor),
    aten.sub.Scalar: _sum(aten.sub.Tensor),
    aten.rsub.Scalar: _from,
    aten.exp.default: _exponential,
    aten.mm.default: _matrix_product(aten.mm.default),
    aten.bmm.default: _matrix_product(aten.bmm.default),
    aten.matmul.default: _matrix_product(aten.matmul.default),
    aten.where.self: _choice,
    aten.index.Tensor: lambda p, z, indices: p.call(aten.index.Tensor, p.pair(z), indices),
    aten.t.default: lambda p, z: p.call(aten.transpose.int, p.pair(z), 0, max(_rank(z) - 1, 0)),
    aten.neg.default: _same(aten.neg.default),
    aten._conj.default: _conjugate,
    aten.conj_physical.default: _conjugate,
    aten.resolve_conj.default: lambda p, z: p.pair(z),
    aten._to_copy.default: _converted,
    aten.clone.default: _same(aten.clone.default),
    aten.alias.default: _same(aten.alias.default),
    aten.view.default: _sized(aten.reshape.default),  # pairs may have other strides
    aten.reshape.default: _sized(aten.reshape.default),
    aten._unsafe_view.default: _sized(aten.reshape.default),
    aten.expand.default: _sized(aten.expand.default),
    aten.unsqueeze.default: _unsqueeze,
    aten.squeeze.dim: _at_dims(aten.squeeze.dim, 1),
    aten.select.int: _at_dims(aten.select.int, 1),
    aten.slice.Tensor: _at_dims(aten.slice.Tensor, 1),
    aten.transpose.int: _at_dims(aten.transpose.int, 2),
    aten.index_select.default: _at_dims(aten.index_select.default, 1),
    aten.permute.default: _permute,
    aten.cat.default: _cat,
}
