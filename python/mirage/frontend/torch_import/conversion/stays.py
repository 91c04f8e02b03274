"""Calls that remain in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from mirage.errors import SourceLocation
from mirage.frontend.errors import UnsupportedOpError
from mirage.frontend.torch_import.rows.foreign import Carried
from mirage.frontend.torch_import.rows.torch_call import Call
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import External, Op, Source, Value, View

_STAYS = "calls that stay with PyTorch pass tensors only"


@dataclass(frozen=True)
class Stays:
    """A call that remains in PyTorch, and the reason."""

    op: str
    reason: str


def foreign_in(call: Call) -> str:
    """Return a type among the arguments and results of a call that kernels do not have; empty if
    there is none."""
    taken = (x.dtype for x in _tensors(call.args) if isinstance(x, Carried))
    given = (f.dtype for f, used in zip(call.foreign, call.used) if f is not None and used)
    return next(iter((*taken, *given)), "")


def are_several_of_doubles(ops: Sequence[Op]) -> bool:
    """Return whether several ops, each of which would be a call, compute tensors of f64."""
    computed = [op for op in ops if not isinstance(op, View | Source) and op.number is None]
    doubles = (v for op in computed for v in op.results if v.dtype is DType.F64)
    return len(computed) > 1 and any(v.shape for v in doubles)


def external_of(
    call: Call, location: SourceLocation | None
) -> tuple[External, tuple[Value | Carried, ...]]:
    """Return a call as an op of the graph, and its results. Raises :class:`UnsupportedOpError`."""
    operands, arguments = _arguments(call, location)
    results: list[Value] = []
    given: list[Value | Carried] = []
    foreign = call.foreign or (None,) * len(call.results)
    for expected, other, used in zip(call.results, foreign, call.used, strict=True):
        if expected is None and other is None and used:
            raise unsupported(call.op, location, f"{_STAYS}, got a result that is not one")
        if expected is not None:
            results.append(Value(expected))
            given.append(results[-1])
        elif other is not None:
            results.append(Value(other.carrier))
            given.append(Carried(results[-1], other.dtype))
    if len(results) != len(call.results):
        raise unsupported(call.op, location, "results that are not all tensors", call)
    seen = tuple(x.dtype if isinstance(x, Carried) else "" for x in operands)
    values = tuple(x.value if isinstance(x, Carried) else x for x in operands)
    op = External(values, tuple(results), call.op, arguments, seen if any(seen) else ())
    return op, tuple(given)


def unsupported(
    op: str, location: SourceLocation | None, reason: str, call: Call | None = None
) -> UnsupportedOpError:
    """Return the error for an op that cannot be imported, with the reason; for a ``call`` that may
    remain in PyTorch, it says so."""
    types = [str(x.type) for x in call.args if isinstance(x, Value)] if call is not None else []
    on = f" on {', '.join(types)}" if types else ""
    hint = "; pass allow_fallback=True (--allow-fallback) to leave it to PyTorch" if call else ""
    error = UnsupportedOpError(f"{op}{on} is not supported: {reason}{hint}", location)
    error.op = op
    return error


def _tensors(args: Sequence[object]) -> Iterator[Value | Carried]:
    for x in args:
        if isinstance(x, Value | Carried):
            yield x
        elif isinstance(x, list):
            yield from _tensors(cast("list[object]", x))


def _arguments(
    call: Call, location: SourceLocation | None
) -> tuple[list[Value | Carried], tuple[tuple[str, object], ...]]:
    """Return the tensors and the named other arguments of a call that remains in PyTorch. A list of
    tensors becomes ``("tensors", count)``, and one with None among them ``("tensors", (1, 0,
    ...))``.
    """
    namespace, op, *overload = call.op.split(".")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    function = getattr(packet, overload[0] if overload else "default", None)
    if function is None:
        raise unsupported(call.op, location, "an op that PyTorch does not know by this name")
    operands: list[Value | Carried] = []
    arguments: list[tuple[str, object]] = []
    for parameter, x in zip(function._schema.arguments, call.args, strict=True):
        if isinstance(x, Value | Carried):
            operands.append(x)
            continue
        items = cast("list[object]", x) if isinstance(x, list) else []
        tensors = [i for i in items if isinstance(i, Value | Carried)]
        wanted = str(parameter.type)
        if tensors:
            if len(tensors) + sum(i is None for i in items) != len(items):
                raise unsupported(call.op, location, "a list of tensors and something else")
            operands.extend(tensors)
            which = tuple(int(i is not None) for i in items)
            arguments.append((parameter.name, ("tensors", len(which) if all(which) else which)))
        elif x is None and "Tensor" in wanted and "Optional" not in wanted:
            raise unsupported(
                call.op, location, f"argument {parameter.name!r} is not a tensor of floats"
            )
        else:
            arguments.append((parameter.name, tuple(items) if isinstance(x, list) else x))
    return operands, tuple(arguments)
