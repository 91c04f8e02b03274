"""GELU written with the error function is imported as GELU, for any order of its factors; similar
formulas are not."""

from __future__ import annotations

import math
from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import KernelGraph
from thorough import some_of
from written.pairs import Pair, verdict_of

Program = Callable[[torch.Tensor], torch.Tensor]
ROOT = math.sqrt(2.0)

GELU: dict[str, Program] = {
    "half of x first": lambda x: x * 0.5 * (1 + torch.erf(x / ROOT)),
    "decimals, halved last": lambda x: x * (1 + torch.erf(x * 0.70710678)) / 2,
    "a constant first": lambda x: 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "x last": lambda x: 0.5 * (1 + torch.erf(x * 0.7071067811865476)) * x,
    "multiplied out": lambda x: 0.5 * x + 0.5 * x * torch.erf(x / ROOT),
    "by the complement": lambda x: 0.5 * x * torch.erfc(-x / ROOT),
    "less the complement": lambda x: x - 0.5 * x * torch.erfc(x / ROOT),
    "by the normal distribution": lambda x: x * torch.special.ndtr(x),
    "one last": lambda x: x / 2 * (torch.erf(x / ROOT) + 1),
    "negatives": lambda x: -(x * 0.5 * (torch.erf(-x / ROOT) - 1)),
    "a power": lambda x: x * 0.5 * (1 + torch.erf(x * 2**-0.5)),
    "a root of a tensor": lambda x: x * 0.5 * (1 + torch.erf(x / torch.sqrt(torch.tensor(2.0)))),
}
SCALED: dict[str, Program] = {
    "another scale": lambda x: x * (1 + torch.erf(x * 0.7)),
    "four digits": lambda x: x * 0.5 * (1 + torch.erf(x / 1.4142)),
    "the other side": lambda x: x * 0.5 * (1 - torch.erf(x / ROOT)),
    "of a square": lambda x: (x * x) * (1 + torch.erf(x * x * 0.3)),
    "with a gate": lambda x: x[:, :4] * (x[:, 4:] * 0.5 * (1 + torch.erf(x[:, 4:] / ROOT))),
    "with a gate before": lambda x: x[:, :4] * x[:, 4:] * (1 + torch.erf(x[:, 4:] / ROOT)),
}
OTHER: dict[str, Program] = {
    "no one": lambda x: x * torch.erf(x),
    "no factor": lambda x: torch.erf(x) + 1,
    "nearly one": lambda x: x * 0.5 * (1.001 + torch.erf(x / ROOT)),
    "of something else": lambda x: x[:, :4] * 0.5 * (1 + torch.erf(x[:, 4:] / ROOT)),
    "with a cast": lambda x: x * 0.5 * (1 + torch.erf(x.half().float() / ROOT)),
    "rounded by a large number": lambda x: x * (((1 + torch.erf(x)) + 12582912.0) - 12582912.0),
}
WRONG: dict[str, Program] = {
    "four digits": SCALED["four digits"],
    "six digits": lambda x: x * 0.5 * (1 + torch.erf(x * 0.707106)),
    "the other side": SCALED["the other side"],
    "nearly one": OTHER["nearly one"],
    "by a hyperbolic tangent": lambda x: F.gelu(x, approximate="tanh"),
    "no root": lambda x: x * 0.5 * (1 + torch.erf(x / 2)),
    "not halved": lambda x: x * (1 + torch.erf(x / ROOT)),
    "other inputs": lambda x: x * 0.5 * (1 + torch.erf(x.flip(1) / ROOT)),
}


def imported(program: Program, dtype: torch.dtype = torch.float32) -> KernelGraph:
    return mi.from_torch(program, torch.randn(8, 8).to(dtype)).graph


def is_computed(graph: KernelGraph, program: Program) -> bool:
    """Up to the precision of constants of seven digits."""
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    (got,) = evaluate_floats(graph, [x.numpy()])
    return torch.allclose(torch.from_numpy(got), program(x), rtol=1e-7, atol=1e-8)


def functions(graph: KernelGraph) -> list[object]:
    return [op.function for op in graph.ops]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", some_of(GELU, 2))
def test_gelu_by_an_error_function_is_gelu(name: str, dtype: torch.dtype) -> None:
    graph = imported(GELU[name], dtype)
    assert functions(graph) == [UnaryFn.GELU]
    assert is_computed(graph, GELU[name])


@pytest.mark.parametrize("name", SCALED)
def test_so_is_one_with_other_factors(name: str) -> None:
    graph = imported(SCALED[name])
    assert functions(graph).count(UnaryFn.GELU) == 1
    assert len(graph.ops) <= 8, graph.ops  # the error function does not remain
    assert is_computed(graph, SCALED[name])


@pytest.mark.parametrize("name", OTHER)
def test_what_is_none_keeps_its_error_function(name: str) -> None:
    graph = imported(OTHER[name])
    assert len(graph.ops) > 20
    if name not in ("with a cast", "rounded by a large number"):
        assert is_computed(graph, OTHER[name])


def test_precision_is_that_of_the_program() -> None:
    """Half-precision values that are widened first are not computed in half precision."""
    graph = imported(lambda x: x.float() * 0.5 * (1 + torch.erf(x.float() / ROOT)), torch.float16)
    (gelu,) = (op for op in graph.ops if op.function is UnaryFn.GELU)
    assert gelu.operands[0].dtype.value == "f32"


@pytest.mark.parametrize("name", some_of(GELU, every=3))
def test_it_is_proved(name: str) -> None:
    pair = Pair(name, "6x12", F.gelu, GELU[name])
    assert verdict_of(pair, [pair]).accepted


@pytest.mark.parametrize("name", some_of(WRONG, 2))
def test_no_other_one_is_accepted(name: str) -> None:
    pair = Pair(name, "6x12", F.gelu, WRONG[name])
    assert not verdict_of(pair, [pair]).accepted
