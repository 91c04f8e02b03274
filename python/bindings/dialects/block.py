"""The `block` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.block import *
from ._block_enum_gen import *
from ._block_ops_gen import *
from ._block_ops_gen import _Dialect  # noqa: F401  (what the upstream modules offer too)
from .scalar import *
