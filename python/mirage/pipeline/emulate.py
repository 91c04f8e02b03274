"""Executes an optimized program on a CPU: its kernels in the emulator, its calls by PyTorch.

from mirage.pipeline.emulate import emulate

y, = emulate(optimized, x, w)      # torch tensors on the CPU, all checks on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mirage.emulator.artifact import run_artifact
from mirage.emulator.counters import Counters
from mirage.pipeline.call import run_steps
from mirage.runtime.manifest import TORCH_NAMES

if TYPE_CHECKING:
    import torch

    from mirage.compiler import Compiled
    from mirage.pipeline.result import Optimized


def emulate(
    optimized: Optimized,
    *tensors: torch.Tensor | Sequence[torch.Tensor],
    checks: bool = True,
    counters: list[Counters] | None = None,
) -> tuple[Any, ...]:
    """The results, as calling ``optimized`` gives them on a GPU; ``counters`` get those of each
    kernel. Raises what :meth:`mirage.Optimized.__call__` and
    :func:`mirage.emulator.artifact.run_artifact` raise.
    """
    import torch

    def launch(
        number: int, compiled: Compiled, inputs: list[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        manifest = compiled.artifact.manifest
        arrays = [x.detach().double().numpy() for x in inputs]
        run = run_artifact(compiled.artifact, arrays, checks=checks)
        if counters is not None:
            counters.extend(run.counters)
        return [
            torch.from_numpy(y.astype("float64").copy()).to(getattr(torch, TORCH_NAMES[spec.dtype]))
            for y, spec in zip(run.outputs, manifest.outputs, strict=True)
        ]

    return run_steps(optimized.program, optimized.graph, optimized.steps, launch, tensors, None)
