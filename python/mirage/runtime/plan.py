"""What a program does on tensors, in order: launches of compiled parts, and calls of PyTorch.

Tensors are numbered: first the inputs, then what each step gives. A plan says nothing about where
tensors are, so the same one runs on a GPU and in the emulator, in the process that made it and in
one that has nothing but an artifact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, cast


@dataclass(frozen=True)
class Tensors:
    """In the place of an argument: a list of tensors, the next operands, with None between them
    where ``there`` is false."""

    there: tuple[bool, ...]


@dataclass(frozen=True)
class ElementType:
    """In the place of an argument: PyTorch's type of this name ("f16")."""

    name: str


@dataclass(frozen=True)
class Device:
    """In the place of an argument: the device that the program runs on."""


@dataclass(frozen=True)
class Rows:
    """In the place of a number: so many for ``each`` unit of a size that is known at the call."""

    each: int


Plain: TypeAlias = "bool | int | float | str | None"
Argument: TypeAlias = "Plain | tuple[Plain | Rows, ...] | Tensors | ElementType | Device | Rows"
"""An argument of a call that is no tensor."""


@dataclass(frozen=True)
class Call:
    """A call of ``op`` ("aten.cumsum.default"): ``operands`` are its tensors, in the order of its
    schema, ``arguments`` its others by name. With ``in_place`` it writes to its first operand,
    which is its result then; without, the result is a tensor of its own. ``seen_as`` has for each
    operand the type that it carries (:mod:`mirage.runtime.carriers`), if it carries one; results
    are carried."""

    op: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    arguments: tuple[tuple[str, Argument], ...] = ()
    in_place: bool = False
    seen_as: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """A compiled part, by its number. It writes to the operands at the places ``updates``; the last
    results are those, with what they have then."""

    part: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    updates: tuple[int, ...] = ()


Step: TypeAlias = "Call | Launch"


@dataclass(frozen=True)
class Plan:
    """``inputs`` tensors in, ``outputs`` out, ``steps`` in order."""

    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    updates: tuple[int, ...] = field(default=())
    """The first outputs are the new values of these inputs, which may be written in place."""

    @cached_property
    def size(self) -> int:
        """How many tensors there are."""
        return self.inputs + sum(len(step.results) for step in self.steps)

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each step the tensors that nothing needs after it."""
        seen = set(self.outputs)
        found: list[tuple[int, ...]] = []
        for step in reversed(self.steps):
            mine = dict.fromkeys((*step.operands, *step.results))
            found.append(tuple(v for v in mine if v not in seen))
            seen.update(mine)
        return tuple(reversed(found))

    @cached_property
    def writes(self) -> bool:
        """Whether inputs are written in place."""
        return any(
            step.in_place if isinstance(step, Call) else bool(step.updates) for step in self.steps
        )


def plan_at(plan: Plan, size: int) -> Plan:
    """A plan in which numbers are :class:`Rows`, at one size."""

    def number(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(number, cast("tuple[Any, ...]", value)))
        return value.each * size if isinstance(value, Rows) else value

    def stated(step: Step) -> Step:
        if not isinstance(step, Call):
            return step
        return replace(step, arguments=tuple((k, number(v)) for k, v in step.arguments))

    return replace(plan, steps=tuple(map(stated, plan.steps)))
