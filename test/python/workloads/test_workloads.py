"""The built-in programs: graphs and PyTorch code agree, and names are as documented."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.frontend.torch_import.capture import folding
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.workloads import UnknownWorkload, Workload, all_workloads, get, names
from mirage.workloads.attention import (
    plain_attention,
    positional_attention,
    qk_norm_attention,
    scaled_attention,
)
from mirage.workloads.expert_layers import grouped_experts, routed_experts
from mirage.workloads.layers import (
    Layer,
    chameleon_layer,
    gpt_lora_layer,
    llama_layer,
    ngpt_layer,
)
from mirage.workloads.linear import (
    expert_layer,
    gated_mlp,
    layer_norm_linear_gelu,
    lora,
    low_rank_mlp,
    n_transformer,
    residual_rms_qkv,
    rms_matmul,
    rms_swiglu_down,
    softmax_rows,
)
from mirage.workloads.position_programs import (
    alibi_prompt,
    decode_lengths,
    embedding_norm,
    masked_prompt,
    prefix,
    target_loss,
    window,
)
from mirage.workloads.products import linear_layer, matmul, scaled
from mirage.workloads.prompts import llama_prompt, projection_residual, prompt_attention
from mirage.workloads.served import (
    cross_entropy,
    gained_qk_norm,
    group_norm,
    grouped_attention,
    lora_swiglu,
    rms_qkv,
    rms_silu_linear,
    rope_attention,
    softmax_vocabulary,
)
from thorough import some_of

SMALL = [
    plain_attention("plain", "", 2, 6, 8, 24),
    qk_norm_attention("qk_norm", 2, 6, 8, 24),
    scaled_attention("scaled", "", 2, 6, 8, 24),
    scaled_attention("causal", "", 2, 24, 8, 24, True),
    positional_attention("positions", "", 2, 24, 8),
    positional_attention("window", "", 2, 24, 8, 5),
    rms_matmul("rms", 4, 32, 12),
    rms_matmul("rms_gain", 4, 32, 12, gain=True),
    lora("lora", 4, 32, 2, 12),
    gated_mlp("gmlp", 4, 32, 12),
    n_transformer("ntrans", 4, 32),
    softmax_rows("softmax", 4, 32),
    matmul("mm", 32, 16, 8),
    linear_layer("linear", 6, 16, 8),
    rms_swiglu_down("swiglu", 4, 32, 24),
    residual_rms_qkv("qkv", 4, 32, 24),
    layer_norm_linear_gelu("ln", 4, 32, 24),
    low_rank_mlp("low_rank", 4, 32, 2, 12),
    expert_layer("experts", 3, 4, 16),
    grouped_attention("heads", 2, 6, 2, 1, 8, 24),
    grouped_attention("lengths", 2, 6, 2, 1, 8, 24, "length"),
    grouped_attention("rows", 2, 6, 2, 3, 8, 24, "causal"),
    gained_qk_norm("gains", 2, 6, 8, 24),
    rope_attention("rope", 2, 12, 8),
    rms_qkv("qkv_apart", 4, 32, 24, 8),
    lora_swiglu("lora_swiglu", 4, 32, 24, 2),
    rms_silu_linear("rms_silu", 4, 32, 24),
    group_norm("groups", 2, 12, 10, 3),
    cross_entropy("cross_entropy", 4, 50),
    softmax_vocabulary("vocabulary", 4, 50),
    prompt_attention("prompt", 4, 2, 12, 8, False),
    prompt_attention("prompt_causal", 4, 2, 12, 8, True),
    projection_residual("residual", 6, 16, 8),
    llama_prompt("llama_prompt", 10, Layer(32, 4, 2, 8, 24)),
    llama_layer("llama", 3, Layer(32, 4, 2, 8, 24, 10)),
    chameleon_layer("chameleon", 3, Layer(32, 4, 4, 8, 24, 10)),
    gpt_lora_layer("gpt", 3, Layer(32, 4, 4, 8, 24, 10, 2)),
    ngpt_layer("ngpt", 3, Layer(32, 4, 4, 8, 24, 10)),
]
INDEXED = [
    masked_prompt("window", 4, 2, 24, 16, window(5)),
    masked_prompt("prefix", 4, 2, 24, 16, prefix(7)),
    alibi_prompt("alibi", 4, 2, 24, 16),
    decode_lengths("ragged", 3, 4, 2, 16, 40),
    decode_lengths("paged", 3, 4, 2, 16, 48, 8),
    embedding_norm("embedding", 5, 50, 16),
    target_loss("targets", 5, 50),
    routed_experts("routed", 5, 4, 2, 16, 8),
    grouped_experts("grouped", 5, 4, 2, 16, 8, 4),
]
"""Programs with indices, or with masks that the library applies in one call."""


def in_float64(workload: Workload) -> tuple[torch.Tensor, ...]:
    given = workload.torch_inputs(3)
    return tuple(x.double() if x.is_floating_point() else x for x in given)


@pytest.mark.parametrize("workload", SMALL + INDEXED, ids=lambda w: w.name)
def test_graph_and_module_agree(workload: Workload) -> None:
    ours = evaluate_floats(workload.graph(), workload.numpy_inputs(seed=3))
    with torch.no_grad():
        theirs = workload.torch_module()(*in_float64(workload))
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-12)


def test_every_program_is_well_formed() -> None:
    for workload in all_workloads():
        graph = workload.graph()
        check_graph(graph)
        assert [v.name for v in graph.inputs] == [spec.name for spec in workload.inputs]


DOCUMENTED = [
    *(f"gqa_bs{b}_kv{kv}" for b in (1, 8, 16) for kv in (4096, 8192)),
    *(
        f"{family}_bs{b}"
        for family in ("qknorm", "mha", "mqa", "rms_mm6144", "rms_mm4096", "ntrans")
        for b in (1, 8, 16)
    ),
    *(f"{family}_m{m}" for family in ("lora", "gmlp", "rms_swiglu_down") for m in (1, 8, 16)),
    *(f"softmax_n{n}" for n in (256, 1024, 4096, 16384, 32768, 65536, 262144)),
    *(f"{norm}_n{n}" for norm in ("rms_norm", "layer_norm") for n in (65536, 262144)),
    *(f"mm_{n}" for n in (1024, 2048, 4096, 8192)),
    *(f"decode_b{b}" for b in (1, 8, 16)),
    *(f"linear_m{m}_28672x4096" for m in (16, 64, 256, 2048)),
    *(
        "docs_attn",
        "mm_1000_bf16",
        "mm_583x931x257",
        "prefill",
        "prefill_causal_mask",
        "prefill_causal",
        "prefill_window",
        "residual_rms_qkv_m1",
        "residual_rms_qkv_m8",
        "ln_linear_gelu_m8",
    ),
]


def test_names() -> None:
    assert set(DOCUMENTED) <= set(names())
    assert len(set(names())) == len(names())


def test_documented_shapes() -> None:
    shapes = {spec.name: spec.shape for spec in get("gqa_bs8_kv4096").inputs}
    assert shapes == {"q": (16, 256, 64), "k": (16, 64, 4096), "v": (16, 4096, 64)}
    assert [spec.shape for spec in get("rms_mm6144_bs8").inputs] == [(16, 4096), (4096, 6144)]


def test_unknown_name_suggests() -> None:
    with pytest.raises(UnknownWorkload, match=r"got 'gqa_bs1_kv409'; did you mean gqa_bs1_kv4096"):
        get("gqa_bs1_kv409")


def test_inputs_are_representable_and_reproducible() -> None:
    workload = get("lora_m8")
    first, again, other = (
        workload.numpy_inputs(1),
        workload.numpy_inputs(1),
        workload.numpy_inputs(2),
    )
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()
        np.testing.assert_array_equal(a, a.astype(np.float16).astype(np.float32))
    assert workload.torch_inputs(1)[0].dtype is torch.float16


@pytest.mark.parametrize("workload", some_of(SMALL), ids=lambda w: w.name)
def test_the_module_is_imported(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "SMALL_BYTES", 256)  # masks stay computed from positions
    arrays = workload.numpy_inputs(seed=3)
    tensors = [torch.from_numpy(x).double() for x in arrays]
    imported = mi.from_torch(workload.torch_module(), *tensors)
    ours = evaluate_floats(imported.graph, arrays)
    for a, b in zip(ours, evaluate_floats(workload.graph(), arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "workload", some_of([w for w in SMALL + INDEXED if w.natives], every=3), ids=lambda w: w.name
)
def test_native_attention_computes_the_same(workload: Workload) -> None:
    inputs = in_float64(workload)
    expected = workload.module(*inputs)
    for native in workload.natives:
        got = native.program(*native.prepare(inputs))
        assert torch.allclose(got, expected, rtol=1e-9, atol=1e-11), native.name


@pytest.mark.parametrize("workload", [w for w in SMALL + INDEXED if w.exact], ids=lambda w: w.name)
def test_what_is_exact_computes_the_same(workload: Workload) -> None:
    inputs = in_float64(workload)
    assert workload.exact is not None
    got, expected = workload.exact(*inputs), workload.module(*inputs)
    assert torch.allclose(got, expected, rtol=1e-9, atol=1e-11)


def test_products_of_eight_bits() -> None:
    """PyTorch's product accepts only such tensors; scales are tensors of rank 0."""
    workload = scaled("scaled", 16, 48, 32)
    inputs = workload.torch_inputs(3)
    kinds = [torch.float8_e4m3fn, torch.float8_e4m3fn, torch.float32, torch.float32]
    assert [x.dtype for x in inputs] == kinds
    assert [tuple(x.shape) for x in inputs] == [spec.shape for spec in workload.inputs]
    assert workload.exact is not None
    exact = workload.exact(*(x.double() for x in inputs))
    (ours,) = evaluate_floats(workload.graph(), workload.numpy_inputs(3))
    np.testing.assert_allclose(ours, exact.numpy(), rtol=1e-9, atol=1e-12)
    for module in (workload.module, *(native.program for native in workload.natives)):
        got = module(*inputs)
        assert got.dtype is torch.bfloat16
        torch.testing.assert_close(got.double(), exact, rtol=2.0**-8, atol=1e-3)
    imported = mi.from_torch(workload.torch_module(), *inputs)
    (again,) = evaluate_floats(imported.graph, workload.numpy_inputs(3))
    np.testing.assert_allclose(again, ours, rtol=1e-9, atol=1e-12)
