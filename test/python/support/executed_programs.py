"""Options for programs that a test executes and compares itself: a search that its bounds end soon,
however slow the machine is."""

from __future__ import annotations

from typing import Any

from mirage.pipeline.options import OptimizeOptions

FEW_CHOICES = {
    "plans": 4, "cuts": 4, "choices": 1, "samples": 1, "derivations": 1, "columns": 20,
    "goals": 100,
}  # fmt: skip
"""Bounds of a search whose first candidates are executed: whether they are right is what is tested,
not how fast they are."""


def executed(**others: Any) -> OptimizeOptions:
    """Return options for one process and one finalist, which the emulator does not check before;
    the result is the same each time."""
    return OptimizeOptions(
        **{
            "check_kernels": False, "finalists": 1, "candidates": 1, "verify_seed": 1, "jobs": 1,
            "cubin": False, "bounds": FEW_CHOICES,
        } | others
    )  # fmt: skip
