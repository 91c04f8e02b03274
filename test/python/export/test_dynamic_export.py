"""Whole models for a size that is known only at the call: written, loaded by the runtime alone, and
called at sizes of each class; and models that are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mirage
import pytest
import torch
from mirage.frontend.errors import DynamicShapeError
from mirage.pipeline.whole_model import IncompleteModelError
from mirage.runtime import CallError, UnreadableArtifactError, load
from mirage.runtime.errors import ArgumentShapeError, ArgumentSizeError
from mirage.runtime.models.model import SizedModel
from torch import nn
from torch.export import Dim

OPTIONS = {
    "chip": "sm_80", "budget": 20, "candidates": 1, "jobs": 1, "check_kernels": False,
}  # fmt: skip
BATCH = Dim("batch", min=2, max=40)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRAGE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


class Net(nn.Module):
    """Rows that are looked up, a repeated row, a call that stays, results that are views, and one
    without rows."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.first = nn.Parameter(torch.randn(1, 1, 32))
        self.proj = nn.Linear(32, 16)

    def forward(self, ids: torch.Tensor, *, mask: torch.Tensor, scale: float) -> Any:
        x = torch.cat([self.first.expand(ids.shape[0], 1, 32), self.words(ids)], 1)
        y = torch.special.i0e(self.proj(x)) * scale
        return {"y": torch.softmax(y, -1), "last": y[:, -1], "mask": [mask * 2, None], "ids": ids}


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False)


def arguments(n: int) -> tuple[torch.Tensor, dict[str, Any]]:
    return torch.randint(50, (n, 6)), {"mask": torch.rand(n, 6), "scale": 0.5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "net.mirage"
    ids, named = arguments(9)
    found = mirage.export(
        net(), ids, path=path, options=OPTIONS,
        dynamic_shapes={"ids": {0: BATCH}, "mask": {0: BATCH}}, **named,
    )  # fmt: skip
    assert found.stays == (("aten.special_i0e", "an op without a meaning in Mirage"),)
    return path


def test_every_size_of_the_range(folder: Path) -> None:
    module, model = net(), load(folder, device="cpu")
    assert isinstance(model, SizedModel)
    assert "batch from 2 to 40" in repr(model)
    for n in (2, 7, 16, 17, 31, 40):
        ids, named = arguments(n)
        got, want = model(ids, **named), module(ids, **named)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert got["y"].stride() == want["y"].stride()
        assert got["last"].stride() == want["last"].stride()
        assert got["ids"].data_ptr() == ids.data_ptr()
    model.state["proj.bias"].fill_(3.0)
    module.proj.bias.fill_(3.0)
    ids, named = arguments(5)
    torch.testing.assert_close(model(ids, **named), module(ids, **named), rtol=1e-4, atol=1e-5)


def _with(n: int, **other: Any) -> Callable[[Any], Any]:
    ids, named = arguments(n)
    given = {"ids": ids, **named, **other}
    return lambda model: model(given.pop("ids"), **given)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (_with(41), ArgumentSizeError, r"expected a size \(batch\) from 2 to 40, .* got 41"),
        (_with(1), ArgumentSizeError, "got 1; export it for more"),
        (_with(4, mask=torch.ones(5, 6)), ArgumentShapeError, r"mask: expected shape \(4, 6\)"),
        (_with(4, ids=torch.ones(4, 7)), CallError, "ids: expected"),
        (_with(4, ids=3), ArgumentShapeError, r"ids: expected a tensor of shape \(n, 6\), got int"),
        (_with(4, scale=1.0), CallError, "expected 0.5, for which the model was exported"),
        (lambda model: model(), CallError, "expected 1 positional arguments"),
    ],
)
def test_calls_that_do_not_fit(
    folder: Path, call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(load(folder, device="cpu"))


ALONE = """
import sys
import mirage.runtime
from mirage.runtime.models.model_artifact import read_model
from mirage.runtime.models.model_sizes import model_at
found = read_model(sys.argv[1])
assert model_at(found, 5).manifest.inputs[0].shape == (5, 6)
assert model_at(found, 33).manifest.inputs[0].shape == (33, 6)
assert not [m for m in sys.modules if m.startswith(("mirage.pipeline", "mirage.compiler"))]
"""


def test_the_runtime_alone_reads_it(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", ALONE, str(folder)], check=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at_most": 100}, "expected sizes within 1 to 48, got 2 to 100"),
        ({"at_least": 0}, "expected sizes within 1 to 48"),
        ({"arguments": []}, "expected an argument that has rows"),
        ({"arguments": [2]}, "expected a tensor with a multiple of 48 rows"),
        ({"arguments": [9]}, "expected one of 3 values, got 9"),
        ({"stated": 47}, "expected a tensor with a multiple of 47 rows"),
        ({"name": 3}, "size.name: expected a string"),
        ({"more": 1}, "size.more: expected no such key"),
    ],
)
def test_changed_manifests_are_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).symlink_to(file)
    data = json.loads((folder / "manifest.json").read_text())
    data["size"].update(change)
    (copy / "manifest.json").unlink()
    (copy / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(UnreadableArtifactError, match=message):
        load(copy, device="cpu")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: (x * 2).t(), DynamicShapeError, "a tensor of"),
        (lambda x: (x * 2, x.shape[0]), DynamicShapeError, "result"),
        (lambda x: x - x.mean(0), DynamicShapeError, "constant"),
    ],
)
def test_what_has_no_rows_is_not_written(
    function: Callable[..., Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.mirage"
    with pytest.raises((error, IncompleteModelError), match=message):
        mirage.export(
            function, torch.zeros(9, 8), path=path, options=OPTIONS,
            dynamic_shapes={"x": {0: BATCH}},
        )  # fmt: skip
    assert not path.exists()
