"""Popular models under ``torch.compile(backend="mirage")``: those that are whole stay whole, and
compute what PyTorch does, greedy tokens included.

``benchmarks/models.py`` runs all of them and writes ``docs/models.md``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from whole_models import MODELS, measured, model
from whole_models.measuring import right, whole

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
QUICK = ("llama3", "gpt2", "mixtral", "bert", "vit")


@pytest.mark.parametrize("name", QUICK)
def test_a_whole_model_stays_whole(name: str) -> None:
    row = measured(model(name))
    assert right(row), row
    assert whole(row), {phase: found["why"] for phase, found in row["phases"].items()}


def test_the_page_is_of_these_models() -> None:
    rows = json.loads((ROOT / "benchmarks/results/models.json").read_text())["rows"]
    assert [row["model"] for row in rows] == [m.name for m in MODELS]
    assert all(right(row) for row in rows)
    page = (ROOT / "docs/models.md").read_text()
    assert all(f"| {m.title} |" in page for m in MODELS)
