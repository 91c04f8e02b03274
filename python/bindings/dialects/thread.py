"""The `thread` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.thread import *  # noqa: F403
from ._thread_enum_gen import *  # noqa: F403
from ._thread_ops_gen import *  # noqa: F403
from ._thread_ops_gen import _Dialect  # noqa: F401
from .scalar import *  # noqa: F403
