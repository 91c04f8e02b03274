"""One built-in program: its graph, the same program in PyTorch, and inputs for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder, new_kernel_graph
from mirage.frontend.program import Program
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.workloads.native import Native

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class InputSpec:
    """An input: values are normally distributed with standard deviation ``std`` around ``mean``.

    ``causal`` makes a ``(rows, keys)`` additive mask instead: 0 up to the diagonal, -30000 above
    it. ``lengths`` makes one of ``(batch, 1, 1, keys)``: 0 up to a random length for each sequence.
    ``below`` makes whole numbers from ``least`` on; with a ``page``, they are rows of a pool that
    has pages of ``page`` rows, each of which is used once."""

    name: str
    shape: tuple[int, ...]
    std: float = 1.0
    mean: float = 0.0
    causal: bool = False
    lengths: bool = False
    weight: bool = False  # belongs to the model rather than to the call
    dtype: DType | None = None  # if it differs from that of the program
    below: int = 0
    least: int = 0
    page: int = 0

    def sample(self, rng: np.random.Generator, dtype: DType) -> Array:
        """Return values in float32 that are exactly representable in ``dtype``."""
        if self.causal:
            rows, keys = self.shape
            return np.triu(np.full(self.shape, -30000.0, dtype=np.float32), k=1 + keys - rows)
        if self.lengths:
            batch, _, _, keys = self.shape
            ends = rng.integers(1 + keys // 2, keys + 1, size=(batch, 1, 1, 1))
            return np.where(np.arange(keys) < ends, 0.0, -30000.0).astype(np.float32)
        if self.page:
            first = rng.permutation(self.below // self.page) * self.page
            return (first[:, None] + np.arange(self.page)).reshape(self.shape).astype(np.float32)
        if self.below:
            return rng.integers(self.least, self.below, size=self.shape).astype(np.float32)
        drawn = rng.standard_normal(self.shape, dtype=np.float32)
        values = np.asarray(drawn * np.float32(self.std) + np.float32(self.mean))
        return values if dtype is DType.F32 else dtype.round(values).astype(np.float32)


@dataclass(frozen=True)
class Workload:
    """A named program. ``build`` and ``module`` define it twice, independently: as a graph and as
    PyTorch code."""

    name: str
    description: str
    inputs: tuple[InputSpec, ...]
    build: Callable[..., Tensor | tuple[Tensor, ...]]
    """``(graph, *tensors) -> result``, or several."""
    module: Callable[..., Any]
    """``(*torch tensors) -> torch tensor`` (or several), eager."""
    dtype: DType = DType.F16
    natives: tuple[Native, ...] = ()
    """Forms of the program with the library's own fused attention, if it has any."""
    exact: Callable[..., Any] | None = None
    """A form of ``module`` with less memory, for float64, if ``module`` would take too much."""
    together: Callable[[np.random.Generator], dict[str, Array]] | None = None
    """The values of inputs that depend on each other, by name."""
    tf32: bool = False
    """Whether PyTorch multiplies f32 as TF32 (``torch.set_float32_matmul_precision("high")``)."""
    family: str = ""
    """The kind of program for which others have written kernels, and numbers that are no sizes of
    its tensors (``windowed_attention 1024``): programs of one family differ only in sizes."""

    def program(self) -> Program:
        """Return the program in the form that the front ends give it."""
        return self._builder().program()

    def graph(self) -> KernelGraph:
        """Return the program as data."""
        return self._builder().build()

    def _builder(self) -> GraphBuilder:
        graph = new_kernel_graph(self.name)
        tensors = [
            graph.new_input(spec.shape, dtype, name=spec.name)
            for spec, dtype in zip(self.inputs, self.dtypes, strict=True)
        ]
        results = self.build(graph, *tensors)
        graph.mark_output(*(results if isinstance(results, tuple) else (results,)))
        return graph

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The element types of the inputs."""
        return tuple(spec.dtype or self.dtype for spec in self.inputs)

    def numpy_inputs(self, seed: int = 0) -> tuple[Array, ...]:
        """Return inputs as float32 arrays with values that their element types can represent."""
        rng = np.random.default_rng(seed)
        own = self.together(rng) if self.together else {}
        pairs = zip(self.inputs, self.dtypes, strict=True)
        return tuple(own[s.name] if s.name in own else s.sample(rng, t) for s, t in pairs)

    def torch_inputs(self, seed: int = 0, device: str = "cpu") -> tuple[torch.Tensor, ...]:
        """Return the values of :meth:`numpy_inputs` as tensors of the inputs' element types."""
        import torch

        types = [getattr(torch, TORCH_NAMES[dtype.value]) for dtype in self.dtypes]
        pairs = zip(self.numpy_inputs(seed), types, strict=True)
        return tuple(torch.from_numpy(a).to(device=device, dtype=dtype) for a, dtype in pairs)

    def torch_module(self) -> torch.nn.Module:
        """Return the program in PyTorch; all inputs, including weights, are arguments of
        ``forward``."""
        import torch

        function = self.module

        class Reference(torch.nn.Module):
            def forward(self, *tensors: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
                return function(*tensors)

        return Reference()
