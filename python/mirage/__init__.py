"""Mirage: a superoptimizer for tensor programs.

    import mirage as mi

    graph = mi.new_kernel_graph()
    x = graph.new_input(dims=(16, 4096), dtype=mi.float16)
    w = graph.new_input(dims=(4096, 6144), dtype=mi.float16)
    graph.mark_output(graph.matmul(graph.rms_norm(x), w))
    optimized = graph.superoptimize()

Names load on first use, so that running an artifact needs neither the compiled bindings nor
torch-mlir."""

from __future__ import annotations

from pkgutil import extend_path
from typing import TYPE_CHECKING

from mirage.lazy_names import on_first_use

# The compiled bindings (`mirage.ir`, `mirage.dialects`) live in the build tree while developing.
__path__ = extend_path(__path__, __name__)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mirage.errors import MirageError as MirageError
    from mirage.frontend.block_graph import BlockGraphBuilder as BlockGraphBuilder
    from mirage.frontend.block_graph import new_threadblock_graph as new_threadblock_graph
    from mirage.frontend.dtypes import bfloat16 as bfloat16
    from mirage.frontend.dtypes import float16 as float16
    from mirage.frontend.dtypes import float32 as float32
    from mirage.frontend.dtypes import float64 as float64
    from mirage.frontend.errors import UnsupportedOpError as UnsupportedOpError
    from mirage.frontend.kernel_graph import GraphBuilder as GraphBuilder
    from mirage.frontend.kernel_graph import new_kernel_graph as new_kernel_graph
    from mirage.frontend.torch_import import from_torch as from_torch
    from mirage.pipeline.commands.export import export as export
    from mirage.pipeline.optimize import optimize as optimize
    from mirage.pipeline.options import OptimizeOptions as OptimizeOptions
    from mirage.pipeline.result import Optimized as Optimized

_HOMES = {
    "Optimized": ".pipeline.result",
    "OptimizeOptions": ".pipeline.options",
    "optimize": ".pipeline.optimize",
    "export": ".pipeline.commands.export",
    "MirageError": ".errors",
    "UnsupportedOpError": ".frontend.errors",
    "GraphBuilder": ".frontend.kernel_graph",
    "new_kernel_graph": ".frontend.kernel_graph",
    "BlockGraphBuilder": ".frontend.block_graph",
    "new_threadblock_graph": ".frontend.block_graph",
    "from_torch": ".frontend.torch_import",
    "float16": ".frontend.dtypes",
    "bfloat16": ".frontend.dtypes",
    "float32": ".frontend.dtypes",
    "float64": ".frontend.dtypes",
}

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]

_load, __dir__ = on_first_use(__name__, _HOMES)


def __getattr__(name: str) -> object:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("mirage."):
            raise
        raise ImportError(
            f"mirage.{name} needs the whole package, only the runtime is installed "
            f"({error.name} is missing); install mirage in place of mirage-runtime"
        ) from None
