"""Options for programs that a test executes and compares itself."""

from __future__ import annotations

from typing import Any

from mirage.pipeline.options import OptimizeOptions


def executed(**others: Any) -> OptimizeOptions:
    """Return options for one process and one finalist, which the emulator does not check before;
    the result is the same each time."""
    return OptimizeOptions(
        **{
            "check_kernels": False, "finalists": 1, "candidates": 1, "verify_seed": 1, "jobs": 1,
            "cubin": False,
        } | others
    )  # fmt: skip
