"""The inputs of a TorchDynamo graph that have rows in proportion to a size that is known only at
the call.

TorchDynamo says what is dynamic: sizes of a graph's inputs are expressions of symbols. One of these
symbols may be a number of rows: it is a factor of outermost dimensions and occurs nowhere else. The
other symbols are fixed, with one program for each set of their values. TorchDynamo does not always
recognise that two symbols are equal (the batch of ids and of their mask): symbols with the same
value in a call are treated as one, in the program for such calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

MOST = 1 << 20
"""The largest size for which kernels that take the size are compiled."""


@dataclass(frozen=True)
class Rows:
    """The symbol ``name``, from ``least`` to ``most``.

    ``tensors`` maps inputs of the graph to their rows for each unit of the symbol, and ``numbers``
    maps inputs to the factor by which they exceed it. ``varying`` are all inputs whose shape or
    value may differ between calls, and ``beside`` are other symbols that are numbers of rows."""

    name: str
    least: int
    most: int
    tensors: Mapping[int, int]
    numbers: Mapping[int, int]
    varying: tuple[int, ...]
    beside: tuple[Rows, ...] = ()

    @property
    def text(self) -> str:
        """Everything on which an import depends, in one line."""
        rows = sorted(self.tensors.items()), sorted(self.numbers.items())
        return f"rows {self.least} {self.most} {rows}"

    def of(self, inputs: Sequence[Any]) -> Rows:
        """Return the rows, including those of other symbols that have the same value in these
        inputs."""
        size = self.size_of(inputs)
        same = [r for r in self.beside if r.size_of(inputs) == size]
        if not same:
            return self
        every = (self, *same)
        return replace(
            self,
            least=max(r.least for r in every),
            most=min(r.most for r in every),
            tensors={i: n for r in every for i, n in r.tensors.items()},
            numbers={i: n for r in every for i, n in r.numbers.items()},
        )

    def size_of(self, inputs: Sequence[Any]) -> int:
        """Return the size of the inputs."""
        place, each = next(iter(self.tensors.items()))
        return int(inputs[place].shape[0]) // each

    def others(self, inputs: Sequence[Any]) -> object:
        """Return everything that is fixed in a program for these inputs: all that varies except the
        rows."""
        rows = tuple(self.tensors), tuple(self.numbers)
        return rows, tuple(self._fixed(i, inputs[i]) for i in self.varying)

    def _fixed(self, place: int, x: Any) -> object:
        if place in self.tensors:
            return tuple(x.shape[1:]), x.stride()
        if place in self.numbers:
            return None
        return (tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else x


def rows_of(module: torch.fx.GraphModule) -> Rows | None:
    """Return the rows of a graph; None if no symbol is a number of rows."""
    known = _known(module)
    outer, inner = _places(known)
    found = [_rows(known, s) for s, _ in outer.most_common() if s not in inner]
    rows = [r for r in found if r is not None]
    return replace(rows[0], beside=tuple(rows[1:])) if rows else None


def why_no_rows(module: torch.fx.GraphModule) -> str:
    """Say why no symbol is a number of rows."""
    _, inner = _places(_known(module))
    if inner:
        return "a size is dynamic that is not an outermost dimension"
    return "no dynamic size is a number of rows"


def _known(module: torch.fx.GraphModule) -> list[Any]:
    """Return TorchDynamo's symbolic values of the inputs."""
    return [
        node.meta.get("example_value", node.meta.get("val"))
        for node in module.graph.nodes
        if node.op == "placeholder"
    ]


def _places(known: Sequence[Any]) -> tuple[Counter[Any], set[Any]]:
    """Return how often symbols occur in outermost dimensions, and those that occur elsewhere."""
    outer: Counter[Any] = Counter()
    inner: set[Any] = set()
    for x in known:
        if isinstance(x, torch.Tensor):
            first, rest = _sizes(x)
            outer.update(_symbols(first))
            inner.update(s for n in rest for s in _symbols(n))
    return outer, inner


def _sizes(x: torch.Tensor) -> tuple[Any, list[Any]]:
    """Return the outermost dimension, and all factors of the other dimensions and the strides."""
    shape = list(x.shape)
    steps = list(x.stride())
    return (shape[0] if shape else 1), [*shape[1:], *steps, x.storage_offset()]


def _expr(n: Any) -> Any:
    """Return the expression of a size, with known equalities applied; None for a number."""
    return n.node.shape_env.simplify(n.node.expr) if isinstance(n, torch.SymInt) else None


def _symbols(n: Any) -> set[Any]:
    expr = _expr(n)
    return set() if expr is None else set(expr.free_symbols)


def _times(n: Any, symbol: Any) -> int | None:
    """Return the quotient of a size and a symbol; None if it is not an integer."""
    expr = _expr(n)
    factor = None if expr is None else expr / symbol
    return int(factor) if factor is not None and factor.is_Integer else None


def _rows(known: Sequence[Any], symbol: Any) -> Rows | None:
    tensors: dict[int, int] = {}
    numbers: dict[int, int] = {}
    varying: list[int] = []
    env: Any = None
    for place, x in enumerate(known):
        first, rest = _sizes(x) if isinstance(x, torch.Tensor) else (x, [])
        dynamic = [n for n in (*rest, first) if isinstance(n, torch.SymInt)]
        if not dynamic:
            continue
        varying.append(place)
        env = dynamic[0].node.shape_env
        if not any(symbol in _symbols(n) for n in dynamic):
            continue
        each = _times(dynamic[-1], symbol)
        if each is None or each < 1:
            return None
        (tensors if isinstance(x, torch.Tensor) else numbers)[place] = each
    limits = env.var_to_range.get(symbol)
    least, most = 1, MOST
    if limits is not None:
        least = max(int(limits.lower), 1)
        most = min(int(limits.upper), MOST) if bool(limits.upper < MOST) else MOST
    return (
        Rows(str(symbol), least, most, tensors, numbers, tuple(varying)) if least < most else None
    )
