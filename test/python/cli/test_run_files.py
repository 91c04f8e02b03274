"""`mirage run` on the user's inputs, with outputs in files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import mirage
import ml_dtypes
import numpy as np
import pytest
import torch
from mirage.cli import main
from mirage.cli.tensor_archives import TensorFileError, read_tensors, write_tensors
from mirage.runtime import write_artifact
from safetensors.torch import load_file, save_file
from small_artifacts.small_artifact import small_artifact


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    """y = x + x for 8x8 of f32."""
    return str(write_artifact(small_artifact(), tmp_path / "twice.mirage"))


def names(artifact: str) -> tuple[str, str]:
    manifest = small_artifact().manifest
    return manifest.inputs[0].name, manifest.outputs[0].name


def emulate(artifact: str, *words: str | Path) -> int:
    return main(["run", artifact, "--emulate", *map(str, words)])


@pytest.mark.parametrize("kind", [".npz", ".safetensors"])
def test_inputs_and_outputs(artifact: str, tmp_path: Path, kind: str) -> None:
    x, y = names(artifact)
    given = np.arange(64, dtype=np.float32).reshape(8, 8)
    write_tensors(tmp_path / f"in{kind}", {x: given})
    code = emulate(
        artifact, "--inputs", tmp_path / f"in{kind}", "--outputs", tmp_path / f"out{kind}"
    )
    assert code == 0
    results = read_tensors(tmp_path / f"out{kind}")
    assert list(results) == [y]
    assert results[y].dtype == np.float32
    assert (results[y] == 2 * given).all()
    assert not list(tmp_path.glob("*.part"))


QUOTIENT = """
kernel.graph @g(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %one = kernel.binary div %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %two = kernel.binary add %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = kernel.binary mul %one, %two : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}
"""


def test_what_is_not_a_number_in_the_program(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NaN is not compared; infinities are, and so are numbers that the type makes infinite."""
    x, _ = names(artifact)
    program = tmp_path / "program.mlir"
    program.write_text(QUOTIENT)

    def code_for(number: float) -> int:
        given = np.ones((8, 8), np.float32)
        given[3, 4] = number
        np.savez(tmp_path / "in.npz", **{x: given})
        return emulate(artifact, "--inputs", tmp_path / "in.npz", "--program", program)

    assert code_for(0.0) == 0
    assert "1 not a number in the program" in capsys.readouterr().out
    assert code_for(3e38) == 0  # infinite in f32
    program.write_text(QUOTIENT.replace("mul %one, %two", "add %one, %two"))
    assert code_for(0.0) == 1
    program.write_text(QUOTIENT.replace("mul %one, %two", "div %two, %one"))
    assert code_for(np.nan) == 0
    program.write_text(QUOTIENT.replace("mul %one, %two", "sub %one, %two"))
    assert code_for(3e38) == 1


def test_safetensors_are_those_of_the_library(tmp_path: Path) -> None:
    tensors = {
        "half": torch.randn(3, 5).half(), "brain": torch.randn(4).bfloat16(),
        "flags": torch.tensor([True, False]), "numbers": torch.arange(6).reshape(2, 3),
        "none": torch.zeros(0, 2),
    }  # fmt: skip
    save_file(tensors, tmp_path / "theirs.safetensors", {"made": "by the library"})
    read = read_tensors(tmp_path / "theirs.safetensors")
    assert read["brain"].dtype == ml_dtypes.bfloat16
    for name, tensor in tensors.items():
        assert read[name].shape == tuple(tensor.shape)
        assert (read[name].astype(np.float64) == tensor.double().numpy()).all()
    write_tensors(tmp_path / "ours.safetensors", read)
    back = load_file(tmp_path / "ours.safetensors")
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"x": np.zeros((8, 4), np.float32)}, r"expected f32\[8, 8\], got f32\[8, 4\]"),
    "type": ({"x": np.zeros((8, 8), np.float16)}, r"expected f32\[8, 8\], got f16\[8, 8\]"),
    "missing": ({}, "there is no "),
    "unknown": (
        {"x": np.zeros((8, 8), np.float32), "other": np.zeros(1)},
        "no input is called other",
    ),
}


@pytest.mark.parametrize("kind", [".npz", ".safetensors"])
@pytest.mark.parametrize("what", BAD)
def test_inputs_that_do_not_fit(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, kind: str
) -> None:
    tensors, message = BAD[what]
    x, _ = names(artifact)
    given = tmp_path / f"in{kind}"
    write_tensors(given, {x if name == "x" else name: array for name, array in tensors.items()})
    assert emulate(artifact, "--inputs", given, "--outputs", tmp_path / "out.npz") == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "out.npz").exists()


FILES = {
    "in.npz": b"no zip file", "in.safetensors": b"\x40",
    "cut.safetensors": (99).to_bytes(8, "little"), "in.bin": b"",
    "text.safetensors": (4).to_bytes(8, "little") + b"none",
    "ends.safetensors": (66).to_bytes(8, "little")
    + b'{"x": {"dtype": "F32", "shape": [8, 8], "data_offsets": [0, 256]}}',
    "type.safetensors": (63).to_bytes(8, "little")
    + b'{"x": {"dtype": "F4", "shape": [0], "data_offsets": [0, 0]}}   ',
    "list.safetensors": (2).to_bytes(8, "little") + b"[]",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    with pytest.raises(TensorFileError, match=name):
        read_tensors(tmp_path / name)


def test_files_that_are_not_there(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate(artifact, "--inputs", tmp_path / "none.npz") == 2
    assert "none.npz: cannot be read" in capsys.readouterr().err
    assert emulate(artifact, "--outputs", tmp_path / "none" / "out.npz") == 2
    assert "expected a folder" in capsys.readouterr().err
    assert emulate(artifact, "--outputs", tmp_path / "out.txt") == 2
    assert "expected a file .npz or .safetensors" in capsys.readouterr().err


def test_npz_has_no_bf16(artifact: str, tmp_path: Path) -> None:
    with pytest.raises(TensorFileError, match=r"write a \.safetensors file"):
        write_tensors(tmp_path / "out.npz", {"x": np.zeros(1, ml_dtypes.bfloat16)})
    assert not (tmp_path / "out.npz").exists()


PROGRAM = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.full((64,), 2.0, dtype=torch.bfloat16))

    def forward(self, x):
        return x * self.gain

module = Scaled()
example_inputs = (torch.zeros(4, 64, dtype=torch.bfloat16),)
"""


@pytest.mark.parametrize("gain", [None, 3.0])
def test_weights_may_be_left_out_or_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gain: float | None
) -> None:
    (tmp_path / "scaled.py").write_text(PROGRAM)
    x = torch.randn(4, 64).bfloat16()
    tensors = {"x": x} if gain is None else {"x": x, "gain": torch.full((64,), gain).bfloat16()}
    save_file(tensors, tmp_path / "in.safetensors")
    out = tmp_path / "out.safetensors"
    words = ["--inputs", str(tmp_path / "in.safetensors"), "--outputs", str(out)]
    assert main(["run", str(tmp_path / "scaled.py"), "--emulate", *words]) == 0
    (y,) = load_file(out).values()
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, x * (gain or 2.0))


def test_a_weight_goes_by_its_parameters_name_too(tmp_path: Path) -> None:
    artifact = small_artifact()
    manifest = artifact.manifest
    spec = replace(manifest.inputs[0], parameter="layer.weight")
    artifact = replace(artifact, manifest=replace(manifest, inputs=(spec,)))
    folder = str(write_artifact(artifact, tmp_path / "twice.mirage"))
    x = np.ones((8, 8), np.float32)
    write_tensors(tmp_path / "in.npz", {"layer.weight": x})
    assert emulate(folder, "--inputs", tmp_path / "in.npz") == 0
    write_tensors(tmp_path / "in.npz", {"layer.weight": x, spec.name: x})
    assert emulate(folder, "--inputs", tmp_path / "in.npz") == 2


def test_indices_are_looked_at_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(ids, table) * 2

    table, ids = torch.randn(37, 16), torch.tensor([3, 0, 36])
    options = mirage.OptimizeOptions(candidates=1, cubin=False)
    found = mirage.optimize(mirage.from_torch(rows, table, ids), options)
    found.save(tmp_path / "one.mirage")
    mirage.export(rows, table, ids, path=tmp_path / "model.mirage", options=options)
    for name, called in (("one.mirage", ("table", "ids")), ("model.mirage", ("args_0", "args_1"))):
        for last, code in ((36, 0), (37, 2)):
            given = (table.numpy(), np.array([3, 0, last]))
            write_tensors(tmp_path / "in.npz", dict(zip(called, given, strict=True)))
            words = ("--check-indices", "--inputs", tmp_path / "in.npz")
            assert emulate(str(tmp_path / name), *words) == code
        assert re.search(
            r"input 1 \(\w+\): expected indices from 0 to 36, got 37 at \[2\]",
            capsys.readouterr().err,
        )
    write_tensors(tmp_path / "in.npz", {"table": table.numpy(), "ids": np.array([3, 0, 37])})
    assert emulate(str(tmp_path / "one.mirage"), "--inputs", tmp_path / "in.npz") == 0
