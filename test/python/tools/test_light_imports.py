"""Imports load little at first: names load on first use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "torch_mlir", "ortools", "scipy", "rich", "numpy", "mirage._mlir_libs")


def loaded(code: str) -> set[str]:
    code += "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "may"),
    [
        ("import mirage", ()),
        ("import mirage.cache", ()),
        ("import mirage.cli", ()),
        ("import mirage.runtime", ()),
        ("import mirage.errors", ()),
        (
            "from mirage.pipeline import optimize",
            ("numpy", "mirage._mlir_libs", "scipy", "ortools"),
        ),
    ],
)
def test_heavy_modules_are_not_imported(code: str, may: tuple[str, ...]) -> None:
    assert loaded(code).intersection(HEAVY) <= set(may)


def test_few_modules_of_ours() -> None:
    own = {name for name in loaded("import mirage") if name.startswith("mirage")}
    assert own == {"mirage", "mirage.lazy_names"}
    runtime = {name for name in loaded("import mirage.runtime") if name.startswith("mirage.")}
    assert runtime == {"mirage.runtime", "mirage.lazy_names"}
    code = "import mirage.runtime; mirage.runtime.load"
    used = {name for name in loaded(code) if name.startswith("mirage.")}
    assert {name.split(".")[1] for name in used} == {"runtime", "errors", "lazy_names"}


def test_names_of_the_runtime() -> None:
    import mirage.runtime

    for name in mirage.runtime.__all__:
        assert getattr(mirage.runtime, name).__name__ == name
    assert {*mirage.runtime.__all__} <= {*dir(mirage.runtime)}
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = mirage.runtime.lod
