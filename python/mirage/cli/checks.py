"""Checks of an optimized program's numbers with the means of this machine: an interpreter, the
emulator, a GPU.

Each check gives ``{check, against, error, allowed, ok, detail}``. Errors are relative L2 errors
against float64; allowed is twice the error that the reference program makes when it rounds as a GPU
does (or, on a GPU, that PyTorch makes).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.cli.programs import LoadedProgram
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import KernelGraph

if TYPE_CHECKING:
    import torch

    from mirage.pipeline.options import OptimizeOptions
    from mirage.runtime.serialization.artifact import Artifact

Array = np.ndarray[Any, Any]
Result = dict[str, Any]

ALLOWED = 2.0


def relative_error(got: Array, want: Array) -> float:
    """Return the norm of the difference over the norm of ``want``; infinite for NaN and
    infinity."""
    with np.errstate(invalid="ignore"):
        difference = float(np.linalg.norm(got.astype(np.float64) - want))
    error = difference / (float(np.linalg.norm(want)) or 1.0)
    return error if np.isfinite(error) else float("inf")


def _result(what: str, against: str, error: float, allowed: float, detail: str) -> Result:
    return {
        "check": what,
        "against": against,
        "error": error,
        "allowed": allowed,
        "ok": error <= allowed,
        "detail": detail,
    }


def _worst(got: tuple[Array, ...], want: tuple[Array, ...]) -> float:
    return max(relative_error(a, b) for a, b in zip(got, want, strict=True))


def _reference(graph: KernelGraph, inputs: tuple[Array, ...]) -> tuple[tuple[Array, ...], float]:
    """Return the program's results in float64, and the allowed error."""
    want = evaluate_floats(graph, inputs)
    return want, ALLOWED * _worst(evaluate_floats(graph, inputs, TypedFloat()), want)


def interpret(loaded: LoadedProgram, chosen: KernelGraph) -> Result:
    """Evaluate the chosen µGraph, every tile of it, on the CPU with the roundings of its types."""
    start = time.monotonic()
    inputs = loaded.inputs(0)
    want, allowed = _reference(loaded.graph, inputs)
    error = _worst(evaluate_floats(chosen, inputs, TypedFloat()), want)
    detail = f"{time.monotonic() - start:.1f} s"
    return _result(
        "µGraph interpreted, rounding as a GPU", "program in float64", error, allowed, detail
    )


def emulate_smaller(small: LoadedProgram, options: OptimizeOptions) -> Result:
    """Optimize a smaller version of the program in the same way and execute its PTX in the
    emulator.
    """
    from mirage.emulator.run_artifact import run_artifact
    from mirage.pipeline.optimize import optimize

    start = time.monotonic()
    optimized = optimize(small.program, options)
    inputs = small.inputs(0)
    want, allowed = _reference(small.graph, inputs)
    run = run_artifact(optimized.artifact, inputs)
    error = _worst(run.outputs, want)
    instructions = sum(c.instructions for c in run.counters)
    shapes = ", ".join("x".join(map(str, v.shape)) for v in small.graph.inputs)
    detail = (
        f"inputs {shapes}; {instructions:,} warp instructions, {time.monotonic() - start:.1f} s"
    )
    return _result(
        "PTX in the emulator, smaller sizes", "program in float64", error, allowed, detail
    )


def has_gpu() -> bool:
    """Return whether torch sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def on_the_gpu(loaded: LoadedProgram, artifact: Artifact) -> list[Result]:
    """Compare the artifact with torch: errors of both against float64, times of both in CUDA-graph
    replay.
    """
    import torch

    from mirage.runtime import Executable
    from mirage.runtime.serialization.manifest import TORCH_NAMES

    inputs = loaded.inputs(0)
    tensors = [
        torch.from_numpy(x).to(device="cuda", dtype=getattr(torch, TORCH_NAMES[spec.dtype]))
        for x, spec in zip(inputs, artifact.manifest.inputs, strict=True)
    ]
    program = Executable(artifact)
    eager = _eager(loaded, tensors)
    want = evaluate_floats(loaded.graph, inputs)
    out = program(inputs=tensors)
    with torch.no_grad():
        theirs = _worst(_arrays(eager()), want)
    error = _worst(_arrays(out), want)
    ours_us = graph_time(lambda: program(inputs=tensors, out=out))
    eager_us = graph_time(eager)
    detail = f"{ours_us:.2f} us, torch {eager_us:.2f} us (CUDA-graph replay, hot L2)"
    name = torch.cuda.get_device_name()
    return [_result(f"run on {name}", "program in float64", error, ALLOWED * theirs, detail)]


def _arrays(outputs: tuple[torch.Tensor, ...]) -> tuple[Array, ...]:
    return tuple(y.double().cpu().numpy() for y in outputs)


def _eager(
    loaded: LoadedProgram, tensors: list[torch.Tensor]
) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Run the program in PyTorch, on the same tensors."""
    import torch

    if loaded.workload is not None:
        module, arguments = loaded.workload.torch_module(), tensors
    else:
        bound = {p.index for p in loaded.program.parameters}
        arguments = [t for i, t in enumerate(tensors) if i not in bound]
        module = loaded.module
        if isinstance(module, torch.nn.Module):
            module = module.to("cuda")
    assert module is not None

    def call() -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            result = module(*arguments)
        return tuple(result) if isinstance(result, tuple | list) else (result,)

    return call


def graph_time(call: Callable[[], object], launches: int = 20, rounds: int = 30) -> float:
    """Return the median microseconds of one call in the replay of a CUDA graph of ``launches``
    calls."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples: list[float] = []
    for _ in range(rounds + 2):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / launches)
    return float(np.median(samples[2:]))
