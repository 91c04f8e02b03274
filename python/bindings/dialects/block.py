"""The `block` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.block import *  # noqa: F403
from ._block_enum_gen import *  # noqa: F403
from ._block_ops_gen import *  # noqa: F403
from ._block_ops_gen import _Dialect  # noqa: F401
from .scalar import *  # noqa: F403
