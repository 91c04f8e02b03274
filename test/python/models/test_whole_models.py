"""Popular models under ``torch.compile(backend="mirage")``: those that are whole stay whole, and
their kernels compute what PyTorch does, greedy tokens included: a prompt, and steps of decoding
with a cache of fixed size.

Every distinct kernel is executed in the emulator. ``benchmarks/models.py`` runs all models op by op
and writes ``docs/models.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from emulated_kernels import emulated_kernels
from mirage.frontend.program import Program
from thorough import thorough
from torch_programs.op_by_op import op_by_op
from whole_models import MODELS, measured, model
from whole_models.catalog import LENGTH
from whole_models.measuring import TOKENS as ALL_TOKENS
from whole_models.measuring import right, whole

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
ONE_LAYER = {"gemma2": {"num_hidden_layers": 1}}
"""The chosen variants of models that have several in the catalog."""
TOKENS = {"t5": 0}
"""The number of greedy tokens, if not two: one from the prompt, the other from a decoding step. The
encoder and decoder of T5 run once, as a whole."""
STEPS = frozenset(at - LENGTH for at in (12, 13, 15, 16, 31, 32, 63, 64, 75))
"""Steps of decoding at both sides of the borders of tiles of the cache, and the first and the last;
the positions of their tokens are these."""


@pytest.mark.parametrize(
    "name", [thorough("gemma2"), "gpt2", "mixtral", "bert", thorough("t5"), "vit"]
)
def test_the_kernels_of_a_whole_model(name: str) -> None:
    chosen = model(name)
    chosen = replace(chosen, sizes={**chosen.sizes, **ONE_LAYER.get(name, {})})
    row = measured(chosen, emulated_kernels, TOKENS.get(name, 2))
    assert right(row), row
    assert whole(row), {phase: found["why"] for phase, found in row["phases"].items()}
    assert all(found["parts"] for found in row["phases"].values())


def test_the_kernels_of_many_steps() -> None:
    """Kernels compute the prompt and some of 64 steps, and the others are computed op by op: each
    step reads the cache that all earlier ones have written."""
    emulated: list[int] = []

    def sometimes(program: Program, options: Mapping[str, Any]) -> Any:
        kernels, ops = (make(program, options) for make in (emulated_kernels, op_by_op))
        calls = count()

        def call(*tensors: torch.Tensor) -> Any:
            number = next(calls)
            if number not in STEPS:
                return ops(*tensors)
            emulated.append(number)
            return kernels(*tensors)

        return call

    row = measured(model("llama3"), sometimes)
    assert right(row), row
    assert whole(row), {phase: found["why"] for phase, found in row["phases"].items()}
    assert emulated == [0, *sorted(STEPS)]  # the prompt, and steps of one program
    assert max(STEPS) == ALL_TOKENS - 2


def test_many_greedy_tokens_with_a_window(caplog: pytest.LogCaptureFixture) -> None:
    row = measured(model("mistral"), tokens=24)
    assert right(row), row
    assert len(row["phases"]) == 2  # the prompt, and the same program for all steps
    assert "stay eager" not in caplog.text


def test_the_page_is_of_these_models() -> None:
    rows = json.loads((ROOT / "benchmarks/results/models.json").read_text())["rows"]
    assert [row["model"] for row in rows] == [m.name for m in MODELS]
    assert all(right(row) for row in rows)
    page = (ROOT / "docs/models.md").read_text()
    assert all(f"| {m.title} |" in page for m in MODELS)
