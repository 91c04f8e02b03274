"""Instructions by opcode. Importing the package fills the table."""

from mirage.emulator.ops import (
    arithmetic,
    asynchronous,
    atomics,
    bits,
    bulk,
    control,
    convert,
    floating,
    matrix,
    mbarrier,
    memory_access,
    register_moves,
    synchronise,
    warp,
    wgmma,
)
from mirage.emulator.ops.opcodes import OPCODES

__all__ = [
    "OPCODES",
    "arithmetic",
    "asynchronous",
    "atomics",
    "bits",
    "bulk",
    "control",
    "convert",
    "floating",
    "matrix",
    "mbarrier",
    "memory_access",
    "register_moves",
    "synchronise",
    "warp",
    "wgmma",
]
