"""Peers that are compiled in parallel: their machine code is kept, and no choice among them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from compile_peers import forget_choices


def test_machine_code_is_kept_and_choices_are_not(tmp_path: Path) -> None:
    kept = {"triton/0/kernel.cubin", "ab/kernel.py"}
    choices = {"cache/x", "fxgraph/a/b", "aotautograd/c", "ab/kernel.best_config"}
    for name in kept | choices:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    forget_choices(tmp_path)
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert left == kept
