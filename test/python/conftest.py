"""Makes the shared graphs and helpers importable by tests in sub-folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Small matrix products only: several threads would fight for cores with the other test processes.
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# An op that an analysis has no rule for is an error here, not a safe default.
os.environ.setdefault("MIRAGE_STRICT", "1")

# Each test searches by itself, but for those about what is kept of a search.
os.environ.setdefault("MIRAGE_FRESH", "1")

sys.path.insert(0, str(Path(__file__).parent / "support"))

# The pass that the tests of the worker are made of, in this process and in those that it starts.
passes = str(Path(__file__).parents[1] / "PythonPasses" / "Inputs")
sys.path.append(passes)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (passes, os.environ.get("PYTHONPATH"))))
