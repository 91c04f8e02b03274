"""What the torch dialect says: types, constants, places in the user's program, arguments of
calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch_mlir import ir as untyped_ir

from mirage.errors import SourceLocation
from mirage.frontend.errors import (
    UnsupportedOpError,
)
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture import (
    SUBMODULE,
    is_user_file,
)
from mirage.frontend.torch_import.lowering import Call
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import TensorType, Value

if TYPE_CHECKING:
    pass

ir: Any = untyped_ir

_TYPE = re.compile(r"!torch\.vtensor<\[([0-9,?]*)\],(\w+)>")

_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)(?::\d+)?')

_ELEMENTS = {
    **{dtype.value: dtype for dtype in DType if not dtype.is_integer or dtype is DType.I1},
    **{f"s{dtype.value}": dtype for dtype in DType if dtype.is_integer and dtype is not DType.I1},
}
"""Element types as torch-mlir spells them."""


def needed(operations: Sequence[Any]) -> dict[Any, bool]:
    """Which operations the terminator depends on."""
    needed: dict[Any, bool] = {}
    live: set[Any] = set()
    for operation in reversed(operations):
        needed[operation] = operation is operations[-1] or any(r in live for r in operation.results)
        if needed[operation]:
            live.update(operation.operands)
    return needed


def tensor_type(type_: Any) -> TensorType | None:
    """The type of a tensor of real numbers of fixed shape; None for anything else."""
    match = _TYPE.fullmatch(str(type_))
    if match is None or "?" in match[1] or match[2] not in _ELEMENTS:
        return None
    return TensorType(tuple(int(n) for n in match[1].split(",") if n), _ELEMENTS[match[2]])


def is_list(type_: Any) -> bool:
    return str(type_).startswith("!torch.list<")


def constant_of(kind: str, operation: Any) -> object:
    if kind == "none":
        return None
    attribute = operation.attributes["value"]
    if kind == "int":
        return int(ir.IntegerAttr(attribute).value)
    if kind == "float":
        return float(ir.FloatAttr(attribute).value)
    if kind == "bool":
        return str(attribute) in ("true", "1 : i1", "-1 : i1")
    return ir.StringAttr(attribute).value


def hexadecimal(operation: Any) -> float:
    elements = ir.DenseFPElementsAttr(operation.attributes["value"])
    return float(elements[0])


def location_of(operation: Any) -> SourceLocation | None:
    """The innermost place that is the user's (a location reads callee first), else the submodule,
    as for a ``torch.nn.Sequential``, else the caller.
    """
    places = [
        SourceLocation(file, int(line)) for file, line in _FILE.findall(str(operation.location))
    ]
    users = (p for p in places if is_user_file(p.file))
    submodules = (
        SourceLocation(f"submodule {p.file.removeprefix(SUBMODULE)}", 0)
        for p in places
        if p.file.startswith(SUBMODULE)
    )
    return next(users, None) or next(submodules, None) or user_location()


def unsupported(
    op: str, location: SourceLocation | None, reason: str, call: Call | None = None
) -> UnsupportedOpError:
    types = [str(x.type) for x in call.args if isinstance(x, Value)] if call is not None else []
    on = f" on {', '.join(types)}" if types else ""
    hint = "; pass allow_fallback=True (--allow-fallback) to leave it to PyTorch" if call else ""
    error = UnsupportedOpError(f"{op}{on} is not supported: {reason}{hint}", location)
    error.op = op
    return error


def arguments_of(
    call: Call, location: SourceLocation | None
) -> tuple[tuple[Value, ...], tuple[tuple[str, object], ...]]:
    """Tensors and named other arguments of a call that stays with PyTorch; a list of tensors is
    ``("tensors", count)``, one with None among them ``("tensors", (1, 0, ...))``.
    """
    namespace, op, *overload = call.op.split(".")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    function = getattr(packet, overload[0] if overload else "default", None)
    if function is None:
        raise unsupported(call.op, location, "an op that PyTorch does not know by this name")
    operands: list[Value] = []
    arguments: list[tuple[str, object]] = []
    for parameter, x in zip(function._schema.arguments, call.args, strict=True):
        if isinstance(x, Value):
            operands.append(x)
        elif isinstance(x, list) and any(isinstance(i, Value) for i in x):  # pyright: ignore
            if not all(i is None or isinstance(i, Value) for i in x):  # pyright: ignore
                raise unsupported(call.op, location, "a list of tensors and something else")
            tensors = [i for i in x if i is not None]  # pyright: ignore
            operands.extend(tensors)  # pyright: ignore
            which = tuple(int(i is not None) for i in x)  # pyright: ignore
            count = len(which) if all(which) else which
            arguments.append((parameter.name, ("tensors", count)))
        elif (
            x is None and "Tensor" in str(parameter.type) and "Optional" not in str(parameter.type)
        ):
            raise unsupported(
                call.op, location, f"argument {parameter.name!r} is not a tensor of floats"
            )
        else:
            arguments.append((parameter.name, tuple(x) if isinstance(x, list) else x))  # pyright: ignore
    return tuple(operands), tuple(arguments)
