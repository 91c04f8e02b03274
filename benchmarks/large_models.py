#!/usr/bin/env python3
"""Whole models: exported on a machine with MLIR, and measured on a GPU in comparison with PyTorch.

    .venv/bin/python benchmarks/large_models.py compile llama3_8b --layers 4 --out build/whole
    python benchmarks/large_models.py run --artifacts build/whole --out benchmarks/results

`compile` builds Transformers' class from its configuration, with weights that take no memory, and
writes one model for each use (for decoders: a decoding step after a full cache of 4096 tokens, and
a prompt of 2048; for encoders: a batch): ``<model>.<layers>.<use>.mirage``. `run` needs Python,
torch, cuda-bindings and a GPU: it makes random weights, compares results with float32 and with
plain PyTorch on the same weights, and times graph replay and plain calls. The exit code is 1 if a
result is wrong or a model fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import encoder_models  # noqa: E402
from chip_option import add_chip  # noqa: E402
from decoder_models import USES, costs  # noqa: E402
from decoders import DECODERS  # noqa: E402
from encoder_models import ENCODERS  # noqa: E402
from gpu_turns import Turns  # noqa: E402

Row = dict[str, Any]
COMPILED = "compiled.json"
BATCH = "batch"
"""The use of encoders."""


def compile_all(arguments: argparse.Namespace) -> int:
    """Compile one model after the other; rows are kept next to them."""
    from exported_models import exported, said
    from mirage.pipeline.options import OptimizeOptions

    options = OptimizeOptions(
        chip=arguments.chip,
        budget=arguments.budget,
        watch=print if arguments.verbose else None,
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / COMPILED
    rows: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
    model = {**DECODERS, **ENCODERS}[arguments.model].with_layers(arguments.layers)
    failed = False
    for use in arguments.uses if arguments.model in DECODERS else [BATCH]:
        name = f"{model.name}.{model.layers}.{use}"
        try:
            row = exported(model, USES.get(use), arguments.out, options)
        except Exception as error:
            traceback.print_exc()
            row, failed = {"name": name, "error": f"{type(error).__name__}: {error}"}, True
        rows[name] = row
        print(said(row), flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"most memory of this process: {peak} MiB")
    return int(failed)


def run_all(arguments: argparse.Namespace) -> int:
    """Measure every model of a folder."""
    import measured_encoders
    import measured_models
    import torch

    if not torch.cuda.is_available():
        print("error: no GPU was found, run measures one", file=sys.stderr)
        return 2
    path = arguments.artifacts / COMPILED
    compiled = json.loads(path.read_text()) if path.exists() else {}
    folders = sorted(arguments.artifacts.glob("*.mirage"))
    given = [f for only in arguments.only or [""] for f in folders if f.name.startswith(only)]
    chosen = list(dict.fromkeys(given))
    if not chosen:
        print(f"error: no folder <model>.<layers>.<use>.mirage in {arguments.artifacts}")
        return 2
    bench = measured_models.Bench(
        arguments.rounds, time.monotonic() + arguments.seconds, arguments.peers, arguments.profile,
        arguments.peer_seconds, Turns(arguments.turns),
    )  # fmt: skip
    rows: list[Row] = []
    for folder in chosen:
        name = folder.name.removesuffix(".mirage")
        kind, layers, use = name.split(".")
        row: Row = {"name": name, "compiled": compiled.get(name, {})}
        print(f"{name}", flush=True)
        try:
            if kind in ENCODERS:
                encoder = ENCODERS[kind].with_layers(int(layers))
                row |= encoder_models.costs(encoder)
                row |= measured_encoders.measured(bench, folder, encoder)
            else:
                decoder = DECODERS[kind].with_layers(int(layers))
                row |= costs(decoder, USES[use])
                row |= bench.measured(folder, decoder, USES[use])
        except Exception as error:  # one bad model must not hide the others' results
            traceback.print_exc()
            row["error"] = f"{type(error).__name__}: {error}"
        rows.append(row)
        print(measured_models.line(row), flush=True)
        measured_models.write(arguments.out, rows, arguments.stem)
        torch.cuda.empty_cache()
    print(measured_models.table(rows))
    return 0 if all(row.get("correct") for row in rows) else 1


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    c = commands.add_parser("compile", help="export models")
    c.add_argument("model", choices=[*DECODERS, *ENCODERS])
    c.add_argument("--layers", type=int, help="so many layers instead of all")
    c.add_argument("--uses", nargs="+", choices=list(USES),
                   default=["decode_b1", "decode_b8", "prefill"])  # fmt: skip
    add_chip(c)
    c.add_argument("--budget", type=float, default=60.0, help="seconds of each (%(default)s)")
    c.add_argument("--out", type=Path, required=True, help="folder for the models")
    c.add_argument("--verbose", action="store_true", help="print what the search says")
    c.set_defaults(run=compile_all)
    r = commands.add_parser("run", help="measure models on a GPU")
    r.add_argument("--artifacts", type=Path, required=True)
    r.add_argument("--out", type=Path, required=True, help="folder for the results")
    r.add_argument("--stem", default="large_models", help="name of the files (%(default)s)")
    r.add_argument("--only", nargs="*", default=(), help="models that start with one of these")
    r.add_argument("--rounds", type=int, default=25, help="rounds of a median (%(default)s)")
    r.add_argument("--seconds", type=float, default=540.0, help="start nothing after this")
    r.add_argument("--profile", action="store_true", help="print the time of each kernel")
    r.add_argument("--peers", nargs="*", help="names of peers; all by default")
    r.add_argument("--peer-seconds", type=float, default=0.0,
                   help="leave out peers that are not ready by then (0: wait)")  # fmt: skip
    r.add_argument("--turns", type=Path,
                   help="file by which processes on one GPU measure one at a time")  # fmt: skip
    r.set_defaults(run=run_all)
    return parser.parse_args()


def main() -> int:
    """Command line."""
    arguments = parsed()
    return arguments.run(arguments)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
