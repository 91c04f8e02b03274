"""Artifacts on disk: written completely, read strictly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mirage.runtime import (
    ArtifactVersionError,
    TruncatedArtifactError,
    UnreadableArtifactError,
    UnwritableArtifactError,
    load,
    read_artifact,
    write_artifact,
)
from small_artifacts.small_artifact import small_artifact


def test_roundtrip(tmp_path: Path) -> None:
    artifact = small_artifact()
    path = write_artifact(artifact, tmp_path / "a" / "twice.mirage")
    again = read_artifact(path)
    assert again.manifest == artifact.manifest
    assert again.files == artifact.files
    assert again.manifest.workspace_bytes == 512
    assert [p.name for p in path.parent.iterdir()] == [
        "twice.mirage"
    ]  # no temporary folder is left


def test_replaces_artifacts_only(tmp_path: Path) -> None:
    path = write_artifact(small_artifact(), tmp_path / "a")
    write_artifact(small_artifact(chip="sm_90a"), path)
    assert read_artifact(path).manifest.chip == "sm_90a"
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious.txt").write_text("keep")
    with pytest.raises(UnreadableArtifactError, match="artifact to replace"):
        write_artifact(small_artifact(), other)
    assert (other / "precious.txt").read_text() == "keep"


def test_nothing_is_left_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mirage.runtime.serialization.artifact.json.dumps", fail)
    message = r"a: cannot be written \(No space left on device\); nothing is left there"
    with pytest.raises(UnwritableArtifactError, match=message):
        write_artifact(small_artifact(), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UnreadableArtifactError, match="no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(UnreadableArtifactError, match="no such file"):
        load(tmp_path)


@pytest.mark.parametrize("keep", [0, 1, 100, 1000])
def test_truncated_manifest(tmp_path: Path, keep: int) -> None:
    path = write_artifact(small_artifact(), tmp_path / "a")
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:keep])
    with pytest.raises(TruncatedArtifactError, match="complete JSON"):
        load(path)


def test_binary_manifest(tmp_path: Path) -> None:
    path = write_artifact(small_artifact(), tmp_path / "a")
    (path / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableArtifactError, match="cannot be read"):
        load(path)


def test_truncated_code(tmp_path: Path) -> None:
    path = write_artifact(small_artifact(), tmp_path / "a")
    code = path / "kernels.ptx"
    code.write_bytes(code.read_bytes()[:-10])
    with pytest.raises(TruncatedArtifactError, match="truncated or changed"):
        load(path)
    code.unlink()
    with pytest.raises(TruncatedArtifactError, match="No such file"):
        load(path)


def _set(*path: str | int, value: object) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_set("version", value=99), ArtifactVersionError, "expected manifest version 10, got 99"),
        (_set("format", value="x"), UnreadableArtifactError, "'mirage-artifact' manifest"),
        (_set("version", value="1"), UnreadableArtifactError, "version: expected a non-negative"),
        (_set("extra", value=1), UnreadableArtifactError, "extra: expected no such key"),
        (_set("inputs", 0, "dtype", value="i4"), UnreadableArtifactError, r"inputs\[0\].dtype:"),
        (_set("inputs", 0, "strides", value=[1]), UnreadableArtifactError, "expected 2 strides"),
        (_set("kernels", 0, "grid", value=[1, 2]), UnreadableArtifactError, "three positive"),
        (_set("kernels", 0, "grid", value=[1, 0, 1]), UnreadableArtifactError, "three positive"),
        (_set("kernels", 1, "module", value=1), UnreadableArtifactError, "one of 1 modules"),
        (_set("kernels", 0, "arguments", 0, "index", value=1), UnreadableArtifactError, "1 input"),
        (_set("kernels", 0, "arguments", 0, "kind", value="x"), UnreadableArtifactError, "or size"),
        (_set("kernels", value=[]), UnreadableArtifactError, "a kernel that writes them"),
        (_set("modules", 0, "ptx", value="../../etc/p"), UnreadableArtifactError, "same folder"),
        (_set("workspace", 0, "offset", value=-1), UnreadableArtifactError, "non-negative"),
        (_set("updates", value=[1]), UnreadableArtifactError, "updates: expected some of 1 inputs"),
        (_set("name", value=None), UnreadableArtifactError, "name: expected a string"),
    ],
)  # fmt: skip
def test_wrong_manifest(
    tmp_path: Path, change: Callable[[Any], None], error: type[Exception], message: str
) -> None:
    path = write_artifact(small_artifact(), tmp_path / "a")
    data = json.loads((path / "manifest.json").read_text())
    change(data)
    (path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(error, match=message):
        load(path)


def test_every_key_is_required(tmp_path: Path) -> None:
    path = write_artifact(small_artifact(), tmp_path / "a")
    text = (path / "manifest.json").read_text()
    for key in json.loads(text):
        data = json.loads(text)
        del data[key]
        (path / "manifest.json").write_text(json.dumps(data))
        with pytest.raises(UnreadableArtifactError):
            load(path)


def test_runtime_needs_no_compiler() -> None:
    """Loading imports nothing beyond the standard library: no torch, NumPy or bindings."""
    code = (
        "import sys, mirage.runtime; "
        "heavy = [m for m in sys.modules if m.split('.')[0] in "
        "('torch', 'numpy', 'cuda', 'rich', 'platformdirs', 'torch_mlir')]; "
        "ours = [m for m in sys.modules if m.startswith('mirage.') "
        "and not m.startswith(('mirage.runtime', 'mirage.errors', 'mirage.lazy_names'))]; "
        "sys.exit(f'{heavy} {ours}' if heavy or ours else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
