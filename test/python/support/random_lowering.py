"""Random programs through the compiler: search, stabilise, lower, execute, and compare with
float64.

    .venv/bin/python test/python/support/random_lowering.py 2000 2300 --out /tmp/failures

checks the seeds 2000 to 2299 for both chips: the program itself (one kernel for each op) and every
candidate that the search finds. Failing programs are written to ``--out`` as MLIR of the form
``selected``. A refusal is accepted only if its diagnostic states a limit of the code generator
(:data:`LIMITS`).
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from example_programs.random_graphs import random_graph
from example_programs.random_programs import Generator
from lowering import compile_mlir
from mirage.compiler import CompileError
from mirage.compiler.ptxas import assemble
from mirage.cost.target import target_for
from mirage.emulator.run_artifact import TOLERANCE, compare, random_inputs, run_artifact
from mirage.errors import MirageError
from mirage.ir import MLIRError
from mirage.mlir_io import graph_to_text
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import Float64, TypedFloat, evaluate_floats
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Launch, Schedule
from mirage.transforms import stabilize

CHIPS = ("sm_80", "sm_90a")
LIMITS = (
    r"expected a tile of at most \d+ along dimension",
    r"expected at most \d+ bytes of shared memory",
    r"expected tiles with at most two dimensions larger than 1",
    r"expected to mask one of the two dimensions larger than 1",
    r"expected a result of a kernel, got (an input|output \d+ again); return a copy of it",
)
"""Diagnostics that state limits of the code generator."""
_ROUNDINGS = 4.0
"""The permitted ratio of the error to that of the same graph with every op rounded to its type."""
_MOST = 0.1
"""Larger errors are not attributed to rounding."""


class Refused(Exception):
    """A limit of the code generator."""


def programs(seed: int, chip: str) -> Iterator[tuple[str, KernelGraph, KernelGraph]]:
    """Yield names, graphs to lower and meanings: a random program, the results of the search for
    it, and a random µGraph (unusual maps, masks and loops) with a random schedule.
    """
    graph = Generator(seed).graph()
    if graph is not None:
        yield "program", decompose(graph, stable=True), graph
        limits = SearchLimits(candidates=4, plans=8, columns=1000)
        result = superoptimize(graph, target_for(chip), limits)
        for number, candidate in enumerate(result.candidates):
            yield f"candidate {number}", stabilize(candidate.graph).graph, graph
    rng = random.Random(seed)
    graph = random_graph(rng)
    try:
        check_graph(graph)
    except InvalidGraph:
        return
    schedule = Schedule(rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 3]))
    ops = tuple(replace(x, schedule=schedule) if isinstance(x, Launch) else x for x in graph.ops)
    if ops and graph.outputs[0] not in graph.inputs:
        graph = replace(graph, ops=ops)
        yield "graph", graph, graph


def check(graph: KernelGraph, meaning: KernelGraph, chip: str, seed: int) -> None:
    """Raises :class:`Refused`, or the error of the graph's lowering."""
    try:
        artifact = compile_mlir(graph_to_text(graph, form="selected"), chip)
    except (CompileError, MLIRError) as error:
        if any(re.search(limit, str(error)) for limit in LIMITS):
            raise Refused(str(error)) from None
        raise
    for name, data in artifact.files.items():
        if name.endswith(".ptx"):
            assemble(data.decode(), chip)
    given = random_inputs(artifact.manifest.inputs, seed)
    exact = [np.asarray(x, np.float64) for x in given]
    outputs = run_artifact(artifact, given, stats=False).outputs
    expected = evaluate_floats(meaning, exact)
    compare(outputs, expected, tolerances(graph, exact, expected))


def tolerances(graph: KernelGraph, inputs: list[Array], expected: tuple[Array, ...]) -> list[float]:
    """Return the tolerances of the narrowest type in the graph, or those required by its own
    roundings."""
    types = {v.dtype.value for op in graph.ops for v in (*op.operands, *op.results)}
    least = max(TOLERANCE[t] for t in types)
    allowed: list[float] = []
    for rounded, exact in zip(evaluate_floats(graph, inputs, TypedFloat()), expected, strict=True):
        scale = np.sqrt(np.mean(exact**2)) + np.abs(exact)
        error = np.abs(rounded - exact) / np.where(scale == 0, 1.0, scale)
        own = _ROUNDINGS * float(np.max(error, initial=0.0))
        allowed.append(max(least, own) if own < _MOST else least)
    return allowed


def is_defined(meaning: KernelGraph, seed: int) -> bool:
    """Return whether the program has finite results on normal inputs, also with its values'
    types."""
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(v.shape) * 0.5 for v in meaning.inputs]
    results = (evaluate_floats(meaning, inputs, domain) for domain in (Float64(), TypedFloat()))
    return all(np.isfinite(x).all() for values in results for x in values)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--chips", nargs="+", choices=CHIPS, default=list(CHIPS))
    parser.add_argument("--out", type=Path, help="folder for programs that fail")
    options = parser.parse_args()
    counts = {"passed": 0, "refused": 0, "failed": 0}
    for seed in range(options.first, options.end):
        for chip in options.chips:
            for name, graph, meaning in programs(seed, chip):
                if not is_defined(meaning, seed):
                    continue
                try:
                    check(graph, meaning, chip, seed)
                    counts["passed"] += 1
                except Refused as refusal:
                    counts["refused"] += 1
                    print(f"{seed} {chip} {name}: refused: {refusal}", flush=True)
                except (MirageError, MLIRError) as error:
                    counts["failed"] += 1
                    print(f"{seed} {chip} {name}: {type(error).__name__}: {error}", flush=True)
                    if options.out:
                        options.out.mkdir(parents=True, exist_ok=True)
                        path = options.out / f"{seed}-{chip}-{name.replace(' ', '-')}.mlir"
                        path.write_text(graph_to_text(graph, form="selected"))
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
