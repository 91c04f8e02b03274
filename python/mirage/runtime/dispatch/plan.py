"""The steps of a program on tensors, in order: launches of compiled parts, and calls of PyTorch.

Tensors are numbered: first the inputs, then the results of each step. A plan does not say where
tensors are, so the same plan runs on a GPU and in the emulator, both in the process that made it
and in one that only has an artifact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, cast


@dataclass(frozen=True)
class Tensors:
    """A placeholder among arguments for a list of tensors: the next operands, with None between
    them where ``there`` is false."""

    there: tuple[bool, ...]


@dataclass(frozen=True)
class ElementType:
    """A placeholder among arguments for PyTorch's type of this name ("f16")."""

    name: str


@dataclass(frozen=True)
class Device:
    """A placeholder among arguments for the device that the program runs on."""


@dataclass(frozen=True)
class Rows:
    """A placeholder for a number that is ``each`` times a size that is known only at the call."""

    each: int


Plain: TypeAlias = "bool | int | float | str | None"
Argument: TypeAlias = "Plain | tuple[Plain | Rows, ...] | Tensors | ElementType | Device | Rows"
"""An argument of a call that is not a tensor."""


@dataclass(frozen=True)
class Call:
    """A call of ``op`` ("aten.cumsum.default"): ``operands`` are its tensors, in the order of its
    schema, and ``arguments`` its other arguments by name.

    With ``in_place`` the call writes to its first operand, which is also its result; otherwise the
    result is a new tensor. ``seen_as`` has, for each operand, the type that it carries
    (:mod:`mirage.runtime.dispatch.carriers`), if any; such results are returned as carriers."""

    op: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    arguments: tuple[tuple[str, Argument], ...] = ()
    in_place: bool = False
    seen_as: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """A launch of a compiled part, by its number. It writes to the operands at the places
    ``updates``; the last results are those operands, with their new contents."""

    part: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    updates: tuple[int, ...] = ()


Step: TypeAlias = "Call | Launch"


@dataclass(frozen=True)
class Plan:
    """A plan of ``steps`` in order, with the number of ``inputs`` and the tensors that are
    ``outputs``."""

    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    updates: tuple[int, ...] = field(default=())
    """The first outputs are the new values of these inputs, which may be written in place."""

    @cached_property
    def size(self) -> int:
        """The number of tensors."""
        return self.inputs + sum(len(step.results) for step in self.steps)

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each step, the tensors that no later step needs."""
        seen = set(self.outputs)
        found: list[tuple[int, ...]] = []
        for step in reversed(self.steps):
            mine = dict.fromkeys((*step.operands, *step.results))
            found.append(tuple(v for v in mine if v not in seen))
            seen.update(mine)
        return tuple(reversed(found))

    @cached_property
    def writes(self) -> bool:
        """Whether any input is written in place."""
        return any(
            step.in_place if isinstance(step, Call) else bool(step.updates) for step in self.steps
        )


def plan_at(plan: Plan, size: int) -> Plan:
    """Return the plan at one size, with numbers in place of :class:`Rows`."""

    def number(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(number, cast("tuple[Any, ...]", value)))
        return value.each * size if isinstance(value, Rows) else value

    def stated(step: Step) -> Step:
        if not isinstance(step, Call):
            return step
        return replace(step, arguments=tuple((k, number(v)) for k, v in step.arguments))

    return replace(plan, steps=tuple(map(stated, plan.steps)))
