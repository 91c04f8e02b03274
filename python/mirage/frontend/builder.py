"""The builder API: programs and kernels written by hand."""

from mirage.frontend.block_graph import BlockGraphBuilder, new_threadblock_graph
from mirage.frontend.handles import Tensor, Tile
from mirage.frontend.kernel_graph import GraphBuilder, new_kernel_graph

__all__ = [
    "BlockGraphBuilder",
    "GraphBuilder",
    "Tensor",
    "Tile",
    "new_kernel_graph",
    "new_threadblock_graph",
]
