"""Instructions by opcode. Importing the package fills the table."""

from mirage.emulator.ops import (
    arithmetic,
    asynchronous,
    bits,
    bulk,
    control,
    convert,
    floating,
    matrix,
    mbarrier,
    memory,
    synchronise,
    warp,
    wgmma,
)
from mirage.emulator.ops.registry import OPCODES

__all__ = [
    "OPCODES",
    "arithmetic",
    "asynchronous",
    "bits",
    "bulk",
    "control",
    "convert",
    "floating",
    "matrix",
    "mbarrier",
    "memory",
    "synchronise",
    "warp",
    "wgmma",
]
