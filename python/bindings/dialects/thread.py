"""The `thread` dialect: operations, enums, types and attributes."""

from .._mlir_libs._mirage.thread import *
from ._thread_enum_gen import *
from ._thread_ops_gen import *
from ._thread_ops_gen import _Dialect  # noqa: F401  (what the upstream modules offer too)
from .scalar import *
