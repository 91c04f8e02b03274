"""Element types under their usual names."""

from __future__ import annotations

from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location
from mirage.semantics.scalar import DType

float16 = DType.F16
bfloat16 = DType.BF16
float32 = DType.F32
float64 = DType.F64
float8_e4m3fn = DType.F8E4M3
float8_e5m2 = DType.F8E5M2
bool_ = DType.I1
int8 = DType.I8
int16 = DType.I16
int32 = DType.I32
int64 = DType.I64

_NAMES = {
    **{dtype.value: dtype for dtype in DType},
    "float16": DType.F16,
    "half": DType.F16,
    "bfloat16": DType.BF16,
    "float32": DType.F32,
    "float": DType.F32,
    "float64": DType.F64,
    "double": DType.F64,
    "float8_e4m3fn": DType.F8E4M3,
    "float8_e5m2": DType.F8E5M2,
    "bool": DType.I1,
    "int8": DType.I8,
    "int16": DType.I16,
    "int32": DType.I32,
    "int64": DType.I64,
}


def as_dtype(dtype: object) -> DType:
    """Return a :class:`DType`, given one, its name, or a torch or NumPy dtype. Raises
    :class:`GraphTypeError`.
    """
    if isinstance(dtype, DType):
        return dtype
    found = _NAMES.get(str(getattr(dtype, "name", dtype)).removeprefix("torch."))
    if found is None:
        raise GraphTypeError(
            "expected float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, int8 to "
            f"int64 or bool, got {dtype!r}",
            user_location(),
        )
    return found
