"""A compiled program, run once on this machine's GPU, at its real size, and compared with the
PyTorch calls that it replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mirage.compiler.chips import default_chip
from mirage.cost.target import target_for
from mirage.emulator.run_artifact import TOLERANCE
from mirage.frontend.program import Program
from mirage.pipeline.call import Launcher, on_gpu, run_steps
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.result import Step
from mirage.runtime.launching.cuda_driver import first_device
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.transforms.partition.calls import as_calls

if TYPE_CHECKING:
    import torch

_SCALES = (0.5, 1 / 16, 1 / 256)
"""The scales of the numbers in inputs: large numbers may leave the range of f16 after several
layers."""
_MOST, _SOME, _FEW = 8.0, 64.0, 1e-3
"""The tolerances for an element's error; one element in a thousand may exceed the first number,
none may exceed the second."""


def on_this_gpu(
    program: Program,
    chip: str,
    graph: KernelGraph,
    steps: Sequence[Step],
    known: Sequence[KernelCheck] = (),
) -> list[KernelCheck]:
    """Check the whole program by running it once, if this machine has the GPU that it was compiled
    for. It is not run if it is ``known`` to have passed on such a GPU."""
    if first_device() is None or all(s.compiled is None for s in steps):
        return []
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available() or target_for(default_chip()).chip != target_for(chip).chip:
        return []
    how = f"once on {torch.cuda.get_device_name()}"
    before = [c for c in known if c.how == how and c.outcome is Outcome.PASSED]
    if before:
        return before
    outcome, text = beside_pytorch(program, chip, graph, steps, on_gpu({}), "cuda")
    return [KernelCheck("all", how, outcome, text)]


def beside_pytorch(
    program: Program,
    chip: str,
    graph: KernelGraph,
    steps: Sequence[Step],
    launch: Launcher,
    device: str,
) -> tuple[Outcome, str]:
    """Run the program, each part by ``launch``, and the PyTorch calls on ``device``, and compare
    the results."""
    import torch

    free = replace(program, parameters=(), results=None, carriers={})
    calls = as_calls(program.graph)
    reference = list(Builder(program, chip).steps(calls))
    for scale in _SCALES:
        try:
            inputs = list(_inputs(program, scale, device))
            with torch.no_grad():
                want = run_steps(free, calls, reference, launch, inputs, None)
            defined = [torch.isfinite(w.double()) for w in want]
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            first = str(error).partition("\n")[0]
            return Outcome.UNCHECKED, f"its reference does not run: {first}"
        if scale != _SCALES[-1] and not all(d.double().mean() > 0.5 for d in defined if d.numel()):
            continue
        try:
            with torch.no_grad():
                got = run_steps(free, graph, steps, launch, inputs, None)
            outputs = zip(got, want, defined, program.graph.outputs, strict=True)
            wrong = [problem for output in outputs if (problem := _problem(*output))]
        except torch.cuda.OutOfMemoryError:
            return Outcome.UNCHECKED, "the GPU's memory does not do for it and its reference"
        except Exception as error:  # a wrong kernel may cause any error of the driver
            return Outcome.FAILED, f"{type(error).__name__}: {error}"
        if wrong:
            return Outcome.FAILED, "; ".join(wrong)
        break
    elements = sum(v.type.size for v in program.graph.outputs)
    return Outcome.PASSED, f"at the real size, {elements:,} elements"


def _inputs(program: Program, scale: float, device: str) -> Iterator[torch.Tensor]:
    """Yield tensors on the device: the contents of buffers and constants, and random numbers for
    the other inputs."""
    import torch

    held = {p.index: p.data for p in program.parameters if not p.trained}
    generator = torch.Generator(device).manual_seed(0)
    for i, v in enumerate(program.graph.inputs):
        data: Any = held.get(i)
        dtype = getattr(torch, TORCH_NAMES[v.dtype.value])
        if data is not None and data.device.type != "meta":
            yield data.detach().to(device)
        elif v.dtype.is_integer:
            most = 2 if dtype is torch.bool else 4
            yield torch.randint(0, most, v.shape, generator=generator, device=device).to(dtype)
        else:
            yield (torch.randn(v.shape, generator=generator, device=device) * scale).to(dtype)


def _problem(got: Any, want: Any, defined: Any, value: Value) -> str:
    """Describe a problem of an output, or return ""."""
    if got.shape != want.shape:
        return f"an output has shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not defined.any():
        return ""
    y, w = got.double()[defined], want.double()[defined]
    allowed = TOLERANCE[value.dtype.value] * ((w * w).mean().sqrt() + w.abs())
    off = (y - w).abs()
    many = (~(off <= _MOST * allowed)).double().mean().item()
    if many <= _FEW and bool((off <= _SOME * allowed).all()):
        return ""
    return f"{many:.2%} of the elements of an output {value.type} differ from PyTorch's"
