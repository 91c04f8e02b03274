"""Programs made with the builder, as users write them."""

from __future__ import annotations

import mirage as mi


def linear(inner: int = 256, columns: int = 128) -> mi.GraphBuilder:
    """A norm of 16 rows, then a linear layer."""
    graph = mi.new_kernel_graph("linear")
    x = graph.new_input((16, inner), name="x")
    w = graph.new_input((inner, columns), name="w")
    graph.mark_output(graph.rms_norm(x) @ w)
    return graph
