"""The table of torch ops: one row each, by name (namespace, op, overload unless it is the
default).
"""

from __future__ import annotations

from mirage.frontend.torch_import.accumulate import ACCUMULATE
from mirage.frontend.torch_import.comparisons import COMPARISONS
from mirage.frontend.torch_import.contraction import CONTRACTION
from mirage.frontend.torch_import.distances import DISTANCES
from mirage.frontend.torch_import.elementwise import ELEMENTWISE
from mirage.frontend.torch_import.experts import EXPERTS
from mirage.frontend.torch_import.floors_and_remainders import ROUNDING
from mirage.frontend.torch_import.functions import FUNCTIONS
from mirage.frontend.torch_import.grid_samples import SAMPLING
from mirage.frontend.torch_import.indexing import INDEXING
from mirage.frontend.torch_import.lowering import Row
from mirage.frontend.torch_import.pooling import POOLING
from mirage.frontend.torch_import.ranking import RANKING
from mirage.frontend.torch_import.reductions import REDUCTIONS
from mirage.frontend.torch_import.resize import RESIZE
from mirage.frontend.torch_import.scans import SCANS
from mirage.frontend.torch_import.special import SPECIAL
from mirage.frontend.torch_import.views import VIEWS

TABLE: dict[str, Row] = {
    # These are made of other functions: a scalar function of its own comes before them.
    **SPECIAL,
    **ELEMENTWISE,
    **FUNCTIONS,
    **CONTRACTION,
    **REDUCTIONS,
    **VIEWS,
    **COMPARISONS,
    **INDEXING,
    **RANKING,
    **EXPERTS,
    **ACCUMULATE,
    **RESIZE,
    **SAMPLING,
    **ROUNDING,
    **POOLING,
    **SCANS,
    **DISTANCES,
}

IGNORED = frozenset(
    {"aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_constrain_range_for_size"}
)
"""Assertions about shapes and types: these are fixed in the graph and were checked when the program
was captured.
"""
