#!/usr/bin/env python3
"""Measures errors of compiled kernels on activations like those of models, row by row, compared
with those of PyTorch.

    python benchmarks/activations.py compile --out build/activations
    python benchmarks/activations.py run --artifacts build/activations --out benchmarks/results

Norms, softmax and cross-entropy, alone and before a linear layer, in f16 and bf16, at several
widths. ``compile`` needs no GPU; ``run`` needs Python, torch, cuda-bindings, NumPy and a GPU. In
each row of each output, the root mean square of the errors against float64 may be at most twice
that of PyTorch on the same GPU, or the error of rounding the output, if that is larger; wherever
PyTorch gives a number, so must the kernel. The exit code is 1 if this does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import kept  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from chip_option import add_chip  # noqa: E402
from mirage.errors import MirageError  # noqa: E402
from mirage.semantics.scalar import DType  # noqa: E402
from mirage.verify.evidence.roundings.row_errors import compare_rows  # noqa: E402
from mirage.verify.evidence.roundings.rows_of_activations import MASKS, ROWS  # noqa: E402

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
SIZES = ((8, 4096), (37, 1000), (128, 768))
"""Rows and features: a decoder's, odd ones, an encoder's."""
OUTPUTS, HEADS, GROUPS, EPS = 512, 4, 8, 1e-5
FLOOR = 2.0**-13
"""A quarter of the largest error of rounding to f16. Smaller errors of PyTorch count as this when
errors are compared, since the ratio of two negligible errors means nothing."""


@dataclass(frozen=True)
class Case:
    """One program: ``kind`` names the op, which may be followed by a linear layer."""

    kind: str
    linear: bool
    dtype: str
    rows: int
    features: int

    @property
    def name(self) -> str:
        end = "_linear" if self.linear else ""
        return f"{self.kind}{end}_{self.dtype}_{self.rows}x{self.features}"

    def program(self) -> Callable[..., Tensor]:
        """A function of x and of the gain, bias and weight that it needs."""
        first = KINDS[self.kind]
        if not self.linear:
            return first
        return lambda *x: F.linear(first(*x[:-1]), x[-1])

    def inputs(self, x: Tensor, channel: int | None = None, gain: float = 1.0) -> Inputs:
        """``x`` and weights; the gain of one channel, or of all, is ``gain``."""
        rng = torch.Generator().manual_seed(len(self.name))
        n = self.features // HEADS if self.kind == "qk_norm" else self.features
        gains = torch.full((n,), 1.0)
        gains[slice(None) if channel is None else channel % n] = gain
        found = [x]
        if self.kind in ("layer_norm", "group_norm"):
            found += [gains, 0.1 * torch.randn(n, generator=rng)]
        elif self.kind in ("rms_norm_gain", "qk_norm"):
            found += [gains]
        elif self.kind == "cross_entropy":
            found += [F.one_hot(torch.arange(len(x)) * 7 % self.features, self.features)]
        if self.linear:
            scale = 1.0 if self.kind == "softmax" else self.features**-0.5
            found.append(scale * torch.randn(OUTPUTS, self.features, generator=rng))
        return tuple(t.to(DTYPES[self.dtype]) for t in found)


def _rms(x: Tensor, gain: Tensor | None = None) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), gain, EPS)


def _group_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, GROUPS, gain, bias, EPS)


def _qk_norm(x: Tensor, gain: Tensor) -> Tensor:
    heads = x.reshape(len(x), HEADS, -1)
    return _rms(heads, gain).reshape(x.shape)


def _cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return -(F.log_softmax(x, -1) * target).sum(-1, keepdim=True)


KINDS: dict[str, Callable[..., Tensor]] = {
    "layer_norm": lambda x, gain, bias: F.layer_norm(x, (x.shape[-1],), gain, bias, EPS),
    "rms_norm": _rms,
    "rms_norm_gain": _rms,
    "group_norm": _group_norm,
    "qk_norm": _qk_norm,
    "softmax": lambda x: F.softmax(x, -1),
    "cross_entropy": _cross_entropy,
}


def cases() -> Iterator[Case]:
    for rows, features in SIZES:
        for dtype in DTYPES:
            for kind in KINDS:
                for linear in (False, True):
                    if not (linear and kind == "cross_entropy"):
                        yield Case(kind, linear, dtype, rows, features)


def situations(case: Case) -> Iterator[tuple[str, Inputs]]:
    """Inputs by name: rows of each kind alone and mixed, outlier channels with large gains, small
    inputs with small gains."""
    rng = np.random.default_rng(0)
    shape = case.rows, case.features

    def made(rows: np.ndarray) -> Tensor:
        most = float(torch.finfo(DTYPES[case.dtype]).max)
        return torch.from_numpy(np.where(np.isfinite(rows), np.clip(rows, -most, most), rows))

    usual = made(rng.standard_normal(shape))
    yield "usual", case.inputs(usual)
    masked = MASKS if case.kind in ("softmax",) else ()
    kinds = (*ROWS, *masked)
    for name, row in kinds:
        x = row(rng, case.rows, case.features)
        yield f"all rows {name}", case.inputs(made(x))
    x = np.concatenate([kinds[i % len(kinds)][1](rng, 1, case.features) for i in range(case.rows)])
    yield "rows of all kinds", case.inputs(made(x))
    for value in (100.0, 300.0, 1000.0, 3000.0):
        for gain in (1.0, 24.0, 30.0):
            with_channel = usual.clone()
            with_channel[:, 7] = value
            yield f"a channel of {value:g}, gain {gain:g}", case.inputs(with_channel, 7, gain)
    yield "std 1e-3, gain 0.01", case.inputs(usual * 1e-3, None, 0.01)
    for power in (-14, -7, 6, 12):
        yield f"times 2^{power}", case.inputs(usual * 2.0**power)


def measure(
    case: Case, program: Callable[[Inputs, Inputs], Any], device: str = "cuda"
) -> dict[str, Any]:
    """Return the worst error of a row, ours and PyTorch's on a ``device``, and where the promised
    bound does not hold. ``program`` gets the inputs, and the outputs to write."""
    reference = case.program()
    wrong: list[str] = []
    worst = {"ratio": 0.0, "ours": 0.0, "torch": 0.0, "situation": ""}
    count = 0
    for name, inputs in situations(case):
        moved = tuple(t.to(device) for t in inputs)
        with torch.no_grad():
            exact = reference(*(t.double() for t in moved))
            theirs = reference(*moved)
            ours = torch.full_like(theirs, float("nan"))
            program(moved, (ours,))
        arrays = [t.double().cpu().numpy() for t in (exact, theirs, ours)]
        errors = compare_rows(*arrays, DType(case.dtype), name, "output 0")
        count += 1
        if not errors.holds:
            wrong.append(f"{name}: {errors.candidate:.2e}, PyTorch {errors.reference:.2e}")
        ratio = errors.candidate / max(errors.reference, FLOOR)
        if ratio > worst["ratio"]:
            worst = {
                "ratio": ratio,
                "ours": errors.candidate,
                "torch": errors.reference,
                "situation": name,
            }
    return {"name": case.name, "situations": count, "worst": worst, "wrong": wrong}


def compile_all(out: Path, only: list[str], chip: str) -> int:
    """Compile all programs; return the number of failures."""
    import mirage as mi

    failed = 0
    for case in cases():
        folder = out / f"{case.name}.mirage"
        if folder.exists() or (only and not case.name.startswith(tuple(only))):
            continue
        start = time.monotonic()
        inputs = case.inputs(torch.zeros(case.rows, case.features))
        try:
            imported = mi.from_torch(case.program(), *inputs)
            optimized = imported.superoptimize(chip=chip, budget=30.0)
            optimized.save(folder)
            said = "; ".join(v.verdict.kind.value for v in optimized.verdicts if v.kept)
        except MirageError as error:
            failed += 1
            said = f"error: {error}"
        print(f"{case.name}: {time.monotonic() - start:.1f} s, {said}", flush=True)
    return failed


def run_all(artifacts: Path, out: Path, seconds: float) -> int:
    """Measure the existing artifacts; return the number of wrong programs."""
    from mirage.runtime import load
    from run import environment

    if not torch.cuda.is_available():
        print("error: no GPU was found, this script measures one", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    started, rows = time.monotonic(), []
    for case in cases():
        folder = artifacts / f"{case.name}.mirage"
        if not folder.exists() or time.monotonic() - started > seconds:
            rows.append({"name": case.name, "error": "not run"})
            continue
        executable = load(folder)
        try:
            row = measure(case, lambda x, y, e=executable: e(inputs=x, out=y))
        except (MirageError, RuntimeError, TypeError) as error:
            row = {"name": case.name, "error": f"{type(error).__name__}: {error}"}
        rows.append(row)
        print(row["name"], row.get("error") or row["wrong"] or row["worst"], flush=True)
    out.mkdir(parents=True, exist_ok=True)
    info = environment()
    kept.write(out / "activations.json", {"environment": info, "results": rows}, "results", ())
    (out / "activations.md").write_text(markdown(rows, info))
    return sum(bool(row.get("error") or row.get("wrong")) for row in rows)


def markdown(rows: list[dict[str, Any]], info: dict[str, Any]) -> str:
    tried = [r for r in rows if "situations" in r]
    lines = [
        "# Errors on activations as models have them",
        "",
        f"{info['gpu']}, torch {info['torch']}, {info['date']}. Command: `{info['command']}`",
        "",
        f"{len(tried)} programs of {len(rows)}, {sum(r['situations'] for r in tried)} sets of "
        f"inputs; in {sum(bool(r['wrong']) for r in tried)} programs a row's error is more than "
        "promised (twice PyTorch's, or what rounding the output costs where that is larger).",
        "",
        "| program | sets of inputs | ours, where it is worst | PyTorch there | inputs | wrong |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['name']} | {row['error'].splitlines()[0]} |  |  |  |  |")
            continue
        w = row["worst"]
        wrong = "; ".join(row["wrong"])
        cells = row["name"], row["situations"], f"{w['ours']:.1e}", f"{w['torch']:.1e}"
        lines.append("| " + " | ".join(map(str, (*cells, w["situation"], wrong))) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile", help="search, verify and compile all programs")
    compiling.add_argument("only", nargs="*", help="programs that start with one of these")
    add_chip(compiling)
    compiling.add_argument("--out", type=Path, required=True, help="folder for the artifacts")
    running = commands.add_parser("run", help="measure them on this machine's GPU")
    running.add_argument("--artifacts", type=Path, required=True)
    running.add_argument("--out", type=Path, required=True, help="folder for the results")
    running.add_argument("--seconds", type=float, default=300.0, help="start none after these")
    arguments = parser.parse_args()
    if arguments.command == "compile":
        return 1 if compile_all(arguments.out, arguments.only, arguments.chip) else 0
    return 1 if run_all(arguments.artifacts, arguments.out, arguments.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
