"""Executes an optimized program on a CPU: its kernels in the emulator, its calls by PyTorch.

from mirage.pipeline.commands.emulate import emulate

y, = emulate(optimized, x, w)      # torch tensors on the CPU, all checks on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mirage.emulator.counters import Counters
from mirage.emulator.tensors import run_on_tensors
from mirage.pipeline.call import Runner

if TYPE_CHECKING:
    import torch

    from mirage.compiler import Compiled
    from mirage.pipeline.result import Optimized


def emulate(
    optimized: Optimized,
    *tensors: torch.Tensor | Sequence[torch.Tensor],
    checks: bool = True,
    counters: list[Counters] | None = None,
    write: bool = False,
) -> tuple[Any, ...]:
    """Return the results that calling ``optimized`` gives on a GPU; ``counters`` collects the
    counters of each kernel. With ``write``, inputs that it updates may be written in place. Raises
    the errors of :meth:`mirage.Optimized.__call__` and
    :func:`mirage.emulator.run_artifact.run_artifact`.
    """

    def launch(
        number: int, compiled: Compiled, inputs: list[torch.Tensor], follows: bool
    ) -> Sequence[torch.Tensor]:
        return run_on_tensors(compiled.artifact, inputs, checks=checks, counters=counters)

    runner = Runner(optimized.program, optimized.graph, optimized.steps)
    return runner(launch, tensors, None, write=write)
