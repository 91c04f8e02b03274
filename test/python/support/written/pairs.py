"""A pair of programs, and its verification."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import mirage as mi
import torch
from mirage.pipeline.commands.compare import stated
from mirage.semantics.substitute import without_dead_ops
from mirage.verify import Verdict, VerifyOptions
from mirage.verify.shared_inputs.bound_tensors import Aligned, Stated, align
from mirage.verify.verifier import verify_aligned

Program = Callable[..., object]
TESTS = str(Path(__file__).parents[2])
DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "b": torch.bool,
}


@dataclass(frozen=True)
class Pair:
    """Two programs with inputs that are written ``4x8 8:f16 4:i64`` (f32 by default). Without
    ``rounding`` only the functions are compared."""

    name: str
    inputs: str
    first: Program
    second: Program
    rounding: bool = True


def tensors(inputs: str) -> list[torch.Tensor]:
    """Return examples of such inputs."""
    generator = torch.Generator().manual_seed(0)
    found: list[torch.Tensor] = []
    for each in inputs.split():
        sizes, _, dtype = each.partition(":")
        shape = [int(n) for n in sizes.split("x")]
        kind = DTYPES[dtype or "f32"]
        if kind.is_floating_point:
            found.append(torch.randn(shape, generator=generator).to(kind))
        else:
            found.append(torch.randint(0, 2, shape, generator=generator).to(kind))
    return found


def _text(code: CodeType) -> CodeType:
    """The code, regardless of its place."""
    consts = tuple(_text(x) if isinstance(x, CodeType) else x for x in code.co_consts)
    return code.replace(co_consts=consts, co_firstlineno=1, co_linetable=b"")


def _names(code: CodeType) -> set[str]:
    inside = (_names(x) for x in code.co_consts if isinstance(x, CodeType))
    return set(code.co_names).union(*inside)


def written_as(x: object, within: tuple[object, ...] = ()) -> Hashable:
    """Return keys that are equal for functions of tests with the same text and the same meaning of
    its names, for numbers and texts that are written in the same way, and otherwise for identical
    objects."""
    if any(x is each for each in within):
        return "itself"
    if isinstance(x, FunctionType) and x.__code__.co_filename.startswith(TESTS):
        known = {name: x.__globals__[name] for name in _names(x.__code__) & x.__globals__.keys()}
        read = [cell.cell_contents for cell in x.__closure__ or ()]
        read += [*(x.__defaults__ or ()), *(known[name] for name in sorted(known))]
        meant = tuple(written_as(y, (*within, x)) for y in read)
        return _text(x.__code__), tuple(sorted(known)), meant
    return (type(x), repr(x)) if isinstance(x, bool | int | float | str) else id(x)


@cache
def _imported(pairs: tuple[Pair, ...]) -> tuple[Stated, dict[Hashable, int]]:
    """Combine all programs of pairs with the same inputs into one, since an export takes longer
    than a proof. Programs with the same code are one program, and share its number."""
    programs = {written_as(p): p for pair in pairs for p in (pair.first, pair.second)}

    def every(*xs: torch.Tensor) -> list[object]:
        return [program(*xs) for program in programs.values()]

    whole = stated(mi.from_torch(every, *tensors(pairs[0].inputs)).program)
    return whole, {text: number for number, text in enumerate(programs)}


def _one(every: Stated, number: int) -> Stated:
    """Return one of several programs."""
    start = f"[{number}]"
    at = [i for i, key in enumerate(every.keys) if key.startswith(start)]
    outputs = tuple(every.graph.outputs[every.results[i]] for i in at)
    graph = without_dead_ops(replace(every.graph, outputs=outputs))
    read = {v for op in graph.ops for v in op.operands} | set(outputs)
    held = {b.index: b for b in every.bound}
    kept = [i for i, v in enumerate(graph.inputs) if i not in held or v in read]
    bound = [replace(held[i], index=at) for at, i in enumerate(kept) if i in held]
    graph = replace(graph, inputs=tuple(graph.inputs[i] for i in kept))
    keys = tuple(every.keys[i].removeprefix(start) for i in at)
    return replace(every, graph=graph, bound=tuple(bound), keys=keys, results=tuple(range(len(at))))


def aligned_of(pair: Pair, among: Sequence[Pair]) -> Aligned:
    """Return both programs of the comparison; the others are imported with them."""
    alike = tuple(p for p in among if p.inputs == pair.inputs)
    every, numbers = _imported(alike)
    first, second = (_one(every, numbers[written_as(p)]) for p in (pair.first, pair.second))
    return align(first, second)


def verdict_of(pair: Pair, among: Sequence[Pair]) -> Verdict:
    """Return the verdict."""
    options = VerifyOptions(seed=7, numerics=pair.rounding, work=1e5)
    return verify_aligned(aligned_of(pair, among), options)
