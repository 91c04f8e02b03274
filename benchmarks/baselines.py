"""The PyTorch programs that a workload is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Program = Callable[..., Any]


def baselines(
    name: str, module: torch.nn.Module, inputs: Sequence[torch.Tensor], *, autotune: bool
) -> dict[str, Program]:
    """Variants of ``module`` by name: eager, compiled, and the library's attention where the
    program is plain attention.
    """
    torch._dynamo.reset()
    programs: dict[str, Program] = {
        "eager": module,
        "compile": torch.compile(module, dynamic=False),
    }
    if autotune:
        programs["max-autotune"] = torch.compile(
            module, dynamic=False, mode="max-autotune-no-cudagraphs"
        )
    if name.startswith(("gqa_", "mha_", "mqa_", "docs_attn")):
        programs["sdpa"] = _attention
    return {key: program for key, program in programs.items() if _works(key, program, inputs)}


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None].transpose(-1, -2), v[None], scale=1.0
    )[0]


def _works(name: str, program: Program, inputs: Sequence[torch.Tensor]) -> bool:
    try:
        with torch.no_grad():
            program(*inputs)
        torch.cuda.synchronize()
    except Exception as e:  # a baseline that torch cannot run is left out, not an error of ours
        print(
            f"    baseline {name} is left out: {type(e).__name__}: {str(e).splitlines()[0][:120]}"
        )
        return False
    return True
