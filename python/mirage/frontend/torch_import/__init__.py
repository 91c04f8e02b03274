"""Import of PyTorch programs through torch-mlir.

``torch.export`` captures the program (:mod:`capture`), and torch-mlir converts it to its `torch`
dialect. A table with one row for each torch op (:mod:`rows.op_table`) turns that into a kernel
graph (:mod:`conversion`). Weights become inputs of the graph that the callable binds
automatically.

Names load on first use: programs that were imported earlier need no torch-mlir."""

from typing import TYPE_CHECKING

from mirage.lazy_names import on_first_use

if TYPE_CHECKING:
    from mirage.frontend.torch_import.capture.dynamic import dynamic_program
    from mirage.frontend.torch_import.capture.effects import Effects, effects_of
    from mirage.frontend.torch_import.capture.exporting import export_program
    from mirage.frontend.torch_import.capture.given_arguments import (
        given_arguments,
        names_by_position,
    )
    from mirage.frontend.torch_import.capture.module_call import ModuleCall
    from mirage.frontend.torch_import.conversion.from_torch import ImportedGraph, from_torch

_HOMES = {
    "Effects": ".capture.effects",
    "ImportedGraph": ".conversion.from_torch",
    "ModuleCall": ".capture.module_call",
    "dynamic_program": ".capture.dynamic",
    "effects_of": ".capture.effects",
    "export_program": ".capture.exporting",
    "from_torch": ".conversion.from_torch",
    "given_arguments": ".capture.given_arguments",
    "names_by_position": ".capture.given_arguments",
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)


__all__ = [
    "Effects",
    "ImportedGraph",
    "ModuleCall",
    "dynamic_program",
    "effects_of",
    "export_program",
    "from_torch",
    "given_arguments",
    "names_by_position",
]
