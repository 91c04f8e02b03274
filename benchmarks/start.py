"""Measures how long a program takes to start: cold, with nothing kept from an earlier run, and
warm.

    python benchmarks/start.py --out benchmarks/results/start.json

Each start is a separate process (`mirage optimize`), with a cache folder that is empty before the
first one. The results are seconds of wall time, of processor time, and of the phases that the
report names.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mirage.cost import DEFAULT_CHIP

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaModel

config = LlamaConfig(hidden_size={width}, intermediate_size={inner}, num_hidden_layers={layers},
    num_attention_heads={heads}, num_key_value_heads={shared}, vocab_size=128,
    max_position_embeddings=64, use_cache=False)
torch.manual_seed(0)
model = LlamaModel(config).eval().requires_grad_(False)

class Hidden(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model
    def forward(self, ids):
        return self.model(ids).last_hidden_state

net = Hidden()
example_inputs = (torch.randint(1, 100, (1, 16)),)
"""

PROGRAMS: dict[str, str] = {
    "llama, 4 layers of width 64": LLAMA.format(width=64, inner=96, layers=4, heads=4, shared=2),
    "llama, 32 layers of width 64": LLAMA.format(width=64, inner=96, layers=32, heads=4, shared=2),
    "llama3_8b_layer_bs1": "",
}
"""Sources; a name without one is a built-in workload."""


def start(program: str, folder: Path, budget: float) -> dict[str, Any]:
    """Measure one start: its seconds, and those in the report."""
    code = "import sys; from mirage.cli import main; sys.exit(main())"
    command = [
        sys.executable, "-c", code, "optimize", program, "--json", "--chip", DEFAULT_CHIP,
        "--allow-fallback", "--budget", str(budget), "-o", str(folder / "out.mirage"),
    ]  # fmt: skip
    begin, used = time.perf_counter(), processor_time()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begin
    data = json.loads(done.stdout)
    if done.returncode:
        raise SystemExit(f"{program}: {data.get('error', done.stderr)}")
    seconds = {name: round(spent, 3) for name, spent in data["seconds"].items()}
    cpu = processor_time() - used
    return {
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "seconds": seconds,
        "parts": len(data["search"]),
        "checks": Counter(check["outcome"] for check in data["checks"]),
    }


def processor_time() -> float:
    """Return the processor time of processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure the programs one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help="names that start like this (default: all)")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of a cold start")
    parser.add_argument("--warm", type=int, default=3, help="warm starts")
    parser.add_argument("--out", type=Path, help="also write the figures there")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name, source in PROGRAMS.items():
        if arguments.programs and not name.startswith(tuple(arguments.programs)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MIRAGE_CACHE_DIR"] = str(Path(folder) / "cache")
            program = name
            if source:
                program = str(Path(folder) / "program.py")
                Path(program).write_text(source)
                program += ":net"
            cold = start(program, Path(folder), arguments.budget)
            warm = [start(program, Path(folder), arguments.budget) for _ in range(arguments.warm)]
        results[name] = {"cold": cold, "warm": warm}
        print(name, json.dumps(results[name]), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
