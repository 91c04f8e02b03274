#!/usr/bin/env python3
"""Programs as people write them, beside ``torch.compile``.

    python benchmarks/as_written.py prepare --artifacts build/as_written [NAME...]
    python benchmarks/as_written.py run --artifacts build/as_written --out as_written.json

``prepare`` searches, verifies and compiles; ``run`` needs a GPU, and times both sides in turns as
CUDA graphs over inputs that are not in L2. Each result is compared with eager PyTorch's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

from chip_option import add_chip  # noqa: E402

Tensor = torch.Tensor
Made = tuple[Callable[..., Any], tuple[Tensor, ...]]
ROUNDS, MOST_COPIES = 7, 24


def half(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float16)


def numbers(below: int, *shape: int) -> Tensor:
    return torch.randint(0, below, shape)


def softmax_by_hand(x: Tensor) -> Tensor:
    e = torch.exp(x.float() - x.float().amax(1, keepdim=True))
    return (e / e.sum(1, keepdim=True)).half()


def attention_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).float() * 0.125
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).half() @ v


def divergence(a: Tensor, b: Tensor) -> Tensor:
    mine, theirs = (F.log_softmax(x.float(), -1) for x in (a, b))
    return F.kl_div(mine, theirs, log_target=True, reduction="batchmean")


def entropy(x: Tensor) -> Tensor:
    return -(F.softmax(x.float(), -1) * F.log_softmax(x.float(), -1)).sum(-1)


def mean_pool(x: Tensor, m: Tensor) -> Tensor:
    return (x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1e-9)


def rotary(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def standardized(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


def norm_gelu_residual(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x + F.gelu(F.layer_norm(x, (4096,), w, b), approximate="tanh")


def triangle(a: Tensor, b: Tensor) -> Tensor:
    """A multiplicative update of pairs, as networks for proteins have it."""
    return torch.einsum("ikc,jkc->ijc", a, b)


def causal_convolution(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.conv1d(F.pad(x, (w.shape[-1] - 1, 0)), w, b, groups=len(w)))


def programs() -> dict[str, Made]:
    """Return the programs with example inputs."""
    long, words = half(512, 128256), half(2048, 32000)
    per_row: dict[str, Any] = {"reduction": "none"}
    return {
        "cross_entropy": (
            lambda x, t: F.cross_entropy(x.float(), t, **per_row), (long, numbers(128256, 512))
        ),
        "logsumexp": (lambda x: torch.logsumexp(x.float(), 1), (long,)),
        "log_softmax": (lambda x: F.log_softmax(x, -1), (long,)),
        "softmax_by_hand": (softmax_by_hand, (long,)),
        "attention_by_hand": (attention_by_hand, (half(4, 16, 1024, 64),) * 3),
        "cross_entropy_mean": (
            lambda x, t: F.cross_entropy(x.float(), t), (words, numbers(32000, 2048))
        ),
        "label_smoothing": (
            lambda x, t: F.cross_entropy(x.float(), t, label_smoothing=0.1),
            (words, numbers(32000, 2048)),
        ),
        "kl_divergence": (divergence, (words, half(2048, 32000))),
        "entropy": (entropy, (words,)),
        "binary_cross_entropy": (
            lambda x, y: F.binary_cross_entropy_with_logits(x.float(), y.float()),
            (half(4096, 4096), half(4096, 4096).sigmoid()),
        ),
        "norm_gelu_residual": (norm_gelu_residual, (half(4096, 4096), half(4096), half(4096))),
        "group_norm_silu": (
            lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
            (half(8, 320, 64, 64), half(320), half(320)),
        ),
        "batch_norm_relu": (
            lambda x, w, b, m, v: F.relu(F.batch_norm(x, m, v, w, b)),
            (half(32, 256, 56, 56), *(half(256) for _ in range(3)), half(256).abs() + 0.5),
        ),
        "mean_pool": (mean_pool, (half(64, 512, 1024), (torch.rand(64, 512) > 0.2).half())),
        "rotary": (rotary, (half(4, 32, 2048, 128), half(2048, 64), half(2048, 64))),
        "standardized": (standardized, (half(8192, 4096),)),
        "variance_of_columns": (lambda x: x.float().var(0), (half(8192, 4096),)),
        "argmax": (lambda x: x.argmax(-1), (words,)),
        "max_pool": (lambda x: F.max_pool2d(x, 2), (half(32, 64, 112, 112),)),
        "triangle": (triangle, (half(256, 256, 128), half(256, 256, 128))),
        "causal_convolution": (
            causal_convolution, (half(4, 2048, 2048), half(2048, 1, 4), half(2048))
        ),
        "int8_weights": (
            lambda x, q, s: x @ (q.half() * s).t(),
            (half(16, 4096), torch.randint(-128, 127, (4096, 4096), dtype=torch.int8),
             half(4096, 1)),
        ),
    }  # fmt: skip


def prepare(artifacts: Path, names: Sequence[str], chip: str) -> None:
    import mirage as mi

    for name, (program, inputs) in programs().items():
        if names and name not in names:
            continue
        found = mi.from_torch(program, *inputs).superoptimize(chip=chip, budget=60)
        found.save(artifacts / f"{name}.mirage")
        prediction = found.report.prediction
        print(f"{name}: {prediction.time if prediction else 0:.1f} us predicted", flush=True)


def run(artifacts: Path, out: Path) -> None:
    import timing
    from mirage.runtime import load

    found: dict[str, dict[str, float]] = {}
    for name, (program, inputs) in programs().items():
        if not (folder := artifacts / f"{name}.mirage").exists():
            continue
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        sides: dict[str, Any] = {"mirage": load(folder), "compile": torch.compile(program)}
        given = [x.cuda() for x in inputs]
        copies = timing.copies_needed(sum(x.numel() * x.element_size() for x in given))
        sets = [[x.clone() for x in given] for _ in range(min(copies, MOST_COPIES))]
        launches = timing.launches_per_graph(len(sets))
        order = [i % len(sets) for i in range(launches)]
        graphs = {
            side: timing.capture(lambda i, call=call, sets=sets: call(*sets[i]), order)
            for side, call in sides.items()
        }
        times = timing.time_graphs(graphs, launches, ROUNDS)
        found[name] = {side: round(t.median, 2) for side, t in times.items()}
        found[name]["difference"] = difference(sides["mirage"](*given), program(*given))
        print(name, found[name], flush=True)
    out.write_text(json.dumps(found, indent=1) + "\n")


def difference(got: Any, want: Any) -> float:
    """Return the relative L2 difference of results."""
    got, want = (x[0] if isinstance(x, tuple | list) else x for x in (got, want))
    apart = (got.double() - want.double()).norm() / want.double().norm()
    return float(f"{apart.item():.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first, second = (commands.add_parser(name) for name in ("prepare", "run"))
    for command in (first, second):
        command.add_argument("--artifacts", type=Path, required=True)
    add_chip(first)
    first.add_argument("names", nargs="*", help="programs (default: all)")
    second.add_argument("--out", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare(arguments.artifacts, arguments.names, arguments.chip)
    else:
        run(arguments.artifacts, arguments.out)


if __name__ == "__main__":
    main()
