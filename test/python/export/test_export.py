"""Whole models as artifacts: their contents, calls and results; and models that are refused.
Kernels are found by a short search and executed in the emulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mirage
import pytest
import torch
from mirage.frontend.errors import GraphTypeError
from mirage.pipeline.commands.interface import check_apart
from mirage.pipeline.whole_model import IncompleteModelError
from mirage.runtime import (
    ArtifactVersionError,
    CallError,
    Model,
    NoGpuError,
    StateError,
    TruncatedArtifactError,
    UnreadableArtifactError,
    WrongChipError,
    load,
)
from mirage.runtime.dispatch.plan import Call, Launch
from torch import nn

OPTIONS = {"budget": 20, "candidates": 1, "jobs": 1, "finalists": 1, "check_kernels": False}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRAGE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


class Pair(NamedTuple):
    y: torch.Tensor
    rest: list[Any]


class Net(nn.Module):
    """A bit of everything: weights, one of them used twice, a cache, a constant, a call that
    stays."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16, bias=False)
        self.again = nn.Linear(16, 16, bias=False)
        self.again.weight = self.first.weight
        self.register_buffer("cache", torch.zeros(2, 8, 16), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.table = torch.randn(8, 16)

    def forward(self, x: torch.Tensor, parts: dict[str, Any], *, at: torch.Tensor, n: int) -> Any:
        self.steps += 1
        self.cache.index_copy_(1, at, self.again(self.first(x)))
        y = torch.special.i0e(self.cache + self.table) * n
        parts["out"].mul_(2.0)
        return {"pair": Pair(y, [self.cache, None, n]), "seen": x.transpose(0, 1), "y": y[:, 1:]}


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False)


def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(1)
    parts = {"out": torch.randn(3, 4)}
    return (torch.randn(2, 1, 16), parts), {"at": torch.tensor([3]), "n": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "net.mirage"
    args, named = arguments()
    found = mirage.export(net(), *args, path=path, options=OPTIONS, **named)
    assert found.path == path
    assert [op for op, _ in found.stays] == ["aten.special_i0e"]
    assert [p.name for p in path.parent.iterdir()] == ["net.mirage"]
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return loaded(folder)


def loaded(path: Path, **named: Any) -> Model:
    found = load(path, device="cpu", **named)
    assert isinstance(found, Model)
    return found


def test_it_does_what_the_module_does(folder: Path) -> None:
    mine, theirs = loaded(folder), net()
    for at in range(3):
        (args, named), (others, _) = arguments(), arguments()
        named["at"] = torch.tensor([at])
        got, want = mine(*args, **named), theirs(*others, **named)
        torch.testing.assert_close(got["y"], want["y"], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(args[1]["out"], others[1]["out"])
        assert list(got) == ["pair", "seen", "y"]
        assert type(got["pair"]).__name__ == "Pair"
        assert got["pair"].rest[1:] == [None, 2]
        assert got["seen"].data_ptr() == args[0].data_ptr()
        assert got["seen"].stride() == want["seen"].stride()
        assert got["pair"].rest[0].data_ptr() == mine.state["cache"].data_ptr()
        got["pair"].y.fill_(7.0)  # its slice is in its memory
        assert bool((got["y"] == 7.0).all())
        assert got["y"].stride() == want["y"].stride()
    for name in ("cache", "steps"):
        torch.testing.assert_close(mine.state[name], getattr(theirs, name))


def test_positional_arguments_have_the_names_of_parameters(folder: Path) -> None:
    """A caller of the module may also write ``model(x, parts=parts)``."""
    for first in range(2):
        args, named = arguments()
        want = net()(*args, **named)["y"]
        args, named = arguments()
        named |= dict(zip(("x", "parts")[first:], args[first:], strict=True))
        torch.testing.assert_close(loaded(folder)(*args[:first], **named)["y"], want)


def test_named_arguments_may_be_passed_by_position(tmp_path: Path) -> None:
    """With examples by name, or if a parameter between them keeps its default."""

    def scaled(x: torch.Tensor, shift: float = 0.0, by: float = 1.0) -> torch.Tensor:
        return torch.special.i0e(x) * by + shift

    x = torch.randn(4)
    path = tmp_path / "scaled.mirage"
    mirage.export(scaled, x, path=path, options=OPTIONS, by=0.5)
    want = scaled(x, by=0.5)
    for given, named in (((x,), {"by": 0.5}), ((), {"by": 0.5, "x": x})):
        torch.testing.assert_close(loaded(path)(*given, **named), want)
    for given, named in (((x, 0.0, 0.5), {}), ((x, 0.5), {}), ((x,), {"x": x, "by": 0.5})):
        with pytest.raises(CallError, match=r"positional arguments .* and the named ones by"):
            loaded(path)(*given, **named)


def test_what_is_in_it(folder: Path, model: Model) -> None:
    m = model.manifest
    steps = m.plan.steps
    assert any(isinstance(s, Launch) for s in steps)
    calls = {s.op: s.in_place for s in steps if isinstance(s, Call)}
    assert "aten.index_copy" not in calls  # a kernel stores the row
    assert any(s.updates for s in steps if isinstance(s, Launch))
    assert not calls["aten.special_i0e"]
    held = {s.spec.name: s for s in m.state}
    assert held["cache"].fill == 0.0  # an empty cache takes no room
    assert held["steps"].file == "weights.safetensors"
    table = next(s for name, s in held.items() if "table" in name or s.spec.shape == (8, 16))
    assert table.file == "constants.safetensors"
    assert {p.name for p in folder.iterdir()} >= {"manifest.json", "part0", *m.files}
    size = (folder / "weights.safetensors").stat().st_size
    assert size < 2 * 16 * 16 * 4  # a weight that two layers share is stored once
    assert "unused" not in held


def test_weights_by_reference(tmp_path: Path) -> None:
    args, named = arguments()
    module = net()
    path = tmp_path / "net.mirage"
    mirage.export(module, *args, path=path, weights="reference", options=OPTIONS, **named)
    assert not (path / "weights.safetensors").exists()
    with pytest.raises(StateError, match=r"expected a state dict with \d tensors .*but none was"):
        load(path, device="cpu")
    weights = module.state_dict()
    mine = loaded(path, state=weights)
    assert mine.state["steps"].data_ptr() == weights["steps"].data_ptr()  # it is the module's own
    got = mine(*args, **named)["y"]
    torch.testing.assert_close(got, net()(*arguments()[0], **named)["y"], rtol=1e-4, atol=1e-5)
    name = next(n for n in weights if n.endswith("weight"))
    for change, message in (
        (torch.zeros(16, 8), r"expected torch.float32 of shape \(16, 16\), got .* \(16, 8\)"),
        (torch.zeros(16, 16).half(), r"got torch.float16 of shape"),
        ("x", "expected a tensor"),
    ):
        wrong = dict.fromkeys(weights, change)
        wrong["steps"] = weights["steps"]
        with pytest.raises(StateError, match=message):
            load(path, device="cpu", state={**wrong, name: change})
    with pytest.raises(StateError, match="it has none of these names"):
        load(path, device="cpu", state={})


def test_weights_that_would_not_be_read(folder: Path) -> None:
    """A model with its own weights does not silently take others."""
    with pytest.raises(StateError, match=r"expected no state dict, as '.*' and the rest are in"):
        load(folder, device="cpu", state=net().state_dict())
    assert load(folder, device="cpu", state={}) is not None


def test_the_state_may_be_a_file(tmp_path: Path, folder: Path) -> None:
    args, named = arguments()
    path = tmp_path / "net.mirage"
    mirage.export(net(), *args, path=path, weights="reference", options=OPTIONS, **named)
    mine = loaded(path, state=folder / "weights.safetensors")
    want = net()(*arguments()[0], **named)["y"]
    torch.testing.assert_close(mine(*args, **named)["y"], want, rtol=1e-4, atol=1e-5)


# ---- calls that do not fit


def changed(change: Callable[[list[Any], dict[str, Any]], Any]) -> tuple[list[Any], dict[str, Any]]:
    args, named = arguments()
    mine = list(args)
    change(mine, named)
    return mine, named


def share(args: list[Any], named: dict[str, Any]) -> None:
    whole = torch.randn(64)
    args[0] = whole[4:36].view(2, 1, 16)
    args[1] = {"out": whole[:12].view(3, 4)}


def misfit(where: str | int, value: Any) -> Callable[[list[Any], dict[str, Any]], Any]:
    def change(args: list[Any], named: dict[str, Any]) -> None:
        (args if isinstance(where, int) else named)[where] = value  # type: ignore[index]

    return change


MISFITS: dict[str, tuple[Callable[[list[Any], dict[str, Any]], Any], str]] = {
    "a number": (misfit("n", 3), "n: expected 2, for which the model was exported, got 3"),
    "a shape": (misfit(0, torch.zeros(2, 2, 16)), r"x: expected shape \(2, 1, 16\).*\(2, 2, 16\)"),
    "a type": (misfit(0, torch.zeros(2, 1, 16).double()), "x: expected elements of type"),
    "no tensor": (misfit(0, None), "x: expected a torch.Tensor, got NoneType"),
    "a device": (misfit(0, torch.zeros(2, 1, 16, device="meta")), "x: expected a tensor on cpu"),
    "strides": (misfit(0, torch.zeros(16, 1, 2).permute(2, 1, 0)), "x: expected strides"),
    "keys": (misfit(1, {"in": 1}), "argument 1: expected the keys 'out', got 'in'"),
    "a list": (misfit(1, [torch.zeros(1)]), "argument 1: expected a dictionary of 'out', got a l"),
    "too few": (
        lambda args, named: args.pop(),
        r"expected 2 positional arguments \(x, parts\) and the",
    ),
    "a name too many": (
        lambda args, named: named.update(x=args.pop(0)),
        r"expected 2 positional arguments .* got 1 and at, n, x",
    ),
    "a missing name": (lambda args, named: named.pop("n"), "the named ones at, n, as it was"),
    "memory": (share, r"out.*: expected separate memory, as the model writes to it"),
    "a gradient": (misfit(0, torch.zeros(2, 1, 16, requires_grad=True)), "needs no gradient"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_named(model: Model, name: str) -> None:
    change, message = MISFITS[name]
    args, named = changed(change)
    before = model.state["cache"].clone()
    with pytest.raises(CallError, match=message):
        model(*args, **named)
    torch.testing.assert_close(model.state["cache"], before)


def test_the_models_own_cache_is_no_argument(model: Model) -> None:
    args, named = arguments()
    cache = model.state["cache"]
    with pytest.raises(CallError, match=r"cache: expected separate memory"):
        model(cache.view(-1)[:32].view(2, 1, 16), args[1], **named)


# ---- folders that were changed


def copied(folder: Path, target: Path) -> Path:
    import shutil

    return Path(shutil.copytree(folder, target))


@pytest.mark.parametrize(
    "file",
    ["weights.safetensors", "constants.safetensors", "part0/manifest.json", "part0/kernels.ptx"],
)
def test_a_changed_file_is_noticed(folder: Path, tmp_path: Path, file: str) -> None:
    path = copied(folder, tmp_path / "m")
    content = bytearray((path / file).read_bytes())
    content[-2] ^= 1
    (path / file).write_bytes(content)
    with pytest.raises(TruncatedArtifactError, match="truncated or changed"):
        load(path, device="cpu")
    (path / file).unlink()
    with pytest.raises(TruncatedArtifactError):
        load(path, device="cpu")


def edited(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (edited("version", value=9), ArtifactVersionError, "version 3, got 9; export the model"),
        (edited("extra", value=1), UnreadableArtifactError, "extra: expected no such key"),
        (edited("updates", 0, value=99), UnreadableArtifactError, "updates: expected one of"),
        (edited("outputs", value=[0]), UnreadableArtifactError, "outputs: expected"),
        (edited("steps", 0, "operands", value=[99]), UnreadableArtifactError, r"steps\[0\]"),
        (edited("steps", 0, "results", value=[99]), UnreadableArtifactError, "steps"),
        (edited("files", value={}), UnreadableArtifactError, "file: expected a file of the model"),
        (edited("arguments", value=[]), UnreadableArtifactError, "arguments: expected 4"),
        (edited("parts", 0, "folder", value="../x"), UnreadableArtifactError, "same folder"),
        (edited("state", 0, "tensor", "dtype", value="i4"), UnreadableArtifactError, "dtype"),
        (edited("result_structure", "kind", value="set"), UnreadableArtifactError, "one of leaf"),
    ],
)
def test_a_wrong_manifest(
    folder: Path,
    tmp_path: Path,
    change: Callable[[Any], None],
    error: type[Exception],
    message: str,
) -> None:
    path = copied(folder, tmp_path / "m")
    data = json.loads((path / "manifest.json").read_text())
    change(data)
    (path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(error, match=message):
        load(path, device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoGpuError, match="device='cpu' its kernels are executed in the emulator"):
        load(folder)
    monkeypatch.setattr("mirage.runtime.models.model.EMULATOR", "mirage.nowhere")
    with pytest.raises(NoGpuError, match="not part of the runtime"):
        load(folder, device="cpu")


def test_another_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr("mirage.runtime.models.model.compute_capability", lambda device: (8, 6))
    with pytest.raises(WrongChipError, match=r"model 'Net' was compiled for sm_90a.*8\.6; export"):
        load(folder)


# ---- models that are not written


class Strange(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x * 2


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.zeros(4, 4))
        self.register_buffer("second", torch.ones(4, 4))

    def forward(self, at: torch.Tensor, x: torch.Tensor) -> Any:
        return self.first.index_copy_(0, at, x) + self.second


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path) -> None:
    x = torch.randn(2, 3)
    path = tmp_path / "m"
    with pytest.raises(GraphTypeError, match="got the class Strange; pass an object"):
        mirage.export(Strange, x, path=path)
    with pytest.raises(mirage.MirageError, match=r"x: tensors of torch.uint8 cannot be described"):
        mirage.export(Strange(), x.to(torch.uint8), path=path)
    with pytest.raises(mirage.MirageError, match="expected weights to be one of"):
        mirage.export(Strange(), x, path=path, weights="pickle")  # type: ignore[arg-type]

    shared = torch.zeros(4, 4)

    class Overlapping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("all", shared)
            self.register_buffer("some", shared[1:])

        def forward(self, at: torch.Tensor, x: torch.Tensor) -> Any:
            self.all.index_copy_(0, at, x)
            return self.some * 2

    # PyTorch refuses to capture it, or we refuse to write it
    with pytest.raises(mirage.MirageError):
        mirage.export(Overlapping(), torch.tensor([0]), torch.randn(1, 4), path=path)
    imported = mirage.from_torch(Twice(), torch.tensor([0]), torch.randn(1, 4), allow_updates=True)
    held = [replace(p, data=shared) for p in imported.program.parameters]
    with pytest.raises(IncompleteModelError, match="shares memory with"):
        check_apart(replace(imported.program, parameters=tuple(held)))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "precious").write_text("keep")
    with pytest.raises(UnreadableArtifactError, match="an artifact to replace"):
        mirage.export(Strange(), x, path=tmp_path / "precious")


def test_a_program_of_several_parts_is_saved_whole(tmp_path: Path) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = torch.special.i0e(x @ w)
        return y, None, (y * 2).sum(-1)

    x, w = torch.randn(4, 8), torch.randn(8, 8)
    found = mirage.from_torch(function, x, w, allow_fallback=True).superoptimize(**OPTIONS)
    model = loaded(found.save(tmp_path / "m"))
    torch.testing.assert_close(model(x, w), function(x, w), rtol=1e-4, atol=1e-5)
    # each part may start before the last one has ended
    parts = [model.artifact.part(i).manifest for i in range(len(model.manifest.parts))]
    assert [m.kernels[0].dependent for m in parts] == [True] * 2

    alone = mirage.from_torch(torch.matmul, x, w).superoptimize(**OPTIONS)
    (artifact,) = alone.artifacts
    assert not artifact.manifest.kernels[0].dependent
