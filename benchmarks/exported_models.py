"""Whole models exported from Transformers' classes, whose weights take no memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from decoder_models import BANDWIDTH, Decoder, Use
from encoder_models import Encoder, argument
from mirage.cost.target import target_for
from mirage.pipeline.commands.export import export_with
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Optimized
from mirage.semantics.describe import describe
from torch import nn
from transformers_decoder import example, served
from transformers_encoder import Encoded, untouched
from usage import Memory, processor_time

Row = dict[str, Any]


def exported(
    model: Decoder | Encoder,
    use: Use | None,
    folder: Path,
    options: OptimizeOptions,
) -> Row:
    """Export one model to ``<folder>/<model>.<layers>.<use>.mirage``; the row contains the seconds
    of each step, MiB, the model's parts, and the predicted µs. Encoders have one use, a batch."""
    dtype = torch.bfloat16
    if isinstance(model, Encoder):
        name = f"{model.name}.{model.layers}.batch"
        return _exported(
            name, lambda: Encoded(untouched(model, dtype)), (argument(model, "cpu", dtype),),
            folder, options,
        )  # fmt: skip
    if use is None:
        raise ValueError(f"expected a use of the decoder {model.name}, got none")
    name = f"{model.name}.{model.layers}.{use.name}"
    return _exported(
        name, lambda: served(model, dtype), example(model, use, dtype), folder, options
    )


def _exported(
    name: str,
    make: Callable[[], nn.Module],
    inputs: tuple[Any, ...],
    folder: Path,
    options: OptimizeOptions,
) -> Row:
    spent: dict[str, float] = {}
    begin, used = time.perf_counter(), processor_time()

    def step(step: str) -> None:
        passed = time.perf_counter() - begin - sum(spent.values())
        spent[step] = spent.get(step, 0) + passed

    def capture(*arguments: Any, **named: Any) -> torch.export.ExportedProgram:
        step("model")
        program = torch_export(*arguments, **named)
        step("torch.export")
        return program

    def optimizer(program: Any, chosen: OptimizeOptions) -> Any:
        step("import")
        found = optimize(program, chosen)
        step("optimize")
        return found

    torch_export = torch.export.export
    with Memory() as memory, mock.patch.object(torch.export, "export", capture):
        written = export_with(
            optimizer, make(), inputs, {}, folder / f"{name}.mirage", "reference", options
        )
    step("write")
    found = written.optimized
    steps = found.steps
    prediction = found.report.prediction
    (folder / f"{name}.kernels.txt").write_text(kernels_of(found))
    return {
        "name": name, "chip": target_for(options.chip).name,
        "seconds": {k: round(v, 1) for k, v in spent.items()},
        "cpu": round(processor_time() - used, 1), "memory": round(memory.most),
        "ops": len(found.program.graph.ops), "parts": len(found.artifacts),
        "kernels": sum(len(a.manifest.kernels) for a in found.artifacts),
        "calls": [s.external.target for s in steps if s.external is not None],
        "stays": written.stays, "notes": found.report.notes,
        "predicted": None if prediction is None else prediction.time,
    }  # fmt: skip


def kernels_of(found: Optimized) -> str:
    """Describe each kernel of the parts; equal parts occur once."""
    lines: dict[str, None] = {}
    for step in found.steps:
        if step.compiled is None or step.graph is None:
            continue
        manifest = step.compiled.artifact.manifest
        time_us = manifest.prediction.get("time")
        times = times_of(manifest.prediction, len(manifest.kernels))
        entries = "\n".join(
            f"{k.entry}: grid {k.grid}, block {k.block}, {k.shared_bytes} bytes{time}"
            for k, time in zip(manifest.kernels, times, strict=True)
        )
        lines[f"{manifest.name}: predicted {time_us} us\n{entries}\n{describe(step.graph)}"] = None
    return "\n\n".join(lines) + "\n"


def times_of(prediction: Row, kernels: int) -> list[str]:
    """Return the predicted time of each kernel, and its lower bound by memory; nothing if these are
    not known for each kernel."""
    parts = prediction.get("parts") or ([prediction] if "bytes_read" in prediction else [])
    if len(parts) != kernels:
        return [""] * kernels
    return [
        f", {p['time']:.2f} us of {moved / BANDWIDTH * 1e6:.2f}, {p['bound']}"
        for p, moved in ((p, p["bytes_read"] + p["bytes_written"]) for p in parts)
    ]


def said(row: Row) -> str:
    """Describe the compilation in one line."""
    if "error" in row:
        return f"{row['name']}: {row['error']}"
    seconds = ", ".join(f"{name} {s} s" for name, s in row["seconds"].items())
    predicted = row["predicted"]
    time_ = "-" if predicted is None else f"{predicted / 1e3:.3f} ms"
    return (
        f"{row['name']}: {row['ops']} ops, {row['parts']} parts, {row['kernels']} kernels, "
        f"{len(row['calls'])} calls, predicted {time_}; {seconds}, CPU {row['cpu']} s, "
        f"{row['memory']} MiB"
    )
