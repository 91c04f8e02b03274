"""Candidates are timed within a limit, and the fastest is kept, with a simulated timer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from example_programs.search_programs import matmul
from mirage.cli import main
from mirage.cli.commands import tune as tune_command
from mirage.pipeline import measure
from mirage.pipeline.measure import WARM_UP, NothingToMeasureError, fastest
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions

OPTIONS = OptimizeOptions(
    chip="sm_90a", candidates=3, finalists=2, jobs=1, cubin=False, check_kernels=False
)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))


PROGRAM = matmul(16, 256, 64)


class Pretended:
    """Reports that the last candidate is the fastest; the first rounds are slow. Each takes a
    second."""

    def __init__(self) -> None:
        self.rounds, self.sets = 0, 0

    def __call__(self, calls: Sequence[Any], sets: Sequence[Any]) -> Iterator[list[float]]:
        self.sets = len(sets)
        while True:
            self.rounds += 1
            slow = 1000.0 if self.rounds <= WARM_UP else 0.0
            yield [slow + 10.0 - i for i in range(len(calls))]

    def clock(self) -> float:
        return float(self.rounds)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(16, 256, dtype=torch.float16), torch.zeros(256, 64, dtype=torch.float16)


def test_the_fastest_is_taken_and_kept() -> None:
    optimized = optimize(PROGRAM, OPTIONS)
    assert len(optimized.finalists) == 2
    timer = Pretended()
    measured = fastest(optimized, *inputs(), timer=timer)
    assert measured.microseconds == (10.0, 9.0)
    assert timer.rounds == WARM_UP + measure.ROUNDS
    assert timer.sets > 1  # inputs that are not in the cache
    assert measured.optimized.graph is optimized.finalists[1].graph
    assert optimize(PROGRAM, OPTIONS).place == measured.optimized.place != optimized.place


def test_no_round_begins_when_the_time_is_up() -> None:
    optimized, timer = optimize(PROGRAM, OPTIONS), Pretended()
    fastest(optimized, *inputs(), timer=timer, seconds=5.5, clock=timer.clock)
    assert timer.rounds == 6
    late = Pretended()
    found = fastest(optimized, *inputs(), timer=late, seconds=0.0, clock=late.clock)
    assert late.rounds == WARM_UP + 1  # one that counts
    assert found.microseconds == (10.0, 9.0)


def test_what_is_not_compiled_is_not_measured() -> None:
    bare = optimize(PROGRAM, OptimizeOptions(chip="sm_90a", compile=False, candidates=1, jobs=1))
    with pytest.raises(NothingToMeasureError):
        fastest(bare, *inputs(), timer=Pretended())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_tuning_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "rms_linear"]) == 2
    said = capsys.readouterr().err
    assert "tuning (`mirage optimize` chooses by predicted times) needs a GPU" in said
    assert "found none" in said


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.py"
    path.write_text(
        "import torch\nnet = torch.nn.Linear(64, 32).half().requires_grad_(False)\n"
        "example_inputs = (torch.randn(4, 64).half(),)\n"
    )
    monkeypatch.setattr(measure, "need_gpu", lambda what: None)
    monkeypatch.setattr(measure, "replays", Pretended())
    monkeypatch.setattr(tune_command, "_device", lambda: "cpu")
    arguments = [f"{path}:net", "--chip", "sm_90a", "--candidates", "3", "--jobs", "1"]
    assert main(["tune", *arguments, "--no-check-kernels", "--seconds", "5"]) == 0
    said = capsys.readouterr().out
    assert "measured us" in said
    assert said.count("chosen") == 1
    assert main(["optimize", *arguments, "--no-check-kernels", "-o", str(tmp_path / "out")]) == 0
    assert "the fastest as measured on no GPU" in capsys.readouterr().out
