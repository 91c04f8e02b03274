"""Kernels in Triton compute what their programs compute: small programs of each family, in Triton's
interpreter on the CPU (if Triton is installed)."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported
pytestmark = pytest.mark.thorough

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import triton_peers  # noqa: E402
from mirage.semantics.scalar import DType  # noqa: E402
from mirage.workloads import (  # noqa: E402
    attention,
    expert_layers,
    linear,
    long_rows,
    position_programs,
    products,
    prompts,
    served,
)
from mirage.workloads.workload import Workload  # noqa: E402

WINDOW = position_programs.window(48)
PREFIX = position_programs.prefix(40)
PROGRAMS: dict[str, Callable[[], Workload]] = {
    "attention": lambda: attention.plain_attention("", "", 2, 20, 16, 96),
    "scaled": lambda: attention.scaled_attention("", "", 2, 8, 16, 128),
    "causal": lambda: attention.positional_attention("", "", 2, 96, 16),
    "norms": lambda: attention.qk_norm_attention("", 2, 32, 16, 96),
    "window": lambda: attention.positional_attention("", "", 2, 160, 16, 48),
    "latent": lambda: attention.latent_attention("", 1, 32, 48, 32, 128),
    "grouped": lambda: served.grouped_attention("", 2, 8, 2, 1, 16, 96),
    "masked": lambda: served.grouped_attention("", 2, 8, 2, 1, 16, 96, mask="length"),
    "rotary": lambda: served.rope_attention("", 2, 64, 16),
    "prompt": lambda: prompts.prompt_attention("", 4, 2, 72, 16, False),
    "causal prompt": lambda: prompts.prompt_attention("", 4, 2, 160, 16, True),
    "window prompt": lambda: position_programs.masked_prompt(
        "", 4, 2, 160, 16, WINDOW, "windowed_attention 48"
    ),
    "prefix": lambda: position_programs.masked_prompt(
        "", 4, 2, 160, 16, PREFIX, "prefix_attention 40"
    ),
    "slopes": lambda: position_programs.alibi_prompt("", 4, 2, 96, 16),
    "lengths": lambda: position_programs.decode_lengths("", 3, 4, 2, 16, 128),
    "pages": lambda: position_programs.decode_lengths("", 3, 4, 2, 16, 128, 16),
    "rms product": lambda: linear.rms_matmul("", 4, 4096, 256),
    "rms gain": lambda: linear.rms_matmul("", 4, 128, 64, gain=True),
    "gate": lambda: linear.gated_mlp("", 4, 4096, 256),
    "lora": lambda: linear.lora("", 4, 128, 16, 128),
    "qkv": lambda: served.rms_qkv("", 4, 128, 64, 32),
    "silu": lambda: served.rms_silu_linear("", 4, 128, 64),
    "residual": lambda: linear.residual_rms_qkv("", 4, 128, 64),
    "gelu": lambda: linear.layer_norm_linear_gelu("", 4, 128, 64),
    "mlp": lambda: linear.layer_norm_mlp("", 5, 128, 256),
    "swiglu": lambda: linear.rms_swiglu_down("", 4, 128, 256),
    "experts": lambda: linear.expert_layer("", 2, 4, 128),
    "grouped experts": lambda: replace(
        expert_layers.grouped_experts("", 40, 4, 2, 128, 64, 16), dtype=DType.F16
    ),
    "many experts": lambda: replace(
        expert_layers.grouped_experts("", 6, 32, 2, 64, 64, 16), dtype=DType.F16
    ),
    "routed experts": lambda: replace(
        expert_layers.routed_experts("", 5, 16, 3, 64, 128), dtype=DType.F16
    ),
    "adapters": lambda: served.lora_swiglu("", 4, 128, 128, 16),
    "low rank": lambda: linear.low_rank_mlp("", 4, 1024, 8, 128),
    "product": lambda: products.matmul("", 128, 192, 128),
    "odd product": lambda: products.matmul("", 33, 71, 47),
    "linear": lambda: products.linear_layer("", 96, 128, 128),
    "tf32": lambda: products.linear_layer("", 64, 64, 64, DType.F32, tf32=True),
    "projection": lambda: prompts.projection_residual("", 128, 128, 192),
    "gated product": lambda: replace(linear.gated_mlp("", 128, 128, 128), family="gated_product"),
    "norm products": lambda: replace(served.rms_qkv("", 128, 128, 128, 64), family="norm_products"),
    "softmax": lambda: linear.softmax_rows("", 4, 100),
    "rms": lambda: long_rows.rms_norm("", 2, 4100),
    "layer norm": lambda: long_rows.layer_norm("", 2, 4100),
    "groups": lambda: served.group_norm("", 2, 8, 40, 2),
    "mix": lambda: linear.n_transformer("", 3, 100),
    "loss": lambda: served.cross_entropy("", 3, 5000),
    "targets": lambda: position_programs.target_loss("", 3, 5000),
    "embedding": lambda: position_programs.embedding_norm("", 3, 50, 100),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_their_program_computes(name: str) -> None:
    workload = PROGRAMS[name]()
    peer = triton_peers.peer(workload)
    assert peer is not None
    inputs = workload.torch_inputs(0)
    wide = [x.double() if x.dtype.is_floating_point else x for x in inputs]
    expected = _tuple((workload.exact or workload.module)(*wide))
    eager = _tuple(workload.module(*inputs))
    configs = list(peer.configs(inputs))
    assert configs
    for config in (configs[0], configs[len(configs) // 2], configs[-1]):
        got = _tuple(peer.launch(inputs, config))
        for ours, theirs, exact in zip(got, eager, expected, strict=True):
            assert ours.shape == exact.shape
            most = max(4.0 * _error(theirs, exact), 1e-3)
            assert _error(ours, exact) <= most, config


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _error(x: Any, exact: Any) -> float:
    return float((x.double() - exact.double()).norm() / exact.double().norm())
