"""What the search emits becomes PTX that computes the program; executed with all checks."""

from __future__ import annotations

import pytest
from lowering import check_graph
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import stabilize
from search_programs import (
    attention,
    grouped_heads,
    layer_norm_linear_gelu,
    lora,
    matmul,
    n_transformer,
    qk_norm_attention,
    residual_rms_linear,
    rms_linear,
    rms_swiglu_down,
    self_attention,
    softmax,
    swiglu,
)

PROGRAMS = [
    rms_linear(4, 64, 96),
    rms_linear(3, 100, 70),
    rms_linear(1, 7, 1),
    rms_linear(5, 48, 40, DType.F32),
    rms_linear(5, 48, 40, DType.BF16),
    swiglu(5, 96, 80),
    swiglu(130, 33, 17),
    lora(16, 80, 20, 100),
    attention(2, 16, 64, 16),
    attention(2, 20, 101, 24),
    attention(3, 1, 130, 16),
    qk_norm_attention(2, 9, 77, 10),
    softmax(5, 37),
    matmul(1, 1, 1),
    matmul(1, 600, 1),
    matmul(257, 33, 131),
    n_transformer(4, 96),
    layer_norm_linear_gelu(8, 100, 48),
    residual_rms_linear(6, 128, 56),
    rms_swiglu_down(4, 64, 96),
    self_attention(24, 40, 16),
    grouped_heads(12, 4, 16, 50),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda g: f"{g.name}-{g.inputs[0].type}")
def test_candidates(program: KernelGraph) -> None:
    candidates = superoptimize(program, H200).candidates
    assert candidates
    for candidate in candidates[:2]:
        check_graph(stabilize(candidate.graph).graph, program)
