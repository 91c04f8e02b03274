"""The types of device tensors and tiles."""

from __future__ import annotations

from mirage import ir
from mirage.mlir_io.data import GraphIOError
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import TensorType

_DTYPES = {dtype.value: dtype for dtype in DType}


def read_type(type_: ir.Type, op: ir.Operation) -> TensorType:
    """Read a tensor of static shape, or a tile without a layout."""
    from mirage.dialects import block

    if isinstance(type_, ir.RankedTensorType):
        if not type_.has_static_shape:
            raise GraphIOError(f"expected a tensor of static shape, got {type_}", op)
        shape, element = tuple(type_.shape), type_.element_type
    elif isinstance(type_, block.TileType):
        if type_.layout is not None:
            raise GraphIOError(f"expected a tile whose layout is still open, got {type_}", op)
        shape, element = tuple(type_.shape), type_.element_type
    else:
        raise GraphIOError(f"expected a tensor or a tile, got {type_}", op)
    dtype = _DTYPES.get(str(element))
    if dtype is None:
        known = ", ".join(_DTYPES)
        raise GraphIOError(f"expected elements of one of {known}, got {type_}", op)
    return TensorType(shape, dtype)


def element_type(dtype: DType) -> ir.Type:
    """Return the MLIR type of an element."""
    if dtype.is_integer:
        return ir.IntegerType.get_signless(int(dtype.value[1:]))
    classes = {
        DType.F16: ir.F16Type,
        DType.BF16: ir.BF16Type,
        DType.F32: ir.F32Type,
        DType.F64: ir.F64Type,
        DType.F8E4M3: ir.Float8E4M3FNType,
        DType.F8E5M2: ir.Float8E5M2Type,
    }
    return classes[dtype].get()


def write_type(type_: TensorType, *, in_block: bool = False) -> ir.Type:
    """Return the type of a device tensor, or (``in_block``) of a tile."""
    from mirage.dialects import block

    if in_block:
        return block.TileType.get(list(type_.shape), element_type(type_.dtype))
    return ir.RankedTensorType.get(list(type_.shape), element_type(type_.dtype))
