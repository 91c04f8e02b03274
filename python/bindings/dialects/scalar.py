"""The scalar functions that all dialects share, as enums: `UnaryFn`, `BinaryFn`, `ReduceFn`."""

from ._scalar_enum_gen import *  # noqa: F403
