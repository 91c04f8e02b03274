"""Programs whose outermost dimension is a size that is known only at the call.

``torch.export`` shows that one straight-line program serves all sizes of the range (a guard is an
error there). The program is imported at one size at a time. For each requested size it is checked
that the graphs are equal except for their rows, and that the size enters no computation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from typing import Any

import torch
from torch.utils import _pytree as pytree

from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.location import user_location
from mirage.frontend.program import IndexLimit, Program, SizedProgram
from mirage.frontend.torch_import.capture.exporting import export_program
from mirage.frontend.torch_import.capture.size_uses import check_uses
from mirage.semantics.two_sizes import why_different, with_rows
from mirage.semantics.ugraph import Broadcast, Op, TensorType, Value

_NO_LIMIT = 1 << 31
"""The limit below which kernels take sizes as integers."""


def dynamic_program(
    module: object,
    example_inputs: Sequence[object],
    dynamic_shapes: object,
    at: Callable[[Sequence[object], int], Program],
    reference: int | None = None,
    named: Mapping[str, object] | None = None,
) -> SizedProgram:
    """Return the program for all of its sizes; ``at`` imports it for example inputs of a size
    (those that are ``named`` come last). Programs at other sizes are compared with the one at
    ``reference``, by default the largest size.

    Raises :class:`DynamicShapeError` and the errors of :func:`export_program`.
    """
    keys = list(named or {})
    shapes = _by_position(module, len(example_inputs), keys, dynamic_shapes)
    _check_outermost(shapes)
    exported = export_program(module, example_inputs, named, dynamic=shapes)
    example_inputs = [*example_inputs, *(named or {}).values()]
    name, symbol = _symbol(exported, shapes)
    check_uses(exported, symbol)
    least, most = _range(exported, symbol, name)
    each = _rows(exported, example_inputs, shapes, symbol)

    def imported(size: int) -> Program:
        return at([_with_rows(x, each.get(i), size) for i, x in enumerate(example_inputs)], size)

    first = most if reference is None else reference
    known, other = imported(first), imported(first - 1)
    held = _held_rows(known, other)
    limits = _sized_limits(known.limits, other.limits)
    known, programs = one_row(known, held), {first - 1: one_row(other, held)}
    programs[first] = known

    @cache
    def checked(size: int) -> Program:
        found = programs[size] if size in programs else one_row(imported(size), held)
        why = why_another(known, first, found, size)
        if why is not None:
            raise DynamicShapeError(
                f"expected one program for {name} from {least} to {most}, but at {size} {why}; "
                "write it so that it does not depend on the size",
                user_location(),
            )
        bounds = (replace(x, below=x.below + x.each * (size - first)) for x in limits)
        return replace(found, limits=tuple(bounds))

    rows = with_rows(known.graph, checked(first - 1).graph)
    numbers = tuple(i for i, v in enumerate(known.graph.inputs) if v in rows)
    return SizedProgram(name, least, most, numbers, checked)


def _sized_limits(
    limits: Sequence[IndexLimit], smaller: Sequence[IndexLimit]
) -> tuple[IndexLimit, ...]:
    """Return the limits of a program's inputs at a size, with the growth of each, given those at
    one less; without those that are computed differently for each size."""
    others: dict[IndexLimit, list[int]] = {}
    for x in smaller:
        others.setdefault(replace(x, below=0), []).append(x.below)
    found: list[IndexLimit] = []
    for x in limits:
        below = others.get(replace(x, below=0))
        if below and x.below >= below[0]:
            found.append(replace(x, each=x.below - below.pop(0)))
    return tuple(found)


def _held_rows(first: Program, second: Program) -> tuple[int, ...]:
    """Return the tensors that a program holds and whose rows grow with the size."""
    mine, other = first.graph.inputs, second.graph.inputs
    if len(mine) != len(other):
        return ()
    indices = (p.index for p in first.parameters)
    return tuple(i for i in indices if mine[i].shape != other[i].shape)


def one_row(program: Program, held: Collection[int]) -> Program:
    """Return the program with one repeated row in place of each tensor in ``held`` (by the numbers
    of inputs), whose rows are all equal. Raises :class:`DynamicShapeError`."""
    if not held:
        return program
    graph, parameters = program.graph, list(program.parameters)
    inputs, repeats = list(graph.inputs), list[Op]()
    for place, p in enumerate(parameters):
        if p.index not in held:
            continue
        assert isinstance(p.data, torch.Tensor)
        row = p.data[:1].clone()
        if not _equal(p.data, row.expand(p.data.shape)):
            raise DynamicShapeError(
                f"expected tensors that do not depend on the size, but {p.name}, which the program "
                "makes, has another row for each index; pass it as an input",
                user_location(),
            )
        old = inputs[p.index]
        inputs[p.index] = Value(TensorType((1, *old.shape[1:]), old.dtype), old.name)
        repeats.append(Broadcast((inputs[p.index],), (old,)))
        parameters[place] = replace(p, data=row)
    graph = replace(graph, inputs=tuple(inputs), ops=(*repeats, *graph.ops))
    return replace(program, graph=graph, parameters=tuple(parameters))


def why_another(first: Program, n: int, second: Program, m: int) -> str | None:
    """Say how a program at size ``m`` differs from one at size ``n`` apart from its rows; None if
    it does not."""
    if (first.results, first.keys, first.updates) != (second.results, second.keys, second.updates):
        return "it has other results"
    for p, q in zip_longest(first.parameters, second.parameters):
        if p is None or q is None or (p.index, p.name) != (q.index, q.name):
            return "it holds other tensors"
        if p.data is not q.data and not _equal(p.data, q.data):
            return f"{p.name} holds other numbers"
    return why_different(first.graph, n, second.graph, m)


def _equal(a: object, b: object) -> bool:
    assert isinstance(a, torch.Tensor)
    assert isinstance(b, torch.Tensor)
    return (
        a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a != a) & (b != b)).all())
    )


def _rows(
    exported: torch.export.ExportedProgram,
    inputs: Sequence[object],
    shapes: Sequence[Any],
    symbol: Any,
) -> dict[int, int]:
    """Return the number of rows for each unit of the size, for the inputs that have rows."""
    given = exported.graph_signature.user_inputs
    nodes = {node.name: node for node in exported.graph.nodes}
    found: dict[int, int] = {}
    leaf = 0
    for i, (x, shape) in enumerate(zip(inputs, shapes, strict=True)):
        if _declared(shape):
            expr = nodes[str(list(given)[leaf])].meta["val"].shape[0].node.expr
            found[i] = int(expr / symbol)
        leaf += len(pytree.tree_leaves(x))
    return found


def _with_rows(x: object, each: int | None, size: int) -> object:
    """Return an example input at a size. Its elements are never read, so it takes no memory."""
    if each is None or not isinstance(x, torch.Tensor):
        return x
    return torch.empty((each * size, *x.shape[1:]), dtype=x.dtype, device=x.device)


def _by_position(
    module: object, count: int, keys: Sequence[str], dynamic_shapes: object
) -> list[Any]:
    """Return the dynamic dimensions of each example input: ``count`` positional ones, then named
    ones."""
    if isinstance(dynamic_shapes, Mapping):
        named: Mapping[Any, Any] = dynamic_shapes
        function: Any = module.forward if isinstance(module, torch.nn.Module) else module
        known = [*list(inspect.signature(function).parameters)[:count], *keys]
        unknown = [key for key in named if key not in known]
        if unknown:
            raise DynamicShapeError(
                f"dynamic_shapes: expected names among {', '.join(known)}, got {unknown[0]!r}",
                user_location(),
            )
        return [named.get(name) for name in known]
    if isinstance(dynamic_shapes, list | tuple) and len(dynamic_shapes) == count and not keys:
        return list(dynamic_shapes)
    raise DynamicShapeError(
        f"dynamic_shapes: expected a dict by names of inputs, or one entry for each of "
        f"{count + len(keys)}, "
        f"got {dynamic_shapes!r:.80}",
        user_location(),
    )


def _declared(shape: Any) -> dict[int, Any]:
    """Return the dynamic dimensions of an input with their declarations."""
    if shape is None:
        return {}
    items = shape.items() if isinstance(shape, Mapping) else enumerate(shape)
    return {dim: said for dim, said in items if said is not None and not isinstance(said, int)}


def _check_outermost(shapes: Sequence[Any]) -> None:
    inner = [(i, dim) for i, shape in enumerate(shapes) for dim in _declared(shape) if dim != 0]
    if inner:
        i, dim = inner[0]
        raise DynamicShapeError(
            f"expected outermost dimensions to be dynamic only, got dimension {dim} of input {i}; "
            f"where its rows do not depend on each other take them as one dimension "
            f"(x.flatten(0, {dim}), whose size is the product), else move it outermost, or leave "
            "it fixed and make one program for each size",
            user_location(),
        )


def _symbol(exported: torch.export.ExportedProgram, shapes: Sequence[Any]) -> tuple[str, Any]:
    """Return the name of the size and PyTorch's symbol for it."""
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
                    found.update((str(s), s) for s in size.node.expr.free_symbols)
    if len(found) != 1:
        raise DynamicShapeError(
            f"expected one dynamic size, which is a dimension of each input that has it, got "
            f"{', '.join(found) or 'none'}; give these dimensions one torch.export.Dim",
            user_location(),
        )
    return " and ".join(sorted(names)), next(iter(found.values()))


def _range(exported: torch.export.ExportedProgram, symbol: Any, name: str) -> tuple[int, int]:
    known = exported.range_constraints[symbol]
    least, most = max(int(known.lower), 1), _NO_LIMIT
    if bool(known.upper < _NO_LIMIT):  # an infinite bound is not an integer
        most = int(known.upper)
    if not least < most < _NO_LIMIT:
        raise DynamicShapeError(
            f"expected a range of sizes for {name}, got {known}; give the dimension a largest "
            f"size: torch.export.Dim({name!r}, min=1, max=256)",
            user_location(),
        )
    return least, most
