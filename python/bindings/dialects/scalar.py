"""The scalar functions that all dialects share, as enums."""

from ._scalar_enum_gen import BinaryFn, ReduceFn, UnaryFn

__all__ = ["BinaryFn", "ReduceFn", "UnaryFn"]
