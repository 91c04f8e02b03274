"""`mirage-opt`, stage by stage, and `optimize` take the same path: they choose the same µGraph, and
its PTX is the same, byte for byte.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from example_programs import search_programs as programs
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.workloads.attention import positional_attention
from written_kernels.thread_kernels import mirage_opt

CHIP = "sm_90a"
STAGES = (
    f"--mirage-search=chip={CHIP}",
    "--mirage-stabilize",
    "--mirage-skip-steps",
    f"--mirage-shortlist=chip={CHIP}",
    "--mirage-verify=seed=1",
    f"--mirage-rank=chip={CHIP}",
    f"--mirage-select=chip={CHIP}",
)
"""Defaults everywhere, except for the chip, which may differ between machines, and for secret
numbers."""
LOWERING = (f"--mirage-lower-block=chip={CHIP}", f"--mirage-thread-to-ptx=chip={CHIP}")

SPLIT = "\n// -----\n"

PROGRAMS = (
    programs.matmul(32, 64, 48),
    programs.lora(16, 64, 8, 32),
    programs.softmax(32, 64),
    programs.qk_norm_attention(2, 16, 64, 32),
    programs.residual_rms_linear(16, 64, 32),
    programs.tokens_linear(2, 16, 32, 48),
    programs.centred_sums(16, 64),
    programs.swiglu(16, 32, 16),
    programs.pairs_of_integers(40),
    positional_attention("causal", "", 2, 256, 32).graph(),
)


def stage_by_stage(text: str, *flags: str) -> str:
    """Return the output of `mirage-opt` for ``text``."""
    done = subprocess.run(
        [mirage_opt(), "-", *flags],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MIRAGE_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_paths_give_the_same_results(tmp_path: Path) -> None:
    """For each program; one process takes all of them, one after the other."""
    options = OptimizeOptions(chip=CHIP, verify_seed=1, jobs=1)
    optimized = [optimize(program, options) for program in PROGRAMS]
    texts = (SPLIT.join(o.mlir["reference"] for o in optimized), "--split-input-file", *STAGES)
    for selected, whole in zip(stage_by_stage(*texts).split(SPLIT), optimized, strict=True):
        read = graph_from_text(selected)
        name = read.graph.name
        assert graph_to_text(read.graph, form=read.form) == whole.mlir["selected"], name
        file = tmp_path / f"{name}.ptx"
        stage_by_stage(selected, *LOWERING, f"--mirage-print-ptx=file={file}")
        (module,) = whole.artifact.manifest.modules
        assert file.read_bytes().strip() == whole.artifact.files[module.ptx].strip(), name
