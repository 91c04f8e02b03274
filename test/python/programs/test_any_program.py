"""Small programs drawn at random: tensors of rank 0 to 6 with sizes of 0, 1 and more, any type;
views, joins, sums and products of them; results that are inputs, views, constants or the same
twice. Each is executed and compared with PyTorch, or refused at the import in one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mirage as mi
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mirage.frontend.errors import FrontendError
from mirage.frontend.torch_import import ImportedGraph
from mirage.pipeline.commands.emulate import emulate
from torch import Tensor

EXAMPLES = int(os.environ.get("MIRAGE_EDGE_EXAMPLES", "25"))
FAST = {"candidates": 1, "jobs": 1, "budget": 30, "use_cache": False, "cubin": False}
SIZES = st.sampled_from([0, 1, 1, 2, 3, 5])
TYPES = [torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.float64]
CLOSE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
Step = Callable[[list[Tensor]], Tensor]


@dataclass
class Drawn:
    """A program: inputs, steps that each add a value to the previous ones, and the indices of the
    results."""

    inputs: list[Tensor]
    steps: list[tuple[str, Step]] = field(default_factory=list[tuple[str, Step]])
    results: list[int] = field(default_factory=list[int])

    def values(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        found = list(inputs)
        for _, step in self.steps:
            found.append(step(found))
        return found

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        found = self.values(inputs)
        return tuple(found[k] for k in self.results)

    def __repr__(self) -> str:
        inputs = [(tuple(x.shape), str(x.dtype)) for x in self.inputs]
        return f"inputs {inputs}, {[name for name, _ in self.steps]}, results {self.results}"


def like(x: Tensor, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(x.shape, generator=generator).to(x.dtype)


def _view(draw: st.DrawFn, i: int, x: Tensor) -> tuple[str, Step]:
    """Another view of value ``i``."""
    dims = list(range(x.dim()))
    kind = draw(st.sampled_from(["permute", "flatten", "unsqueeze", "slice", "expand", "row"]))
    if kind == "unsqueeze" and x.dim() < 6:
        d = draw(st.integers(0, x.dim()))
        return f"{i}.unsqueeze({d})", lambda v: v[i].unsqueeze(d)
    if kind == "slice" and dims:
        d = draw(st.sampled_from(dims))
        a, b = sorted(draw(st.tuples(*[st.integers(0, x.shape[d])] * 2)))
        return f"{i}.narrow({d}, {a}, {b - a})", lambda v: v[i].narrow(d, a, b - a)
    if kind == "expand" and x.dim() < 6:
        n = draw(SIZES)
        return f"{i}.expand({n})", lambda v: v[i].expand(n, *v[i].shape)
    if kind == "row" and dims and x.shape[0]:
        k = draw(st.integers(0, x.shape[0] - 1))
        return f"{i}[{k}]", lambda v: v[i][k]
    if kind == "flatten":
        return f"{i}.flatten()", lambda v: v[i].flatten()
    order = draw(st.permutations(dims))
    return f"{i}.permute({order})", lambda v: v[i].permute(order)


def _step(draw: st.DrawFn, values: Sequence[Tensor]) -> tuple[str, Step]:
    i = draw(st.integers(0, len(values) - 1))
    x = values[i]
    alike = [k for k, v in enumerate(values) if v.dtype == x.dtype]
    kind = draw(st.sampled_from(["view", "view", "map", "pair", "sum", "softmax", "cat", "matmul"]))
    if kind == "map":
        name = draw(st.sampled_from(["exp", "neg", "relu", "tanh", "abs", "clone", "square"]))
        return f"{name}({i})", lambda v: getattr(torch, name)(v[i])
    if kind == "pair":
        fit = [k for k in alike if _broadcasts(values[k], x)]
        k, name = draw(st.sampled_from(fit)), draw(st.sampled_from(["add", "mul", "maximum"]))
        return f"{name}({i}, {k})", lambda v: getattr(torch, name)(v[i], v[k])
    if kind == "sum" and x.dim():
        dims = sorted(draw(st.sets(st.integers(0, x.dim() - 1), min_size=1)))
        keep = draw(st.booleans())
        return f"sum({i}, {dims}, {keep})", lambda v: v[i].sum(dims, keepdim=keep)
    if kind == "softmax" and x.dim():
        d = draw(st.integers(0, x.dim() - 1))
        return f"softmax({i}, {d})", lambda v: torch.softmax(v[i], d)
    if kind == "cat" and x.dim():
        d = draw(st.integers(0, x.dim() - 1))
        fit = [k for k in alike if _joins(values[k], x, d)]
        k = draw(st.sampled_from(fit))
        return f"cat({i}, {k}, {d})", lambda v: torch.cat([v[i], v[k]], d)
    if kind == "matmul" and x.dim() >= 2:
        return f"{i} @ {i}^T", lambda v: v[i] @ v[i].transpose(-1, -2)
    return _view(draw, i, x)


def _broadcasts(a: Tensor, b: Tensor) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def _joins(a: Tensor, b: Tensor, dim: int) -> bool:
    return a.dim() == b.dim() and all(
        m == n or d == dim for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True))
    )


@st.composite
def programs(draw: st.DrawFn) -> Drawn:
    shapes = draw(st.lists(st.lists(SIZES, max_size=6), min_size=1, max_size=3))
    dtype = draw(st.sampled_from(TYPES))
    found = Drawn([like(torch.empty(s, dtype=dtype), k) for k, s in enumerate(shapes)])
    if draw(st.booleans()):
        shape = draw(st.lists(SIZES, max_size=3))
        found.steps.append((f"full({shape})", lambda v: torch.full(shape, 0.3, dtype=dtype)))
    for _ in range(draw(st.integers(0, 5))):
        values = found.values(found.inputs)
        step = _step(draw, values)
        if step[1](values).numel() <= 4096:
            found.steps.append(step)
    count = len(found.inputs) + len(found.steps)
    found.results = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
    return found


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(program=programs())
def test_any_program_is_right_or_refused_in_one_line(program: Drawn) -> None:
    try:
        imported = mi.from_torch(program, *program.inputs)
    except FrontendError as error:
        refused = error.message
    else:
        _check(program, imported)
        return
    assert "\n" not in refused


def _check(program: Drawn, imported: ImportedGraph) -> None:
    optimized = imported.superoptimize(**FAST)
    fresh = [like(x, 100 + k) * 0.5 for k, x in enumerate(program.inputs)]
    wanted, got = program(*fresh), emulate(optimized, *fresh)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        close = CLOSE[theirs.dtype]
        torch.testing.assert_close(mine, theirs, rtol=close, atol=close, equal_nan=True)
