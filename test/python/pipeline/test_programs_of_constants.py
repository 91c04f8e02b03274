"""Programs with several constants get a result: folding is exact, and kernels are correct."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.emulator.run_artifact import check_artifact
from mirage.semantics.ugraph import Constant
from mirage.verify import Kind
from thorough import some_of


def gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3))))


PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda x: x * 0.797 * 0.3, ((32, 64),)),
    "sum": (lambda x: x + 0.12345 + 0.6789, ((32, 64),)),
    "quotient": (lambda x: x / 3.0 * 0.7 - 0.1 / 7, ((32, 64),)),
    "matmul": (lambda x, w: (x @ w) * 0.0883883 * 0.7071067, ((16, 64), (64, 32))),
    "roots": (lambda x, w: (x * 96**-0.25) @ (w * 96**-0.25), ((16, 64), (64, 32))),
    "mean": (lambda x: (x * 0.1).mean(1) * 0.7 + 1e-6, ((16, 96),)),
    "gelu": (gelu, ((32, 64),)),
    "tensors": (lambda x: x * torch.tensor(0.1) * torch.tensor(0.7), ((32, 64),)),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, 4))
def test_constants_are_folded_and_proved(name: str) -> None:
    function, shapes = PROGRAMS[name]
    inputs = [torch.from_numpy(x) for x in arrays(shapes)]
    optimized = mi.from_torch(function, *inputs).superoptimize(candidates=2, jobs=1)
    assert all(c.verdict.kind is Kind.PROVED and c.kept for c in optimized.verdicts)

    def reference(*xs: np.ndarray) -> np.ndarray:
        return function(*map(torch.from_numpy, xs)).numpy()

    check_artifact(optimized.artifact, reference, inputs=arrays(shapes))


def arrays(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


def constants(function: Callable[..., object], *inputs: torch.Tensor) -> set[object]:
    graph = mi.from_torch(function, *inputs).graph
    return {op.value for op in graph.ops if isinstance(op, Constant)}


def test_numbers_are_read_as_written() -> None:
    x = torch.randn(4, 6)
    assert constants(lambda x: x * 0.1 + 1 / 3, x) == {Fraction(1, 10), Fraction(1, 3)}
    assert constants(lambda x: x.mean(1), x) == {Fraction(1, 6)}
    assert constants(lambda x: torch.add(x, 0.3, alpha=0.1), x) == {Fraction(3, 100)}
    assert constants(lambda x: x * torch.tensor(0.1), x) == {Fraction(1, 10)}
    single = Fraction(float(torch.tensor(0.10000001)))  # whose nearest number needs many digits
    assert constants(lambda x: x * torch.tensor(0.10000001), x) == {single}
