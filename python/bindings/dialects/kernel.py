"""The `kernel` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.kernel import *
from ._kernel_enum_gen import *
from ._kernel_ops_gen import *
from ._kernel_ops_gen import _Dialect
from .scalar import *
