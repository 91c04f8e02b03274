"""The parsed form of a PTX module. Names are resolved: operands refer to registers and
variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.emulator.errors import Site

TYPE_BYTES: dict[str, int] = {
    "pred": 1,
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "tf32": 4,
    "f64": 8,
    "f16x2": 4,
    "bf16x2": 4,
    "u16x2": 4,
    "s16x2": 4,
    "e4m3x2": 2,
    "e5m2x2": 2,
}


_NOTHING = np.zeros((0, 32), np.uint32)


@dataclass(eq=False)
class Register:
    """A virtual register. `data` is [warps, 32] while a launch runs: bool for predicates, else an
    unsigned integer of the register's width. `written` tracks lanes only where a read may see an
    unwritten register; `async_tracked` marks operands of wgmma."""

    name: str
    type: str
    index: int
    data: np.ndarray[Any, Any] = field(default_factory=lambda: _NOTHING, repr=False)
    written: np.ndarray[Any, Any] | None = field(default=None, repr=False)
    tracked: bool = False
    async_state: Any = field(default=None, repr=False)

    @property
    def bytes(self) -> int:
        return TYPE_BYTES[self.type]


@dataclass(eq=False)
class Variable:
    """A named variable in shared, local, global, const or param space. `bytes` is 0 for an
    `extern` shared array, whose size the launch gives. `address` is set when spaces are laid
    out."""

    name: str
    space: str
    align: int
    bytes: int
    initial: bytes | None = None
    extern: bool = False
    pointer: bool = False
    address: int = 0


@dataclass(frozen=True)
class Immediate:
    """A literal. Floating literals given as bits (0f..., 0d...) are kept as Python floats."""

    value: int | float


@dataclass(frozen=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class VariableRef:
    """The address of a variable plus a constant offset."""

    variable: Variable
    offset: int = 0


@dataclass(frozen=True)
class LabelRef:
    """A branch target: index of an instruction in the body."""

    name: str


@dataclass(frozen=True)
class Sink:
    """`_`: a result that is discarded."""


@dataclass(frozen=True)
class Negated:
    """`!p`"""

    register: Register


@dataclass(frozen=True)
class Vector:
    """`{a, b, c, d}`"""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`d|p`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Address:
    """`[base + offset]`, or with further operands inside the brackets: `[map, {x, y}]`."""

    base: Operand
    offset: int = 0
    extra: tuple[Operand, ...] = ()


Operand = (
    Register
    | Immediate
    | Special
    | VariableRef
    | LabelRef
    | Sink
    | Negated
    | Vector
    | Pair
    | Address
)


def _no_registers() -> list[Register]:
    return []


def _no_copies() -> list[tuple[Register, Register | None]]:
    return []


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction: `opcode` is the part before the first dot, `modifiers` the parts after.
    `uses`, `defs`, `copies` (source, target) and `wgmma_registers` are filled in when it is
    compiled."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_negated: bool
    site: Site
    index: int = 0
    uses: list[Register] = field(default_factory=_no_registers)
    defs: list[Register] = field(default_factory=_no_registers)
    copies: list[tuple[Register, Register | None]] = field(default_factory=_no_copies)
    wgmma_registers: list[Register] = field(default_factory=_no_registers)
    jump_table: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter: type (`b8` with `bytes` > 1 for aggregates), byte offset in param
    space."""

    name: str
    type: str
    bytes: int
    align: int
    offset: int
    variable: Variable


@dataclass(eq=False)
class Kernel:
    """An `.entry`: parameters, registers that are named, how many of each type are declared,
    variables, straight-line body with labels."""

    name: str
    site: Site
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    registers: list[Register] = field(default_factory=list[Register])
    declared: dict[str, int] = field(default_factory=dict[str, int])
    variables: list[Variable] = field(default_factory=list[Variable])
    body: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass(eq=False)
class Module:
    """A parsed module: target such as `sm_90a`, kernels by name, module-scope variables."""

    version: str
    target: str
    kernels: dict[str, Kernel]
    variables: list[Variable]
