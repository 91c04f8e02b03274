"""The README's tables agree with the measurements, and its worked example with the command's
output."""

from __future__ import annotations

import sys
from pathlib import Path

import mirage as mi

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import readme
import rms_linear

BENCHMARKS = readme.ROOT / "benchmarks"


def test_tables_are_those_of_the_results() -> None:
    text = (readme.ROOT / "README.md").read_text()
    assert len(readme.TABLE.findall(text)) >= 3
    assert readme.written(text) == text


def test_every_script_is_named_on_the_page_of_the_benchmarks() -> None:
    page = (BENCHMARKS / "README.md").read_text()
    scripts = [p for p in BENCHMARKS.glob("*.py") if "\nif __name__ ==" in p.read_text()]
    unnamed = {p.name for p in scripts if p.name not in page}
    assert unnamed == {"gpu_worker.py"}  # which `emulator_vs_gpu.py` starts


def test_the_worked_example_is_what_is_found() -> None:
    """If this fails, copy the output of `mirage optimize examples/rms_linear.py --fresh`."""
    text = (readme.ROOT / "README.md").read_text()
    shown = text.split("\nchosen µGraph\n")[1].split("\n\nevidence\n")[0]
    program = mi.from_torch(rms_linear.rms_linear, *rms_linear.example_inputs)
    found = program.superoptimize(chip="sm_90a", compile=False, budget=600.0)
    assert found.describe() == shown
    (line,) = (row for row in text.splitlines() if " bound), " in row)
    prediction = found.report.prediction
    assert prediction is not None
    assert line.startswith(f"{prediction.time:.2f} us ({prediction.bound} bound), ")
