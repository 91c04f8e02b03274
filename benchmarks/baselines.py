"""The PyTorch programs that a workload is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accuracy import Errors, exact_results, results_of
from mirage.workloads import Workload
from mirage.workloads.native import Inputs, Native, as_they_are
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    import triton_peers
except ImportError:  # no Triton on this machine
    triton_peers = None

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
ALLOWED = 4.0
"""The largest error of a peer, as a multiple of the eager program's."""


@dataclass(frozen=True)
class Baseline:
    """A program, and a layout of the inputs that suits it; changing the layout is not timed."""

    program: Callable[..., Any]
    prepare: Callable[[Inputs], Inputs] = as_they_are


def baselines(
    workload: Workload,
    module: torch.nn.Module,
    inputs: Inputs,
    *,
    autotune: bool,
    tuned: bool = True,
) -> dict[str, Baseline]:
    """Return variants of ``module`` by name: eager and compiled; if the program has attention, the
    library's kernels for it, in their preferred form; others that it names; and, with ``tuned``, a
    kernel tuned for it in Triton if its family has one. Variants that cannot run, or are wrong, are
    left out.
    """
    torch._dynamo.reset()
    found = {
        "eager": Baseline(module),
        "compile": Baseline(torch.compile(module, dynamic=False)),
    }
    if autotune:
        mode = "max-autotune-no-cudagraphs"
        found["max-autotune"] = Baseline(torch.compile(module, dynamic=False, mode=mode))
    for native in workload.natives:
        if not native.attention:
            found[native.name] = Baseline(native.program, native.prepare)
            continue
        for key, backend in BACKENDS.items():
            label = "-".join(x for x in ("sdpa", key, native.name) if x)
            found[label] = with_backend(backend, native, native.program)
            if not native.alone:
                whole = torch.compile(native.program, dynamic=False)
                found[f"compile-{label}"] = with_backend(backend, native, whole)
    written = triton_peers.peer(workload) if triton_peers and tuned else None
    if written is not None:
        found["triton"] = Baseline(written)
    exact = exact_results(workload.exact or module, inputs)
    allowed = Errors.of_all(results_of(module, inputs), exact)
    return {
        key: baseline
        for key, baseline in found.items()
        if key == "eager" or _works(key, baseline, inputs, exact, allowed)
    }


def with_backend(backend: SDPBackend, native: Native, program: Callable[..., Any]) -> Baseline:
    """Run a form of attention with one of the library's kernels."""

    def run(*inputs: torch.Tensor) -> Any:
        with sdpa_kernel(backend):
            return program(*inputs)

    return Baseline(run, native.prepare)


def _works(
    name: str, baseline: Baseline, inputs: Inputs, exact: Sequence[torch.Tensor], allowed: Errors
) -> bool:
    try:
        got = results_of(baseline.program, baseline.prepare(inputs))
        torch.cuda.synchronize()
    # a baseline that torch cannot run is left out; this is not an error of ours
    except Exception as e:
        reason = f"{type(e).__name__}: {str(e).splitlines()[0][:120]}"
        print(f"    baseline {name} is left out: {reason}")
        return False
    errors = Errors.of_all(got, tuple(exact))
    if not errors.within(ALLOWED, allowed):
        print(f"    baseline {name} is left out: its error is {errors.l2:.1e} of {allowed.l2:.1e}")
        return False
    return True
