"""The PyTorch programs that a workload is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

Inputs = tuple[torch.Tensor, ...]


def _as_they_are(inputs: Inputs) -> Inputs:
    return inputs


@dataclass(frozen=True)
class Baseline:
    """A program, and a layout of the inputs that suits it; changing the layout is not timed."""

    program: Callable[..., Any]
    prepare: Callable[[Inputs], Inputs] = _as_they_are


def baselines(
    name: str, module: torch.nn.Module, inputs: Inputs, *, autotune: bool
) -> dict[str, Baseline]:
    """Variants of ``module`` by name: eager and compiled, and where the program is plain attention
    the library's kernels for it, which get K stored as they like it best.
    """
    torch._dynamo.reset()
    found = {
        "eager": Baseline(module),
        "compile": Baseline(torch.compile(module, dynamic=False)),
    }
    if autotune:
        mode = "max-autotune-no-cudagraphs"
        found["max-autotune"] = Baseline(torch.compile(module, dynamic=False, mode=mode))
    if name.startswith(("gqa_", "mha_", "mqa_", "docs_attn")):
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            key = "sdpa-" + backend.name.removesuffix("_ATTENTION").lower()
            found[key] = Baseline(_attention(backend), _keys_by_row)
    return {key: baseline for key, baseline in found.items() if _works(key, baseline, inputs)}


def _keys_by_row(inputs: Inputs) -> Inputs:
    q, k, v = inputs
    return q, k.transpose(-1, -2).contiguous(), v


def _attention(backend: SDPBackend) -> Callable[..., torch.Tensor]:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(q[None], k[None], v[None], scale=1.0)[0]

    return attention


def _works(name: str, baseline: Baseline, inputs: Sequence[torch.Tensor]) -> bool:
    try:
        with torch.no_grad():
            baseline.program(*baseline.prepare(tuple(inputs)))
        torch.cuda.synchronize()
    except Exception as e:  # a baseline that torch cannot run is left out, not an error of ours
        reason = f"{type(e).__name__}: {str(e).splitlines()[0][:120]}"
        print(f"    baseline {name} is left out: {reason}")
        return False
    return True
