"""A run that is ended with Ctrl-C returns what has been found so far, whatever is in progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
from mirage.pipeline.checks.check import Checker
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.compile.compile_candidates import CandidateCompiler
from mirage.pipeline.optimization import Optimization
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.semantics.ugraph import Launch
from thorough import some_of

OPTIONS = mi.OptimizeOptions(
    candidates=2, verify_seed=1, jobs=1, budget=600.0, use_cache=False, cubin=False
)
X, W = torch.randn(16, 32), torch.randn(32, 32)


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.special.i0e(x @ w) @ w)


def interrupted(work: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    """``work``, but the user interrupts its first calls."""
    calls: list[int] = []

    def first(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) <= times:
            raise KeyboardInterrupt
        return work(*given, **named)

    return first


PHASES: dict[str, tuple[Any, str]] = {
    "a first answer": (parts_module.PartSolver, "begin"),
    "first answers are compiled": (parts_module.Parts, "so_far"),
    "a better answer": (parts_module.PartSolver, "better"),
    "the search": (parts_module.PartSolver, "run"),
    "estimates": (parts_module.PartSolver, "compiling"),
    "candidates are written": (Optimization, "_reported"),
    "compilation": (CandidateCompiler, "build"),
    "kernels are run": (Checker, "check"),
}


@pytest.mark.parametrize("phase", some_of(PHASES, every=3))
def test_what_was_found_is_handed_out(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = PHASES[phase]
    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)
    monkeypatch.setattr(owner, name, interrupted(getattr(owner, name)))
    found = optimize(mi.from_torch(program, X, W, allow_fallback=True).program, OPTIONS)
    (result,) = emulate(found, X, W)
    torch.testing.assert_close(result, program(X, W), rtol=1e-3, atol=1e-3)
    if phase in ("candidates are written", "compilation", "kernels are run"):
        assert any(isinstance(op, Launch) for op in found.graph.ops)


def test_who_ends_it_twice_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    work = interrupted(CandidateCompiler.build, times=2)
    monkeypatch.setattr(CandidateCompiler, "build", work)
    with pytest.raises(KeyboardInterrupt):
        optimize(mi.from_torch(program, X, W, allow_fallback=True).program, OPTIONS)
