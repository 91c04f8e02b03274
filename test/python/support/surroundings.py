"""What every process of the tests computes in; imported before NumPy."""

from __future__ import annotations

import os

# Small matrix products only: several threads would fight for cores with the other test processes.
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# An op that an analysis has no rule for is an error here, not a safe default.
os.environ.setdefault("MIRAGE_STRICT", "1")

# Each test searches by itself, but for those about what is kept of a search.
os.environ.setdefault("MIRAGE_FRESH", "1")
