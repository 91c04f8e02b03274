"""The choices of sizes of a frame type, and the results at them."""

from __future__ import annotations

import numpy as np

from mirage.search.kernel.estimates.edge_costs import Known
from mirage.search.kernel.loop_nests.columns import Columns

SURROGATE_COLUMNS = 384
"""The choices of sizes at which all edges are costed in order to choose those for extraction."""


class Sizing:
    """The choices of sizes of a type (a sample if ``cut``); at some of them each warp multiplies on
    its own. Results for kinds of edges at them serve all derivations of the type."""

    def __init__(self, columns: Columns, cut: bool) -> None:
        self.columns, self.cut = columns, cut
        alone = columns.with_warps_alone()
        self.few = alone
        if alone.count > SURROGATE_COLUMNS:
            places = np.linspace(0, alone.count - 1, SURROGATE_COLUMNS)
            self.few = alone.take(places.astype(np.int64))
        """The columns at which edges are costed to select derivations."""
        self.known = Known()
        self.known_few = self.known if self.few is columns else Known()

    def forget(self) -> None:
        """Drop the results; derivations that are kept no longer need them."""
        self.known.clear()
        self.known_few.clear()
