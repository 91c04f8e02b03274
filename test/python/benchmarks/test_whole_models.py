"""The benchmark of whole models: its plain decoders equal Transformers', its costs are correct, and
exported models compute the same."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from thorough import some_of

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import encoder_models
import measured_models
from decoder_models import USES, Decoder, arguments, costs, random_weights
from decoders import DECODERS
from encoder_models import ENCODERS, PlainEncoder, argument
from executed_programs import FEW_CHOICES, executed
from exported_models import exported
from mirage.runtime import load
from plain_decoder import Attention
from plain_models import plain
from transformers_decoder import served
from transformers_encoder import Encoded, untouched

TINY = DECODERS["tiny"]
FEW = executed(chip="h200", budget=20.0, numerics=False, bounds=FEW_CHOICES)
"""A short search, which is ended by its limits. Exported models are run and compared in any case,
and their rounding errors with those of PyTorch."""


@pytest.mark.parametrize("use", ["tiny_decode", "tiny_prefill"])
@pytest.mark.parametrize("attention", some_of(["masked", "full", "written", "flex"]))
@pytest.mark.parametrize(
    "decoder",
    [TINY, replace(TINY, kind="Qwen3", normed=True), DECODERS["tiny_capped"],
     DECODERS["tiny_latent"]],
    ids=["llama", "qwen3", "gemma2", "deepseek2"],
)  # fmt: skip
def test_plain_decoders_are_those_of_transformers(
    decoder: Decoder, attention: Attention, use: str
) -> None:
    weights = random_weights(decoder, "cpu", torch.float32)
    module = served(decoder, torch.float32)
    module.model.load_state_dict(weights)
    mine, theirs = (arguments(decoder, USES[use], "cpu", torch.float32) for _ in range(2))
    with torch.no_grad():
        got, want = plain(decoder, weights, attention)(*mine), module(*theirs)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    for a, b in zip((*mine[2], *mine[3]), (*theirs[2], *theirs[3]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_weights_are_those_of_the_published_models() -> None:
    counts = {
        name: sum(torch.Size(s).numel() for s in DECODERS[name].shapes().values())
        for name in ("llama3_8b", "qwen3_8b", "gemma2_9b", "deepseek2_lite")
    }
    assert counts == {
        "llama3_8b": 8_030_261_248, "qwen3_8b": 8_190_735_360, "gemma2_9b": 9_241_705_984,
        "deepseek2_lite": 15_706_484_224,
    }  # fmt: skip


def test_a_step_of_decoding_is_bound_by_memory_and_a_prompt_is_not() -> None:
    llama = DECODERS["llama3_8b"]
    step, prompt = costs(llama, USES["decode_b1"]), costs(llama, USES["prefill"])
    cache = 2 * 32 * 8 * 4096 * 128 * 2
    assert step["bytes"] == 2 * (8_030_261_248 - 128256 * 4096 + 4096) + cache
    assert step["floor"] == pytest.approx(step["bytes"] / 4.57e6)
    assert prompt["floor"] == pytest.approx(prompt["flops"] / 790e6)
    assert 30e3 < prompt["floor"] < 45e3


@pytest.mark.parametrize(
    ("use", "decoder"),
    some_of(
        [
            pytest.param("tiny_prefill", TINY, id="llama prefill", marks=pytest.mark.thorough),
            pytest.param("tiny_decode", TINY, id="llama decode"),
            pytest.param("tiny_decode", DECODERS["tiny_latent"], id="deepseek2 decode"),
        ],
        every=2,
    ),
)
def test_what_is_exported_computes_the_same(
    use: str, decoder: Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    routes = decoder.name == "tiny_latent"  # from its second layer on
    decoder = replace(decoder, layers=1 + routes)
    row = exported(decoder, USES[use], tmp_path, FEW)
    assert row["kernels"]
    if USES[use].decodes and not routes:  # kernels store new keys and values
        assert sum("index_copy" in call for call in row["calls"]) == 0, row["calls"]
    weights = random_weights(decoder, "cpu", torch.bfloat16)
    state = {f"model.{name}": x for name, x in weights.items()}
    model: Any = load(tmp_path / f"{row['name']}.mirage", device="cpu", state=state)
    args = arguments(decoder, USES[use], "cpu", torch.bfloat16)
    bench = measured_models.Bench(1, 0.0, None)
    with torch.no_grad():
        exact = bench.exact(decoder, weights, args)
        mine = measured_models.errors(exact, measured_models.outcome(model, args))
        eager = plain(decoder, weights)
        theirs = measured_models.errors(exact, measured_models.outcome(eager, args))
    assert all(mine[what] <= 2 * theirs[what] + 1e-6 for what in theirs), (mine, theirs)


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_vit"])
def test_plain_encoders_are_those_of_transformers(name: str) -> None:
    encoder = ENCODERS[name]
    weights = encoder_models.random_weights(encoder, "cpu", torch.float32)
    module = Encoded(untouched(encoder, torch.float32))
    module.model.load_state_dict(weights)
    x = argument(encoder, "cpu", torch.float32)
    with torch.no_grad():
        got, want = PlainEncoder(encoder, weights)(x), module(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_large_encoders_are_bound_by_arithmetic() -> None:
    counts = {
        name: sum(torch.Size(s).numel() for s in ENCODERS[name].shapes().values())
        for name in ("bert_large", "vit_large")
    }
    assert counts == {"bert_large": 334_092_288, "vit_large": 303_301_632}
    for name in counts:
        found = encoder_models.costs(ENCODERS[name])
        assert found["floor"] == pytest.approx(found["flops"] / 790e6)


def test_an_encoder_that_is_exported_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    encoder = ENCODERS["tiny_bert"].with_layers(1)
    row = exported(encoder, None, tmp_path, FEW)
    assert row["kernels"]
    weights = encoder_models.random_weights(encoder, "cpu", torch.bfloat16)
    state = {f"model.{name}": x for name, x in weights.items()}
    model: Any = load(tmp_path / "tiny_bert.1.batch.mirage", device="cpu", state=state)
    x = argument(encoder, "cpu", torch.bfloat16)
    with torch.no_grad():
        exact = PlainEncoder(encoder, weights, torch.float32)(x)
        mine, theirs = ((call(x).float() - exact).norm() for call in
                        (model, PlainEncoder(encoder, weights)))  # fmt: skip
    assert mine <= 2 * theirs
