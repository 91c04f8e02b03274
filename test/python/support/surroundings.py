"""The environment of every test process; imported before NumPy."""

from __future__ import annotations

import os

# Small matrix products only: several threads would fight for cores with the other test processes.
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# In tests, an op without a rule in an analysis is an error, not a safe default.
os.environ.setdefault("MIRAGE_STRICT", "1")

# Each test searches by itself, except for those about the cache.
os.environ.setdefault("MIRAGE_FRESH", "1")
