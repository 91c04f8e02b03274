"""Measures how long a whole large model takes to start: cold, with nothing kept from an earlier
run; warm, when its kernels are kept; and when its folder is loaded, which is what a second start of
an exported model is.

    python benchmarks/start_whole.py --out benchmarks/results/start.json

Each start is a separate process. Cold and warm starts export a class of Transformers from its
configuration with weights that take no memory; the cache is empty before the first one. Loading
uses `mirage.runtime` alone, on a GPU if there is one, otherwise on the host; the contents of the
weights do not matter. The results are seconds of wall time and of processor time, the latter
without the import of torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

Row = dict[str, Any]

LOAD = """
import json, sys, time
import torch
from mirage.runtime import load
from mirage.runtime.serialization.manifest import TORCH_NAMES

folder, device = sys.argv[1], "cuda" if torch.cuda.is_available() else "cpu"
state = {}
with open(folder + "/manifest.json") as file:
    held = json.load(file)["state"]
for one in held:
    if one["file"] is None and one["fill"] is None:
        spec = one["tensor"]
        dtype = getattr(torch, TORCH_NAMES[spec["dtype"]])
        state[one["key"]] = torch.empty(spec["shape"], dtype=dtype, device=device)
wall, used = time.perf_counter(), time.process_time()
model = load(folder, state=state, device=device)
if device == "cuda":
    torch.cuda.synchronize()
print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - used,
                  "device": device}))
"""


def exported(model: str, layers: int | None, use: str, budget: float, folder: Path) -> Row:
    """Measure a start that exports the model, from the output of `large_models.py compile`."""
    command = [
        sys.executable, str(HERE / "large_models.py"), "compile", model, "--uses", use,
        "--budget", str(budget), "--out", str(folder),
    ]  # fmt: skip
    if layers:
        command += ["--layers", str(layers)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    (row,) = json.loads((folder / "compiled.json").read_text()).values()
    kept = {key: row[key] for key in ("seconds", "parts", "kernels", "predicted")}
    return {"wall_s": round(time.perf_counter() - begin, 1), "cpu_s": row["cpu"], **kept}


def loaded(folder: Path) -> Row:
    """Measure a start that loads the model's folder."""
    (artifact,) = folder.glob("*.mirage")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(artifact)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return {key: round(x, 3) if isinstance(x, float) else x for key, x in row.items()}


def main() -> None:
    """Print a line for each start."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", default="llama3_8b")
    parser.add_argument("--layers", type=int, help="so many layers instead of all")
    parser.add_argument("--use", default="decode_b1")
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of a cold search")
    parser.add_argument("--warm", type=int, default=2, help="warm starts, and loads")
    parser.add_argument("--out", type=Path, help="also add the figures to this file")
    arguments = parser.parse_args()
    paths = [str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    rows: Row = {"processors": os.cpu_count(), "machine": platform.machine()}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MIRAGE_CACHE_DIR"] = str(Path(folder) / "cache")
        rows |= {"cold": [], "warm": [], "load": []}
        for kind in ("cold", *["warm"] * arguments.warm):
            out = Path(folder) / kind
            row = exported(arguments.model, arguments.layers, arguments.use, arguments.budget, out)
            rows[kind].append({**row, "load_average": round(os.getloadavg()[0], 1)})
            print(kind, json.dumps(rows[kind][-1]), flush=True)
        for _ in range(arguments.warm):
            rows["load"].append(loaded(Path(folder) / "cold"))
            print("load", json.dumps(rows["load"][-1]), flush=True)
    if arguments.out:
        known: Row = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
        known[f"{arguments.model} {arguments.use}"] = rows
        arguments.out.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
