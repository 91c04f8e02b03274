#!/usr/bin/env python3
"""Runs exported decoders inside CUDA graphs that the caller captures: their results, and the cost
of a call.

    python benchmarks/captured_models.py --artifacts build/whole --out benchmarks/results

Takes the models that ``large_models.py compile`` has written. Needs Python, torch, cuda-bindings
and a GPU. A captured model is called at several positions and compared, bit by bit, with the same
model without capture, including its caches. The error messages for models that cannot be captured
are checked, too. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import torch  # noqa: E402
from decoder_models import USES, arguments, random_weights  # noqa: E402
from decoders import DECODERS  # noqa: E402

STEPS = 8


def measured(folder: Path) -> dict[str, Any]:
    """Return the row of one model."""
    from mirage.runtime import load
    from mirage.runtime.errors import CaptureError

    name = folder.name.removesuffix(".mirage")
    kind, layers, use = name.split(".")
    decoder = DECODERS[kind].with_layers(int(layers))
    weights = random_weights(decoder, "cuda", torch.bfloat16)
    model: Any = load(folder, state={f"model.{k}": x for k, x in weights.items()})
    ids, positions, keys, values = arguments(decoder, USES[use], "cuda", torch.bfloat16)
    last = int(positions[-1])
    wide = [[x.clone() for x in xs] for xs in (keys, values)]
    begin = time.perf_counter()
    step = model.captured(ids, positions, keys, values)
    row: dict[str, Any] = {"name": name, "capture": time.perf_counter() - begin}
    same = all(map(torch.equal, (*keys, *values), (*wide[0], *wide[1])))
    row["unchanged"] = same
    equal = True
    for number in range(STEPS):
        at = positions - last + (last - 7 * number)
        token = (ids + number) % decoder.vocabulary
        got = step(token, at, keys, values)
        want = model(token, at, *wide)
        equal = equal and torch.equal(got, want)
        equal = equal and all(map(torch.equal, (*keys, *values), (*wide[0], *wide[1])))
    row["equal"] = equal
    try:
        step(ids, positions, wide[0], values)
        row["refused"] = False
    except CaptureError as error:
        row["refused"] = "expected the tensor that the program was captured with" in str(error)
    row["us"] = {
        "captured": _time(lambda: step(ids, positions, keys, values)),
        "replay": _time(step.replay),
        "as it is": _time(lambda: model(ids, positions, keys, values)),
    }
    row["correct"] = row["unchanged"] and row["equal"] and row["refused"]
    return row


def _time(call: Callable[[], Any], repeats: int = 50) -> float:
    """Return the microseconds of a call, host and GPU together."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e6 / repeats


def waiting_is_named() -> bool:
    """Return whether a call that waits for the GPU during a capture is named as the reason."""
    from mirage.runtime.errors import CaptureError
    from mirage.runtime.launching.captured import cuda_graph

    x = torch.ones(8, device="cuda")
    try:
        cuda_graph(lambda: x.sum().item(), lambda: x.sum().item(), torch.device("cuda", 0))
    except CaptureError as error:
        print(f"as expected: {error}")
        return True
    return False


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--artifacts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--only", nargs="*", default=(), help="models that start with one of these")
    chosen = parser.parse_args()
    folders = sorted(chosen.artifacts.glob("*.decode_*.mirage"))
    rows: list[dict[str, Any]] = []
    for folder in folders:
        if not chosen.only or folder.name.startswith(tuple(chosen.only)):
            rows.append(measured(folder))
            print(json.dumps(rows[-1]), flush=True)
            torch.cuda.empty_cache()
    named = waiting_is_named()  # last, since a failed capture may leave the GPU busy
    chosen.out.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python {shlex.join(sys.argv)}", "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__, "waiting_is_named": named, "rows": rows,
    }  # fmt: skip
    (chosen.out / "captured_models.json").write_text(json.dumps(record, indent=1) + "\n")
    return int(not named or not rows or not all(row["correct"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
