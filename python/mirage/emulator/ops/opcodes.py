"""How instructions are compiled: one function for each opcode, found by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirage.emulator.errors import UnknownInstructionError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.operands import Reader, Writer, reader, writer
from mirage.emulator.ptx.syntax import TYPE_BYTES, Instruction, Kernel, Operand

Run = Callable[[Cohort], None]
Control = Callable[[Cohort, int], "int | None"]
Required = Callable[[Cohort], Array]


@dataclass(eq=False)
class Context:
    """The information that the compilation of an instruction may use, and what it tells the
    program."""

    kernel: Kernel
    features: set[str] = field(default_factory=set[str])
    shared_granule: int = 16
    global_granule: int = 16

    def device(self, size: int) -> None:
        """Record that the instruction may access global memory in units of `size` bytes."""
        self.global_granule = min(self.global_granule, size)

    def shared(self, size: int) -> None:
        """Record that the instruction may access shared memory in units of `size` bytes."""
        self.shared_granule = min(self.shared_granule, size)


@dataclass(eq=False)
class Compiled:
    """`run` for instructions that fall through, `control` for the others: it returns where the
    whole cohort goes on, or None if it handed its rows to the scheduler. `required` gives the lanes
    that must execute the instruction together. `kind` is the class that counters report."""

    kind: str
    run: Run | None = None
    control: Control | None = None
    required: Required | None = None
    polls: bool = False
    whole_rows: bool = False


class Modifiers:
    """The parts of an opcode after its name; each compile function takes the parts that it
    knows."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.rest = list(instruction.modifiers)

    def take(self, *names: str) -> str | None:
        """Remove and return the first of the names that is present."""
        for name in names:
            if name in self.rest:
                self.rest.remove(name)
                return name
        return None

    def drop(self, *names: str) -> None:
        """Remove modifiers that change nothing here, such as cache hints."""
        for name in names:
            while name in self.rest:
                self.rest.remove(name)

    def drop_prefix(self, *prefixes: str) -> None:
        """Remove modifiers that start with one of the prefixes."""
        self.rest = [m for m in self.rest if not m.startswith(prefixes)]

    def type(self, *allowed: str) -> str:
        """Take the last modifier, which must be a type."""
        if not self.rest or (self.rest[-1] not in (allowed or TYPE_BYTES)):
            raise self.unknown()
        return self.rest.pop()

    def finish(self) -> None:
        """Check that everything has been taken."""
        if self.rest:
            raise self.unknown()

    def unknown(self) -> UnknownInstructionError:
        """Return the error for this instruction."""
        instruction = self.instruction
        name = ".".join((instruction.opcode, *instruction.modifiers))
        left = f" (.{self.rest[0]} not understood)" if self.rest else ""
        return UnknownInstructionError(
            f"expected an instruction of the emulated subset, got {name}{left}",
            site=instruction.site,
        )


Compile = Callable[[Context, Instruction, Modifiers], Compiled]
OPCODES: dict[str, Compile] = {}


def opcode(*names: str) -> Callable[[Compile], Compile]:
    """Register a compile function."""

    def register(function: Compile) -> Compile:
        for name in names:
            OPCODES[name] = function
        return function

    return register


def operands(instruction: Instruction, low: int, high: int | None = None) -> tuple[Operand, ...]:
    """Return the operands, whose number must be from low to high."""
    high = low if high is None else high
    actual = len(instruction.operands)
    if not low <= actual <= high:
        expected = str(low) if low == high else f"{low} to {high}"
        raise UnknownInstructionError(
            f"expected {expected} operands, got {actual}", site=instruction.site
        )
    return instruction.operands


def simple(
    instruction: Instruction,
    kind: str,
    result: str,
    sources: tuple[str, ...],
    compute: Callable[..., Array],
) -> Compiled:
    """Compile an instruction that computes its first operand (of type `result`) from the others."""
    ops = operands(instruction, 1 + len(sources))
    write: Writer = writer(ops[0], result, instruction)
    reads: list[Reader] = [reader(o, t, instruction) for o, t in zip(ops[1:], sources, strict=True)]
    if len(reads) == 1:
        (a,) = reads
        return Compiled(kind, run=lambda c: write(c, compute(a(c))))
    if len(reads) == 2:
        a, b = reads
        return Compiled(kind, run=lambda c: write(c, compute(a(c), b(c))))
    if len(reads) == 3:
        a, b, d = reads
        return Compiled(kind, run=lambda c: write(c, compute(a(c), b(c), d(c))))
    return Compiled(kind, run=lambda c: write(c, compute(*[r(c) for r in reads])))


def all_lanes(c: Cohort) -> Array:
    """`required` of `.aligned` instructions: every thread that the warp was launched with."""
    valid: Any = c.machine.valid
    return valid[c.rows]
