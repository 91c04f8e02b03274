"""Programs whose outermost dimension is a size that is known at the call only.

``torch.export`` shows that one straight program serves all sizes of the range (what it guards
against is an error there). It is imported at one size at a time; that the graphs are the same but
for their rows is checked for each size that is asked for, and that a size enters no computation.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from mirage.errors import SourceLocation
from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program, SizedProgram
from mirage.frontend.torch_import.capture import export_program
from mirage.semantics.ugraph import KernelGraph, Op, Value

_SHAPES = frozenset({"size", "sizes", "shape"})
"""Arguments of PyTorch's ops that say which shape a result has, and nothing else."""
_NO_LIMIT = 1 << 31
"""Kernels take sizes as integers below it."""


def dynamic_program(
    module: object,
    example_inputs: Sequence[object],
    dynamic_shapes: object,
    at: Callable[[Sequence[object]], Program],
) -> SizedProgram:
    """The program for all of its sizes; ``at`` imports it for example inputs.

    Raises :class:`DynamicShapeError` and what :func:`export_program` raises.
    """
    shapes = _by_position(module, example_inputs, dynamic_shapes)
    exported = export_program(module, example_inputs, dynamic=shapes)
    name, symbol = _symbol(exported, shapes)
    _check_uses(exported)
    least, most = _range(exported, symbol, name)
    rows = [i for i, shape in enumerate(shapes) if _declared(shape)]

    @cache
    def imported(size: int) -> Program:
        return at([_with_rows(x, size) if i in rows else x for i, x in enumerate(example_inputs)])

    largest = imported(most)
    numbers = _inputs_with_rows(largest.graph, imported(most - 1).graph)

    def checked(size: int) -> Program:
        found = imported(size)
        why = _why_different(largest.graph, most, found.graph, size)
        if why is not None:
            raise DynamicShapeError(
                f"expected one program for {name} from {least} to {most}, but at {size} {why}; "
                "write it so that it does not depend on the size",
                user_location(),
            )
        return found

    return SizedProgram(name, least, most, numbers, checked)


def _with_rows(x: object, size: int) -> object:
    return x.new_zeros((size, *x.shape[1:])) if isinstance(x, torch.Tensor) else x


def _by_position(
    module: object, example_inputs: Sequence[object], dynamic_shapes: object
) -> list[Any]:
    """The dynamic dimensions of each example input."""
    count = len(example_inputs)
    if isinstance(dynamic_shapes, Mapping):
        named: Mapping[Any, Any] = dynamic_shapes
        function: Any = module.forward if isinstance(module, torch.nn.Module) else module
        parameters = list(inspect.signature(function).parameters)
        unknown = [key for key in named if key not in parameters[:count]]
        if unknown:
            raise DynamicShapeError(
                f"dynamic_shapes: expected names among {', '.join(parameters[:count])}, got "
                f"{unknown[0]!r}",
                user_location(),
            )
        return [named.get(parameter) for parameter in parameters[:count]]
    if isinstance(dynamic_shapes, list | tuple) and len(dynamic_shapes) == count:
        return list(dynamic_shapes)
    raise DynamicShapeError(
        f"dynamic_shapes: expected a dict by names of inputs, or one entry for each of {count}, "
        f"got {dynamic_shapes!r:.80}",
        user_location(),
    )


def _declared(shape: Any) -> dict[int, Any]:
    """The dynamic dimensions of an input, and what was said of each."""
    if shape is None:
        return {}
    items = shape.items() if isinstance(shape, Mapping) else enumerate(shape)
    return {dim: said for dim, said in items if said is not None and not isinstance(said, int)}


def _symbol(exported: torch.export.ExportedProgram, shapes: Sequence[Any]) -> tuple[str, Any]:
    """The name of the size, and PyTorch's symbol for it."""
    inner = [(i, dim) for i, shape in enumerate(shapes) for dim in _declared(shape) if dim != 0]
    if inner:
        i, dim = inner[0]
        raise DynamicShapeError(
            f"expected outermost dimensions to be dynamic only, got dimension {dim} of input {i}; "
            "move it outermost, or leave it fixed",
            user_location(),
        )
    names = {
        getattr(said, "__name__", "the size")
        for shape in shapes
        for said in _declared(shape).values()
    }
    found: dict[str, Any] = {}
    for node in exported.graph.nodes:
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
            for size in node.meta["val"].shape:
                if isinstance(size, torch.SymInt):
                    found[str(size)] = size.node.expr
    if len(found) != 1 or not next(iter(found.values())).is_Symbol:
        raise DynamicShapeError(
            f"expected one dynamic size, which is a dimension of each input that has it, got "
            f"{', '.join(found) or 'none'}; give these dimensions one torch.export.Dim",
            user_location(),
        )
    return " and ".join(sorted(names)), next(iter(found.values()))


def _range(exported: torch.export.ExportedProgram, symbol: Any, name: str) -> tuple[int, int]:
    known = exported.range_constraints[symbol]
    least, most = max(int(known.lower), 1), _NO_LIMIT
    if bool(known.upper < _NO_LIMIT):  # there is an infinite one that is no number
        most = int(known.upper)
    if not least < most < _NO_LIMIT:
        raise DynamicShapeError(
            f"expected a range of sizes for {name}, got {known}; give the dimension a largest "
            f"size: torch.export.Dim({name!r}, min=1, max=256)",
            user_location(),
        )
    return least, most


def _check_uses(exported: torch.export.ExportedProgram) -> None:
    """Raises :class:`DynamicShapeError` where a size is used for more than the shapes of results:
    it would be a constant in the graph of one size."""
    for node in exported.graph.nodes:
        if node.op != "call_function" or isinstance(
            node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat
        ):
            continue  # arithmetic of sizes: what it is used for counts
        if any(map(_is_size, _flat(_others(node)))):
            raise DynamicShapeError(
                f"expected the size to say which shapes results have only, but {node.target} "
                "computes with it",
                _location(node),
            )


def _others(node: Node) -> list[object]:
    """The arguments of a call that are not a shape."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return [*node.args, *node.kwargs.values()]
    names = [a.name for a in schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    return [value for name, value in given.items() if name not in _SHAPES]


def _flat(values: object) -> Iterator[object]:
    if isinstance(values, list | tuple):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _is_size(value: object) -> bool:
    found = value.meta.get("val") if isinstance(value, Node) else value
    return isinstance(found, torch.SymInt | torch.SymFloat | torch.SymBool)


def _location(node: Node) -> SourceLocation | None:
    """Where a call stands in the user's program."""
    places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return SourceLocation(places[-1][0], int(places[-1][1])) if places else user_location()


# ---- the same graph at two sizes -----------------------------------------------------------------


def _inputs_with_rows(first: KernelGraph, second: KernelGraph) -> tuple[int, ...]:
    pairs = zip(first.inputs, second.inputs, strict=True)
    return tuple(i for i, (a, b) in enumerate(pairs) if a.shape != b.shape)


def _why_different(first: KernelGraph, n: int, second: KernelGraph, m: int) -> str | None:
    """How a graph at size ``m`` differs from one at size ``n`` other than by its rows."""
    if len(first.ops) != len(second.ops) or len(first.inputs) != len(second.inputs):
        return "it has other ops"
    known: dict[Value, Value] = dict(zip(first.inputs, second.inputs, strict=True))
    for a, b in zip(first.ops, second.ops, strict=True):
        operands = [known.get(v) for v in a.operands]
        if type(a) is not type(b) or operands != list(b.operands):
            return f"there is another op than {type(a).__name__.lower()}"
        if not _alike(_about(a), _about(b), n, m) or len(a.results) != len(b.results):
            return f"there is another {type(a).__name__.lower()}"
        known.update(zip(a.results, b.results, strict=True))
    for a, b in known.items():
        if a.dtype is not b.dtype or not _alike(a.shape, b.shape, n, m):
            return f"a tensor of {a.type} is one of {b.type}"
    if [known.get(v) for v in first.outputs] != list(second.outputs):
        return "it has other results"
    return None


def _about(op: Op) -> list[object]:
    """What an op says beside its operands and results."""
    return [getattr(op, f.name) for f in fields(op) if f.name not in ("operands", "results")]


def _alike(a: object, b: object, n: int, m: int) -> bool:
    """Whether two descriptions are the same, but for what has as many rows for each unit of the
    size: the first number of a shape."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_alike(x, y, n, m) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) and isinstance(b, tuple):
        x: tuple[Any, ...] = a
        y: tuple[Any, ...] = b
        if x and y and type(x[0]) is type(y[0]) is int and x[1:] == y[1:]:
            return x[0] == y[0] or (x[0] % n == 0 and x[0] // n * m == y[0])
    return a == b
