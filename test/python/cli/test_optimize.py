"""Search, optimize, compile and run from the command line, on a small program, without a GPU."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from mirage.cli import main
from mirage.passes.search import SearchOptions
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.parts.seconds import SEARCHED
from mirage.runtime.launching.by_size import read_sizes
from mirage.search import BOUNDS, SearchLimits
from mirage.search.limits import SPARE
from mirage.verify import VerifyOptions

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(128, dtype=torch.float16)
        self.proj = torch.nn.Linear(128, 64, bias=False, dtype=torch.float16)
    def forward(self, x):
        return self.proj(self.norm(x))

torch.manual_seed(0)
net = Net().requires_grad_(False)
example_inputs = (torch.randn(16, 128).half(),)
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(PROGRAM)
    return path


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_search(capsys: pytest.CaptureFixture[str], program: Path, tmp_path: Path) -> None:
    best, everything = tmp_path / "best.mlir", tmp_path / "all.mlir"
    code, data = run_json(
        capsys, "search", program, "--emit-best", best, "-o", everything, "--candidates", 2
    )
    assert code == 0
    search = data["search"][0]
    assert search["stop"] == ("limit" if search["limits"] else "exhausted")
    assert data["candidates"]
    assert all(v["kind"] in ("proved", "probable") for v in data["verdicts"])
    assert "kernel.alternatives" in everything.read_text()
    assert "kernel.launch" in best.read_text()
    assert main(["verify", str(program), str(best), "--seed", "1"]) == 0


def test_every_bound_of_the_search_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    options = {f.name for f in fields(SearchOptions)}
    for field in fields(SearchLimits):
        if field.name in BOUNDS:
            option = f"--max-{field.name.replace('_', '-')}"
            assert f"{option} N {field.metadata['help']} (default: {field.default})" in said
            assert f"max_{field.name}" in options


def test_defaults_are_the_same_everywhere() -> None:
    whole, search = OptimizeOptions(), SearchLimits()
    assert search.candidates == SPARE * whole.candidates
    assert search.budget == SEARCHED * whole.budget
    assert whole.draws == VerifyOptions().draws


def test_a_bound_is_heeded_and_said(capsys: pytest.CaptureFixture[str], program: Path) -> None:
    arguments = ("search", program, "--candidates", 1, "--max-plans", 1)
    code, data = run_json(capsys, *arguments)
    assert code == 0
    (report,) = data["search"]
    assert report["stop"] == "limit"
    assert report["plans"] == 1


def test_the_report_says_how_much_memory_was_used(
    capsys: pytest.CaptureFixture[str], program: Path
) -> None:
    _, data = run_json(capsys, "search", program, "--candidates", 1)
    assert 10 < data["search"][0]["memory"] < 100_000


def test_search_output_for_people(capsys: pytest.CaptureFixture[str], program: Path) -> None:
    assert main(["search", str(program), "--candidates", "1", "--words"]) == 0
    out = capsys.readouterr().out
    assert "candidate 0" in out
    assert "kernel 1 of 1" in out
    assert "memory [MiB]" in out
    assert "stopped because" in out
    assert "kernels solved" not in out  # progress is shown only on terminals


def test_objects_of_a_file_have_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without ``-o`` each is named like the object, whatever the name of the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(
        "import torch\nnet1, net2 = torch.nn.Tanh(), torch.nn.ReLU()\n"
        "example_inputs = (torch.randn(4, 8),)\n"
    )
    for name in ("net1", "net2"):
        options = ("--candidates", "1", "--jobs", "1", "--no-check-kernels")
        assert main(["optimize", f"nets.py:{name}", *options]) == 0
    assert sorted(p.name for p in tmp_path.glob("*.mirage")) == ["net1.mirage", "net2.mirage"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--budget", "-1"), ("--candidates", "0"), ("--chip", "sm_12"), ("--max-matmuls", "0")],
)
def test_contradictory_options(
    capsys: pytest.CaptureFixture[str], program: Path, option: str, value: str
) -> None:
    assert main(["search", str(program), option, value]) == 2
    assert "expected" in capsys.readouterr().err


def test_optimize_and_run(
    capsys: pytest.CaptureFixture[str], program: Path, tmp_path: Path
) -> None:
    target, chip = tmp_path / "net.mirage", "sm_80"
    code, data = run_json(capsys, "optimize", program, "-o", target, "--chip", chip)
    assert code == 0
    (artifact,) = data["artifacts"]
    assert artifact["chip"] == chip
    assert artifact["ptx_bytes"] > 1000
    assert not any("spill" in note for note in artifact["notes"])
    code, result = run_json(capsys, "run", target, "--emulate", "--program", program)
    assert code == 0
    assert result["ok"]
    code, again = run_json(capsys, "optimize", program, "-o", target, "--chip", chip)
    assert code == 0
    assert again["artifacts"][0]["from_cache"]


def test_compile_what_search_wrote(
    capsys: pytest.CaptureFixture[str], program: Path, tmp_path: Path
) -> None:
    best, target = tmp_path / "best.mlir", tmp_path / "best.mirage"
    assert run_json(capsys, "search", program, "--emit-best", best, "--candidates", 2)[0] == 0
    code, data = run_json(capsys, "compile", best, "-o", target)
    assert code == 0
    assert len(data["kernels"]) == 1
    code, result = run_json(capsys, "run", target, "--emulate", "--program", best)
    assert code == 0
    assert result["ok"]


def test_a_dimension_that_is_known_at_the_call(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "net.mirage"
    given = ("--dynamic", "x:0=1..20", "--chip", "sm_80", "--candidates", "1", "--budget", "20")
    code, data = run_json(capsys, "optimize", f"{program}:net", "-o", target, *given)
    assert code == 0
    assert [(c["at_most"], c["parts"]) for c in data["classes"]] == [(4, 1), (8, 1), (32, 1)]
    assert read_sizes(target).at_most == 20
    assert main(["optimize", "rms_silu_linear_m8", "--dynamic", "x:0=1..20"]) == 2
    assert "expected a module or function of PyTorch" in capsys.readouterr().err


def test_what_a_file_has_imported_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "imported.py"
    file.write_text(f"{PROGRAM}\nimport mirage\ngraph = mirage.from_torch(net, *example_inputs)\n")
    target = tmp_path / "net.mirage"
    words = ["optimize", f"{file}:graph", "--chip", "sm_90a", "--jobs", "1", "-o", str(target)]
    assert main(words) == 0, capsys.readouterr().err
    assert (target / "manifest.json").exists()
