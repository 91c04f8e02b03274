"""The emulator and the GPU leave the same memory for the same PTX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "emulator_vs_gpu.py"


def test_whole_kernels_agree(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path), "-k", "test_kernels"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "emulator_vs_gpu.json").read_text())["rows"]
    assert sum(r["launches"] for r in rows) >= 15
    assert {r["verdict"] for r in rows} <= {"equal", "within tolerance", "not run"}
