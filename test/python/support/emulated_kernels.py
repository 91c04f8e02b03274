"""A program with kernels from the search, executed in the emulator: on a CPU, it replaces the
kernels that run on a GPU for a model's graph. The search is short, and nothing is verified, since
the tests check that the kernels compute the program. Every distinct kernel is executed with all
checks of the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executed_programs import FEW_CHOICES
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.call import Runner, in_emulator
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.search import add_candidates
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import inlined, parts_of
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.gathered_copies import with_copied_rows
from mirage.transforms.lookups import fused

CHIP = "sm_90a"
LIMITS = SearchLimits(budget=1e6, candidates=1, **FEW_CHOICES)
"""Only limits end the search, so that a slow machine finds the same kernels."""


def emulated_kernels(program: Program, options: Mapping[str, Any]) -> Any:
    """The program compiled, as a function of tensors on the CPU. ``options`` do not matter."""
    graph = _with_kernels(program)
    steps = tuple(Builder(program, CHIP, cubin=False, use_cache=False).steps(graph))
    run = Runner(program, graph, steps)
    return lambda *tensors: run(in_emulator, tensors, None, write=True)


def _with_kernels(program: Program) -> KernelGraph:
    """The program with the first candidate of each part. Raises ``AssertionError`` if a part has
    none."""
    target = target_for(CHIP)
    candidates, _ = add_candidates(program.graph, target, LIMITS)
    stable, _ = stabilize_candidates(candidates)
    assert all(len(part.programs) > 1 for part in parts_of(stable))
    return fused(with_copied_rows(inlined(stable, lambda part: 1), target))
