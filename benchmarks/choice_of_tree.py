#!/usr/bin/env python3
"""The choices of the tree that PYTHONPATH names, for :mod:`choice_changes`, which asks trees of
several commits.

Standard input names built-in programs, one per line; the answers are JSON objects, one per line: a
hash of the µGraph that is chosen, its kernels in short, and its predicted time. With ``--ptx
FOLDER``, the program is compiled, too, and its PTX is written there.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mirage.compiler import CompileOptions, compile_graph
from mirage.cost.target import DEFAULT_CHIP, target_for
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import ranking
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics import ugraph
from mirage.semantics.alternatives import Alternatives, inlined
from mirage.transforms.lookups import fused
from mirage.workloads import get

CANDIDATES, SPARE = 6, 3
"""The candidates that are kept, and how many times as many are searched for: the same in all trees,
whatever their defaults are."""
NAMES = ("name", "location")
"""The fields that do not belong to a program's meaning."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--ptx", type=Path, help="folder for the PTX of the choices")
    folder: Path | None = parser.parse_args().ptx
    for line in sys.stdin:
        print(in_a_fork(line.strip(), folder), flush=True)


def in_a_fork(name: str, folder: Path | None) -> str:
    """Answer for one program in a separate process, which keeps nothing for the next one."""
    inward, outward = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(outward, "w") as answer:
            answer.write(json.dumps(answer_for(name, folder)))
        os._exit(0)
    os.close(outward)
    with os.fdopen(inward) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or json.dumps({"graph": "the process died"})


def answer_for(name: str, folder: Path | None) -> dict[str, Any]:
    try:
        graph, microseconds = choice(name)
        if folder is not None:
            write_ptx(graph, folder / name)
    except Exception as error:  # any exception of another tree is its result
        return {"graph": f"{type(error).__name__}: {error}".splitlines()[0]}
    digest = hashlib.sha256(text_of(graph).encode()).hexdigest()[:12]
    return {"graph": digest, "kernels": kernels(graph), "us": round(microseconds, 3)}


def choice(name: str) -> tuple[ugraph.KernelGraph, float]:
    """Return the graph that is chosen in this tree, and its predicted time."""
    target = target_for(DEFAULT_CHIP)
    limits = SearchLimits(budget=900.0, candidates=SPARE * CANDIDATES)
    candidates, _ = add_candidates(get(name).graph(), target, limits)
    stable, exponentials = stabilize_candidates(candidates)
    short, _ = shortlist(skip_steps()(stable), target, CANDIDATES, exponentials)
    ranked = {op: ranking(op, target) for op in short.ops if isinstance(op, Alternatives)}
    graph = inlined(short, lambda part: ranked[part][0][1] if ranked[part] else 0)
    return graph, sum(order[0][0] for order in ranked.values() if order)


def skip_steps() -> Callable[[ugraph.KernelGraph], ugraph.KernelGraph]:
    """Return the rewrite that leaves out idle steps, wherever this tree has it."""
    for place in ("pipeline.skip_steps", "transforms.skip_steps", "transforms.steps.skip_steps"):
        if find_spec(f"mirage.{place}") is not None:
            return import_module(f"mirage.{place}").skip_steps
    raise ImportError("expected skip_steps, found none")


def text_of(graph: ugraph.KernelGraph) -> str:
    """Write a graph as text that two trees can compare: fields that have their defaults are left
    out, since another tree may not have them."""
    numbers: dict[Any, int] = {}

    def value(x: ugraph.Value) -> str:
        number = numbers.setdefault(x, len(numbers))
        return f"%{number}:{x.type.dtype.value}{list(x.type.shape)}"

    def text(x: Any) -> str:
        if isinstance(x, ugraph.Value):
            return value(x)
        if isinstance(x, Enum):
            return str(x.value)
        if is_dataclass(x):
            given = ((f.name, getattr(x, f.name), f.default) for f in fields(x))
            parts = (
                f"{name}={text(own)}"
                for name, own, unset in given
                if name not in NAMES and (unset is MISSING or own != unset)
            )
            return f"{type(x).__name__}({', '.join(sorted(parts))})"
        return f"[{', '.join(map(text, x))}]" if isinstance(x, tuple) else repr(x)

    for v in graph.inputs:
        value(v)
    return "\n".join(map(text, graph.ops))


def kernels(graph: ugraph.KernelGraph) -> list[str]:
    """Describe the grids, loops and schedules of a graph's kernels in short."""
    found: list[str] = []
    for op in ugraph.launches(graph.ops):
        s = op.schedule
        words = ["x".join(str(a.extent) for a in op.grid) or "1"]
        words += [f"loop {loop.axis.extent}" for loop in ugraph.loops(op)]
        words.append(f"{s.warps} warps{' in groups' if s.warpgroups else ''}, {s.stages} stages")
        words += [f"clusters of {s.cluster}"] if getattr(s, "cluster", 1) > 1 else []
        found.append(", ".join(words))
    return found


def write_ptx(graph: ugraph.KernelGraph, folder: Path) -> None:
    """Compile a graph and write its PTX modules to ``folder``."""
    artifact = compile_graph(fused(graph), CompileOptions(DEFAULT_CHIP, cubin=False)).artifact
    folder.mkdir(parents=True, exist_ok=True)
    for module in artifact.manifest.modules:
        (folder / module.ptx.replace("/", "_")).write_bytes(artifact.files[module.ptx])


if __name__ == "__main__":
    main()
