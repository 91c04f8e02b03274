"""The `kernel` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.kernel import *  # noqa: F403
from ._kernel_enum_gen import *  # noqa: F403
from ._kernel_ops_gen import *  # noqa: F403
from ._kernel_ops_gen import _Dialect  # noqa: F401
from .scalar import *  # noqa: F403
