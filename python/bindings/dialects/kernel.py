"""The `kernel` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.kernel import *
from ._kernel_enum_gen import *
from ._kernel_ops_gen import *
from ._kernel_ops_gen import _Dialect  # noqa: F401  (what the upstream modules offer too)
from .scalar import *
