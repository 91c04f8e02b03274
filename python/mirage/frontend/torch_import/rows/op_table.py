"""The table of torch ops: one row each, by name (namespace, op, overload unless it is the
default).
"""

from __future__ import annotations

from mirage.frontend.torch_import.rows.elements.comparisons import COMPARISONS
from mirage.frontend.torch_import.rows.elements.elementwise import ELEMENTWISE
from mirage.frontend.torch_import.rows.elements.floors_and_remainders import ROUNDING
from mirage.frontend.torch_import.rows.elements.sign_bits import SIGN_BITS
from mirage.frontend.torch_import.rows.elements.special import SPECIAL
from mirage.frontend.torch_import.rows.functions import FUNCTIONS
from mirage.frontend.torch_import.rows.lowering import Row
from mirage.frontend.torch_import.rows.movement.grid_samples import SAMPLING
from mirage.frontend.torch_import.rows.movement.indexing import INDEXING
from mirage.frontend.torch_import.rows.movement.resize import RESIZE
from mirage.frontend.torch_import.rows.movement.stores import STORES
from mirage.frontend.torch_import.rows.movement.views import VIEWS
from mirage.frontend.torch_import.rows.products.contraction import CONTRACTION
from mirage.frontend.torch_import.rows.products.convolutions import (
    CONVOLUTIONS,
    CONVOLUTIONS_BY_PLACES,
)
from mirage.frontend.torch_import.rows.products.distances import DISTANCES
from mirage.frontend.torch_import.rows.products.experts import EXPERTS
from mirage.frontend.torch_import.rows.reductions.accumulate import ACCUMULATE
from mirage.frontend.torch_import.rows.reductions.norms import NORMS
from mirage.frontend.torch_import.rows.reductions.pooling import POOLING
from mirage.frontend.torch_import.rows.reductions.ranking import RANKING
from mirage.frontend.torch_import.rows.reductions.reductions import REDUCTIONS
from mirage.frontend.torch_import.rows.reductions.scans import SCANS

TABLE: dict[str, Row] = {
    # These are built from other functions: a scalar function for the op has precedence.
    **SPECIAL,
    **ELEMENTWISE,
    **FUNCTIONS,
    **CONTRACTION,
    **CONVOLUTIONS,
    **NORMS,
    **REDUCTIONS,
    **VIEWS,
    **COMPARISONS,
    **INDEXING,
    **STORES,
    **RANKING,
    **EXPERTS,
    **ACCUMULATE,
    **RESIZE,
    **SAMPLING,
    **ROUNDING,
    **SIGN_BITS,
    **POOLING,
    **SCANS,
    **DISTANCES,
}

WITHOUT_CALLS: dict[str, Row] = {**CONVOLUTIONS_BY_PLACES}
"""Further rows of ops that a call of PyTorch computes faster: they are for programs in which no
call may remain.
"""

IGNORED = frozenset(
    {"aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_constrain_range_for_size"}
)
"""Assertions about shapes and types: these are fixed in the graph and were checked when the program
was captured.
"""
