"""Popular models under ``torch.compile(backend="mirage")``: those that are whole stay whole, and
their kernels compute what PyTorch does, greedy tokens included: a prompt, and steps of decoding
with a cache of fixed size.

Every distinct kernel is executed in the emulator. ``benchmarks/models.py`` runs all models op by op
and writes ``docs/models.md``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from emulated_kernels import emulated_kernels
from whole_models import MODELS, measured, model
from whole_models.measuring import right, whole

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
ONE_LAYER = {"gemma2": {"num_hidden_layers": 1}}
"""Of models that have several in the catalog."""
TOKENS = {"llama3": 4, "t5": 0}
"""Greedy tokens, if not two: one by the prompt, the other by a step of decoding. Of T5, encoder and
decoder run once, as a whole."""


@pytest.mark.parametrize("name", ["llama3", "gemma2", "gpt2", "mixtral", "bert", "t5", "vit"])
def test_the_kernels_of_a_whole_model(name: str) -> None:
    chosen = model(name)
    chosen = replace(chosen, sizes={**chosen.sizes, **ONE_LAYER.get(name, {})})
    row = measured(chosen, emulated_kernels, TOKENS.get(name, 2))
    assert right(row), row
    assert whole(row), {phase: found["why"] for phase, found in row["phases"].items()}
    assert all(found["parts"] for found in row["phases"].values())


@pytest.mark.parametrize("name", ["llama3", "mistral"])
def test_many_greedy_tokens(name: str, caplog: pytest.LogCaptureFixture) -> None:
    row = measured(model(name))
    assert right(row), row
    assert len(row["phases"]) == 2  # the prompt, and the same program for all steps
    assert "stay eager" not in caplog.text


def test_the_page_is_of_these_models() -> None:
    rows = json.loads((ROOT / "benchmarks/results/models.json").read_text())["rows"]
    assert [row["model"] for row in rows] == [m.name for m in MODELS]
    assert all(right(row) for row in rows)
    page = (ROOT / "docs/models.md").read_text()
    assert all(f"| {m.title} |" in page for m in MODELS)
