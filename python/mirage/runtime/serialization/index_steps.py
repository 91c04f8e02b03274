"""Indices that a program computes from its inputs, for a check before the program runs.

Kernels compare such indices with positions, and nothing stores them. The text of a step is a name,
numbers, and the type of the result if it has another one than its operand: ``sub 0 1 : i64`` is the
difference of the results of steps 0 and 1. ``input 2`` is an input, ``constant -1 : i64`` a number,
``position 5 : i64`` the numbers below 5, ``reshape 0 3 4`` and ``repeat 0 3 4`` give the result of
step 0 another shape, ``transpose 0 1 0`` permutes its dimensions, ``slice 0 1 2 3`` are 3 elements
along dimension 1 from element 2 on, ``join 0 1 2`` joins steps 1 and 2 along dimension 0, and ``row
0 1`` are the rows of step 0 that step 1 selects (the nearest ones if there are none). The last step
is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mirage.runtime.serialization.manifest import TORCH_NAMES

if TYPE_CHECKING:
    import torch

Read = tuple[str, tuple[int, ...], str]

FUNCTIONS: Mapping[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "max": 2, "min": 2, "floor_div": 2, "remainder": 2, "lt": 2,
    "le": 2, "eq": 2, "ne": 2, "and": 2, "or": 2, "xor": 2, "keep": 2, "neg": 1, "abs": 1,
    "cast": 1,
}  # fmt: skip
"""The functions of elements, with their numbers of operands."""
_LEAST = {"input": 1, "constant": 1, "position": 1, "slice": 4, "join": 3, "row": 2}


def read_step(text: str) -> Read:
    """Return the name, the numbers and the type of a step ("" if it has none). Raises
    ``ValueError``."""
    left, _, dtype = text.partition(" : ")
    name, *numbers = left.split(" ")
    return name, tuple(map(int, numbers)), dtype


def inputs_of(steps: Sequence[str]) -> tuple[int, ...]:
    """Return the inputs that steps read, in order."""
    read = map(read_step, steps)
    return tuple(dict.fromkeys(numbers[0] for name, numbers, _ in read if name == "input"))


def with_inputs(steps: Sequence[str], numbers: Mapping[int, int]) -> tuple[str, ...]:
    """Return steps that read other inputs, by ``numbers``."""
    return tuple(
        f"input {numbers[int(step.split(' ')[1])]}" if step.startswith("input ") else step
        for step in steps
    )


def why_malformed(steps: Sequence[str], inputs: int) -> str | None:
    """Say why steps are none for a program of this many inputs; None if they are."""
    for at, text in enumerate(steps):
        try:
            name, numbers, dtype = read_step(text)
        except ValueError:
            return f"expected a step such as 'sub 0 1 : i64', got {text!r}"
        known = name in FUNCTIONS or name in _LEAST or name in ("reshape", "repeat", "transpose")
        if not known or len(numbers) < _LEAST.get(name, FUNCTIONS.get(name, 1)):
            return f"expected the name and the numbers of a step, got {text!r}"
        if dtype and dtype not in TORCH_NAMES:
            return f"expected a type of elements, got {text!r}"
        if any(not 0 <= n < at for n in _steps_read(name, numbers)):
            return f"expected numbers of earlier steps, got {text!r}"
        if name == "input" and not 0 <= numbers[0] < inputs:
            return f"expected one of {inputs} inputs, got {text!r}"
    return None


def evaluate(steps: Sequence[str], given: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the result of steps for the inputs of a program, on their device."""
    import torch

    device = given[inputs_of(steps)[0]].device
    values: list[Any] = []
    for step in steps:
        name, numbers, text = read_step(step)
        dtype = getattr(torch, TORCH_NAMES[text]) if text else None
        if name == "input":
            values.append(given[numbers[0]])
        elif name == "constant":
            values.append(torch.tensor(numbers[0], dtype=dtype, device=device))
        elif name == "position":
            values.append(torch.arange(numbers[0], dtype=dtype, device=device))
        elif name in FUNCTIONS:
            values.append(_function(name)(*(values[n] for n in numbers)).to(dtype))
        else:
            values.append(_moved(name, numbers, values))
    return values[-1]


def _steps_read(name: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
    if name in ("input", "constant", "position"):
        return ()
    if name == "join":
        return numbers[1:]
    return numbers if name in FUNCTIONS or name == "row" else numbers[:1]


def _function(name: str) -> Callable[..., Any]:
    import torch

    if name == "cast":
        return lambda x: x
    if name == "keep":
        return lambda mask, x: torch.where(mask, x, torch.zeros_like(x))
    if name in ("and", "or", "xor"):
        return getattr(torch, f"bitwise_{name}")
    others = {"max": "maximum", "min": "minimum", "floor_div": "floor_divide"}
    return getattr(torch, others.get(name, name))


def _moved(name: str, numbers: tuple[int, ...], values: Sequence[Any]) -> Any:
    import torch

    first, *rest = numbers
    if name == "join":
        return torch.cat([values[n] for n in rest], first)
    x = values[first]
    if name == "reshape":
        return x.reshape(rest)
    if name == "repeat":
        return x.expand(rest)
    if name == "transpose":
        return x.permute(rest)
    if name == "slice":
        return x.narrow(*rest)
    at = values[rest[0]]
    return x[at.clamp(0, len(x) - 1)]
