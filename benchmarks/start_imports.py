"""Processor time of the first call under ``torch.compile``, cold and warm, and how much of it the
import of the graph takes.

    python benchmarks/start_imports.py --layers 32

Each start is a separate process, with a cache folder that is empty before the first one. Its model
is a Llama of width 64 on the host. Nothing is searched: PyTorch computes the results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

START = """
import json, sys, time
from functools import partial
import torch
from mirage.torch import graph_compiler
from mirage.torch.graph_compiler import backend
from start import LLAMA

torch.set_num_threads(1)
exec(LLAMA.format(width=64, inner=96, layers=int(sys.argv[1]), heads=4, shared=2))
spent = 0.0

def timed(*arguments):
    global spent
    begin = time.process_time()
    try:
        return real(*arguments)
    finally:
        spent += time.process_time() - begin

real, graph_compiler.import_once = graph_compiler.import_once, timed

def no_kernels(program, options):
    return None

mine = partial(backend, compiler=no_kernels, devices=("cpu",))
begin = time.process_time()
with torch.no_grad():
    torch.compile(net, backend=mine)(*example_inputs)
print(json.dumps({"first_call": time.process_time() - begin, "import": spent}))
"""


def start(layers: int) -> dict[str, float]:
    """Measure one start: the seconds of the first call, and of the import in it."""
    done = subprocess.run(
        [sys.executable, "-c", START, str(layers)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {name: round(seconds, 2) for name, seconds in found.items()}


def main() -> None:
    """Print a line for each start."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--warm", type=int, default=2, help="warm starts")
    arguments = parser.parse_args()
    paths = [str(HERE), str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MIRAGE_CACHE_DIR"] = folder
        for number in range(1 + arguments.warm):
            print("warm" if number else "cold", json.dumps(start(arguments.layers)), flush=True)


if __name__ == "__main__":
    main()
