"""Options for programs that a test executes and compares itself."""

from __future__ import annotations

from typing import Any

from mirage.pipeline.options import OptimizeOptions

FEW_CHOICES = {
    "plans": 4, "cuts": 4, "choices": 1, "samples": 1, "derivations": 1, "columns": 20,
    "goals": 100,
}  # fmt: skip
"""Limits of a search whose first candidates are executed: the tests check whether they are correct,
not how fast they are."""


def executed(**others: Any) -> OptimizeOptions:
    """Return options for one process and one finalist, which the emulator does not check before;
    the result is the same each time."""
    return OptimizeOptions(
        **{
            "check_kernels": False, "finalists": 1, "candidates": 1, "verify_seed": 1, "jobs": 1,
            "cubin": False,
        } | others
    )  # fmt: skip
