"""Layers as people write them: all are imported with their meaning, and some go through all
stages."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
from executed_programs import FEW_CHOICES, executed
from gallery import case, cases
from gallery.running import call, compare, emulated
from mirage.pipeline.optimize import optimize
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import External
from thorough import some_of

pytest.importorskip("transformers")
pytest.importorskip("diffusers")

STAYS = {
    "convnext": {"aten.convolution"},
    "unet_resnet": {"aten.convolution"},
}
"""Ops that stay with PyTorch; other layers have none."""
OPTIMIZED = (
    "convnext",
    "convnext_tail",
    "mamba_projections",
    "mixer",
    "modernbert",
    "moe_dense",
    "moe_shared",
    "plain_encoder",
    "poolformer",
    "swiglu",
)
"""The cases that go through all stages."""
IMPORTED = [c.name for c in cases() if c.name not in OPTIMIZED]


@pytest.mark.parametrize("name", some_of(IMPORTED, 2))
def test_imported_layers_mean_what_pytorch_computes(name: str) -> None:
    layer = case(name).build("small")
    imported = mi.from_torch(layer.module, *layer.inputs, allow_fallback=case(name).fallback)
    check_graph(imported.graph)
    stays = {op.target for op in imported.graph.ops if isinstance(op, External)}
    assert stays == STAYS.get(name, set())
    if stays:
        return
    weights = [p.data.double().numpy() for p in imported.program.parameters]
    inputs = [x.double().numpy() for x in layer.inputs]
    ours = evaluate_floats(imported.graph, [*inputs, *weights])
    exact = call(layer.module.double(), [x.double() for x in layer.inputs])
    for x, y in zip(ours, exact, strict=True):
        # some layers always compute a part in float32
        np.testing.assert_allclose(x, y.numpy(), rtol=1e-5, atol=1e-5 * float(y.abs().max()))


@pytest.mark.parametrize("name", some_of(OPTIMIZED, 2))
def test_optimized_layers_are_verified_and_right(name: str) -> None:
    layer = case(name).build("small")
    imported = mi.from_torch(layer.module, *layer.inputs, allow_fallback=case(name).fallback)
    optimized = optimize(
        imported.program, executed(budget=600.0, use_cache=False, bounds=FEW_CHOICES)
    )
    stays = {step.external.target for step in optimized.steps if step.external is not None}
    assert stays >= STAYS.get(name, set())
    parts = {c.part for c in optimized.verdicts}
    assert parts == {c.part for c in optimized.verdicts if c.kept}
    result = compare(optimized, layer, emulated)
    assert result.right, (result.ours, result.torch)


def test_a_layer_is_the_same_each_time_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = (case("swiglu").build("small") for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    for x, y in zip(first.module.state_dict().values(), second.module.state_dict().values()):
        assert torch.equal(x, y)


def test_names_and_patterns() -> None:
    names = [c.name for c in cases()]
    assert len(names) == len(set(names)) >= 40
    assert [c.name for c in cases("torch_encoder*", "vit")] == [
        "torch_encoder_post",
        "torch_encoder_pre",
        "vit",
    ]
