"""The scalar functions that all dialects share, as enums."""

from ._scalar_enum_gen import BinaryFn, CumulateFn, ReduceFn, UnaryFn

__all__ = ["BinaryFn", "CumulateFn", "ReduceFn", "UnaryFn"]
