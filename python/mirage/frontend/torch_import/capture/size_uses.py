"""The uses of a size that is known only at the call.

A program may use it for the shapes of tensors, in proportion, and for the number of positions. Any
other use would make it a constant in the graph of one size. So would a computation at import from
tensors that have that size, unless it is elementwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from mirage.errors import SourceLocation
from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.location import user_location

_SHAPES = frozenset({"size", "sizes", "shape"})
"""The arguments of PyTorch's ops that give the shape of a result, and nothing else."""
_POSITIONS = "aten.arange"
_COPIES = frozenset(
    {"clone", "_to_copy", "to", "lift_fresh_copy", "detach", "contiguous", "alias", "expand",
     "expand_as", "broadcast_to", "unsqueeze", "view", "_unsafe_view", "reshape"}
)  # fmt: skip
"""The ops that keep elements and their order, or repeat them."""


def check_uses(exported: torch.export.ExportedProgram, symbol: Any) -> None:
    """Raise :class:`DynamicShapeError` if the size ``symbol`` is used for anything else."""
    fixed = _fixed_inputs(exported)
    made: dict[Node, bool] = {}  # not of an input: whether its dimension is the size
    for node in exported.graph.nodes:
        found = node.meta.get("val")
        if node.op == "placeholder" and node.name in fixed:
            made[node] = False
        for x in _flat(found):
            _check_shape(node, x, symbol)
        if node.op != "call_function" or _is_size(found):
            continue  # arithmetic of sizes: the uses of its result count
        if any(map(_is_size, _flat(_others(node)))):
            raise _computes(node)
        tensors = [n for n in node.all_input_nodes if not _is_size(n)]
        if all(n in made for n in tensors):
            sized = any(map(_is_size, node.all_input_nodes)) or any(made[n] for n in tensors)
            if sized and tensors and not _each_element(node):
                raise _computes(node)
            made[node] = sized


def _fixed_inputs(exported: torch.export.ExportedProgram) -> set[str]:
    """Return the tensors that hold the same values in every call."""
    specs = exported.graph_signature.input_specs
    kinds = (InputKind.CONSTANT_TENSOR, InputKind.BUFFER)
    return {s.arg.name for s in specs if s.kind in kinds}


def _check_shape(node: Node, x: object, symbol: Any) -> None:
    """Check that all sizes of a shape are in proportion to the symbol."""
    for n in getattr(x, "shape", ()):
        if isinstance(n, torch.SymInt) and not (n.node.expr / symbol).is_number:
            raise DynamicShapeError(
                f"expected shapes in proportion to the size {symbol}, but {node.target} has a "
                f"dimension of {n.node.expr}",
                location_of(node),
            )


def _computes(node: Node) -> DynamicShapeError:
    return DynamicShapeError(
        f"expected the size to say which shapes results have only, but {node.target} computes "
        "with it",
        location_of(node),
    )


def _each_element(node: Node) -> bool:
    """Return whether the first rows of an op's result depend only on the first rows of its
    operands."""
    target: Any = node.target
    if torch.Tag.pointwise in getattr(target, "tags", ()):
        return True
    if not isinstance(node.meta["val"], torch.Tensor):
        return False
    if any(_is_size(n) for n in node.meta["val"].shape[1:]):
        return False
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.name.partition("::")[2] in _COPIES


def _others(node: Node) -> list[object]:
    """Return the arguments of a call that are neither a shape nor a number of positions."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return [*node.args, *node.kwargs.values()]
    names = [a.name for a in schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    shapes = _SHAPES | {"end"} if str(node.target).startswith(_POSITIONS) else _SHAPES
    return [value for name, value in given.items() if name not in shapes]


def _flat(values: object) -> Iterator[object]:
    if isinstance(values, list | tuple):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _is_size(value: object) -> bool:
    found = value.meta.get("val") if isinstance(value, Node) else value
    return isinstance(found, torch.SymInt | torch.SymFloat | torch.SymBool)


def location_of(node: Node) -> SourceLocation | None:
    """Return the place of a call in the user's program."""
    places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return SourceLocation(places[-1][0], int(places[-1][1])) if places else user_location()
