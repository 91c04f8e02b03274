"""``mirage export`` from the command line, and its messages if it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mirage.cli import main
from mirage.runtime import Model, load

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(32, 16, bias=False)
    def forward(self, x, scale=1.0):
        return {"y": torch.special.i0e(self.proj(x) * scale)}

torch.manual_seed(0)
net = Net().requires_grad_(False)
number = 3
example_inputs = {"x": torch.randn(4, 32), "scale": 2.0}
"""
FAST = ("--candidates", "1", "--budget", "20", "--no-check-kernels")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "net.py").write_text(PROGRAM)
    return tmp_path


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_export_and_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, results = folder / "net.mirage", folder / "y.npz"
    code, data = run_json(capsys, "export", f"{folder / 'net.py'}:net", "-o", target, *FAST)
    assert code == 0
    assert data["artifact"] == str(target)
    assert data["calls"] == ["aten.special_i0e"]
    assert data["stays"] == [
        {"op": "aten.special_i0e", "reason": "an op without a meaning in Mirage"}
    ]
    model = load(target, device="cpu")
    assert isinstance(model, Model)
    x = torch.randn(4, 32)
    want = torch.special.i0e(x @ model.state["proj.weight"].t() * 2.0)
    torch.testing.assert_close(model(x=x, scale=2.0)["y"], want, rtol=1e-4, atol=1e-5)
    np.savez(folder / "x.npz", x=x.numpy())
    files = ("--inputs", folder / "x.npz", "--outputs", results)
    code, data = run_json(capsys, "run", target, "--emulate", *files)
    assert code == 0
    with np.load(results) as found:
        np.testing.assert_allclose(found["y['y']"], want.numpy(), rtol=1e-3, atol=1e-4)


def test_what_is_wrong_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder / "out.mirage"
    program = folder / "net.py"
    (folder / "few.npz").write_bytes(b"")
    (folder / "bare.py").write_text("import torch\nnet = torch.nn.Linear(2, 2)\n")
    for name, more, message in (
        (f"{program}:Net", (), "got the class Net"),
        (f"{program}:number", (), "got int"),
        (f"{program}:nothing", (), "an object called 'nothing'"),
        (folder / "g.mlir", (), "`mirage optimize` takes other programs"),
        (folder / "none.py", (), "cannot be read"),
        (program, ("--inputs", folder / "few.npz"), "few.npz: expected"),
        (folder / "bare.py", (), "expected `example_inputs` beside the module"),
    ):
        assert main(["export", str(name), "-o", str(target), *map(str, more)]) == 2
        said = capsys.readouterr()
        assert message in " ".join(said.err.split())
        assert not target.exists()


def test_a_dimension_that_is_known_at_the_call(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, program = folder / "net.mirage", f"{folder / 'net.py'}:net"
    code, data = run_json(
        capsys, "export", program, "-o", target, "--dynamic", "x:0=1..20", "--chip", "sm_80", *FAST
    )
    assert code == 0
    assert (data["at_least"], data["at_most"]) == (1, 20)
    assert [c["at_most"] for c in data["classes"]] == [4, 8, 32]
    model = load(target, device="cpu")
    for n in (1, 5, 19):
        x = torch.randn(n, 32)
        want = torch.special.i0e(x @ model.state["proj.weight"].t() * 2.0)
        torch.testing.assert_close(model(x=x, scale=2.0)["y"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=1..20", "expected INPUT:DIM=MIN..MAX"),
        ("x:0=20..1", "expected limits that grow from 1 on, got 20..1"),
        ("x:0,x:0=1..20", "expected x:0 once"),
        ("z:0=1..20", "expected names among x, scale, got 'z'"),
        ("x:1=1..32", "expected outermost dimensions to be dynamic only"),
    ],
)
def test_dimensions_that_are_no_rows(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    target, program = folder / "net.mirage", f"{folder / 'net.py'}:net"
    assert main(["export", program, "-o", str(target), "--dynamic", text, *FAST]) == 2
    assert message in capsys.readouterr().err
    assert not target.exists()
