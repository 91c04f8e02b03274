"""Records the launches that the emulator executes while tests run, so that a GPU can repeat them.

    python benchmarks/record_launches.py --out build/launches.pickle test/python/block
    python benchmarks/emulator_vs_gpu.py --recorded build/launches.pickle --out benchmarks/results

The machine with the GPU then needs no compiler: the file contains the PTX that the tests compiled,
its arguments, and the memories that the emulator left. Each distinct PTX and shape of launch is
kept once; launches that the emulator refuses, and those of more than --most bytes, are not kept.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in ("python", "test/python/support", "benchmarks"):
    sys.path.insert(0, str(ROOT / folder))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from gpu_worker import request_of  # noqa: E402
from mirage.emulator import Emulator  # noqa: E402
from mirage.emulator.launch_arguments import memory_of  # noqa: E402


class Recorder:
    """A pytest plugin that records every launch as (test, request, memories afterwards)."""

    def __init__(self, most: int) -> None:
        self.launches: list[tuple[str, Any, list[Any]]] = []
        self.current = "?"
        self.most = most
        self._texts: dict[int, str] = {}
        self._seen: set[Any] = set()

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.current = item.nodeid.split("[")[0].removeprefix("test/python/")

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Start watching the emulator."""
        construct, launch = Emulator.__init__, Emulator.launch

        def watched_construct(emulator: Emulator, ptx: str) -> None:
            construct(emulator, ptx)
            self._texts[id(emulator)] = ptx

        def watched_launch(emulator: Emulator, name: str, **options: Any) -> Any:
            kernel = emulator.module.kernels[name]
            arguments = options["args"]
            roots, request = request_of(self._texts[id(emulator)], kernel, arguments, options)
            result = launch(emulator, name, **options)
            key = (request.ptx, name, str(request.options), str(request.arguments))
            size = sum(r.nbytes for r in request.roots)
            if options.get("checks", True) and key not in self._seen and size <= self.most:
                self._seen.add(key)
                after = [np.array(memory_of(r)) for r in roots]
                self.launches.append((self.current, request, after))
            return result

        patch.setattr(Emulator, "__init__", watched_construct)
        patch.setattr(Emulator, "launch", watched_launch)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--most", type=int, default=1 << 20, help="bytes of a launch's memories")
    parser.add_argument("-k", default="", help="pytest expression that selects tests")
    parser.add_argument("tests", nargs="+", help="what pytest runs")
    options = parser.parse_args()
    recorder = Recorder(options.most)
    arguments = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *options.tests]
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        pytest.main([*arguments, "-k", options.k] if options.k else arguments, plugins=[recorder])
    handle, name = tempfile.mkstemp(dir=options.out.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        pickle.dump(recorder.launches, file)
    os.replace(name, options.out)
    size = options.out.stat().st_size
    print(f"{len(recorder.launches)} launches, {size >> 20} MiB in {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
