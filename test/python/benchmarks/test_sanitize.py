"""Each of the sanitizer's tools runs the programs it can judge, and all of them must be clean."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import sanitize
import torch
from sanitize_subjects import SUBJECTS

SANITIZER = """#!/bin/sh
shift
tool=$1
while [ "$1" != --only ]; do shift; done
shift
for name in "$@"; do echo "ran $name"; done
[ $tool = {broken} ] && count=1 || count=0
echo "========= ERROR SUMMARY: $count errors"
"""


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    folder = tmp_path / "artifacts"
    stores = {
        "rows": "st.global.v4.b32",
        "bulk": "cp.async.bulk.global.shared::cta.bulk_group",
        "tensor": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
        "sums": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32",
        "loads": "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier",
    }
    for name, store in stores.items():
        (folder / f"{name}.mirage").mkdir(parents=True)
        (folder / f"{name}.mirage" / "kernels.ptx").write_text(f"{store} [%rd1];\n")
    return folder


@pytest.mark.parametrize("broken", ["none", *sanitize.TOOLS])
def test_tools(broken: str, artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = artifacts.parent / "compute-sanitizer"
    tool.write_text(SANITIZER.format(broken=broken))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(artifacts.parent), prepend=":")
    monkeypatch.setattr(
        sys, "argv", ["", "--artifacts", str(artifacts), "--out", str(artifacts.parent)]
    )
    assert sanitize.main() == (0 if broken == "none" else 1)
    tools = json.loads((artifacts.parent / "sanitizer.json").read_text())["tools"]
    everything = ["bulk", "loads", "rows", "sums", "tensor"]
    for name, row in tools.items():
        assert row["ran"] == (["loads", "rows"] if name == "initcheck" else everything)
        assert row["errors"] == (name == broken)


def test_small_programs_stand_beside_those_of_the_catalogue(tmp_path: Path) -> None:
    for name in ("a/first", "b/second", "b/third"):
        (tmp_path / f"{name}.mirage" / "part0").mkdir(parents=True)
    (tmp_path / "b/third.mirage/part0/kernels.ptx").write_text(
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1];"
    )
    places = [tmp_path / "a", tmp_path / "b"]
    assert [f.stem for f in sanitize.found(places, ())] == ["first", "second", "third"]
    assert [f.stem for f in sanitize.found(places, ("third", "first"))] == ["first", "third"]
    assert [f.stem for f in sanitize.found(places, ()) if sanitize.stores_in_bulk(f)] == ["third"]


@pytest.mark.thorough
def test_inputs_of_small_programs_are_valid() -> None:
    for name, subject in SUBJECTS.items():
        if name != "fp8_product":  # not on every processor
            result = subject.program(*subject.inputs("cpu"))
            assert bool(torch.isfinite(result).all()), name
