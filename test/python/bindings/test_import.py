"""The package joins its two folders, and works without the compiled one where possible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "python"


def run(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False
    )


def test_every_dialect_is_importable() -> None:
    names = "kernel block thread builtin func arith math index cf scf memref vector gpu nvgpu nvvm"
    code = f"import mirage.ir, mirage.passmanager, mirage.rewrite\nfor n in {names.split()!r} + "
    code += "['llvm', 'ub', 'tensor']: __import__('mirage.dialects.' + n)"
    done = run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module", ["mirage", "mirage.runtime", "mirage.emulator", "mirage.semantics"]
)
def test_some_parts_need_no_compiled_bindings(module: str) -> None:
    # Without the environment's .pth file, only the sources are on the path.
    code = (
        "import sys;"
        f"sys.path = [p for p in sys.path if 'python_packages' not in p] + [{str(SOURCES)!r}];"
        f"import {module};"
        "sys.exit('mirage._mlir_libs' in sys.modules)"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
