"""Example inputs by the names of parameters, for `mirage optimize` and similar commands: some that
cannot be given by position, and some with a parameter between them that keeps its default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from mirage.cli.programs import load_program
from mirage.cli.python_files import BadProgramError
from mirage.semantics.evaluation.evaluate import evaluate_floats

FILE = """
import torch
import torch.nn.functional as fn

class Keywords(torch.nn.Module):
    def forward(self, x, *, y):
        return x - 2 * y

class Between(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((8,), 3.0), requires_grad=False)

    def forward(self, x, mask=None, y=None):
        return x * self.weight - y if mask is None else x

keywords, between = Keywords(), Between()
inputs = {"y": torch.full((4, 8), 5.0), "x": torch.full((4, 8), 7.0)}
example_inputs = EXAMPLES
"""


@pytest.mark.parametrize(("name", "value"), [("keywords", -3.0), ("between", 16.0)])
def test_by_name(tmp_path: Path, name: str, value: float) -> None:
    file = tmp_path / "program.py"
    file.write_text(FILE.replace("EXAMPLES", "inputs"))
    loaded = load_program(f"{file}:{name}")
    (y,) = evaluate_floats(loaded.graph, loaded.inputs(0))
    assert np.array_equal(y, np.full((4, 8), value))
    assert loaded.module is not None
    assert loaded.example_inputs is not None
    assert torch.equal(loaded.module(*loaded.example_inputs), torch.full((4, 8), value))


def test_names_that_the_program_does_not_have(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(FILE.replace("EXAMPLES", '{"x": inputs["x"], "z": inputs["y"]}'))
    with pytest.raises(BadProgramError, match="dictionary by the names of its parameters"):
        load_program(f"{file}:keywords")
