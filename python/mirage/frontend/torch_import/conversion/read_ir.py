"""Reading of the torch dialect: types, constants, places in the user's program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir as untyped_ir

from mirage.errors import SourceLocation
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture.capture import SUBMODULE
from mirage.frontend.torch_import.capture.places import is_user_file
from mirage.frontend.torch_import.rows.foreign import Foreign
from mirage.runtime.dispatch.carriers import CARRIERS
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import TensorType

ir: Any = untyped_ir

_TYPE = re.compile(r"!torch\.vtensor<\[([0-9,?]*)\],([\w<>]+)>")

_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)(?::\d+)?')

_ELEMENTS = {
    **{dtype.value: dtype for dtype in DType if not dtype.is_integer or dtype is DType.I1},
    **{f"s{dtype.value}": dtype for dtype in DType if dtype.is_integer and dtype is not DType.I1},
}
"""The element types, as torch-mlir spells them."""
_FOREIGN = {
    "complex<f16>": "complex32",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
}
"""The element types that kernels do not have, with PyTorch's names."""


def needed(operations: Sequence[Any]) -> dict[Any, bool]:
    """Return which operations the terminator depends on."""
    needed: dict[Any, bool] = {}
    live: set[Any] = set()
    for operation in reversed(operations):
        needed[operation] = operation is operations[-1] or any(r in live for r in operation.results)
        if needed[operation]:
            live.update(operation.operands)
    return needed


def tensor_type(type_: Any) -> TensorType | None:
    """Return the type of a tensor of real numbers with a fixed shape; None for anything else."""
    shape, element = _shape_and_element(type_)
    if shape is None or element not in _ELEMENTS:
        return None
    return TensorType(shape, _ELEMENTS[element])


def _shape_and_element(type_: Any) -> tuple[tuple[int, ...] | None, str]:
    """Return the shape of a tensor, if it is fixed, and the spelling of its element type."""
    match = _TYPE.fullmatch(str(type_))
    if match is None or "?" in match[1]:
        return None, ""
    return tuple(int(n) for n in match[1].split(",") if n), match[2]


def foreign_type(type_: Any) -> Foreign | None:
    """Return the type of a tensor with a fixed shape that kernels do not have; None for anything
    else."""
    shape, element = _shape_and_element(type_)
    if shape is None or element not in _FOREIGN:
        return None
    name = _FOREIGN[element]
    carrier = CARRIERS[name]
    return Foreign(name, TensorType(carrier.shape(shape), DType(carrier.dtype)))


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
    """Return the innermost place in the user's code (a location lists the callee first), or the
    submodule, as for a ``torch.nn.Sequential``, or the caller.
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
