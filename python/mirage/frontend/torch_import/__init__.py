"""Import of PyTorch programs through torch-mlir.

``torch.export`` captures the program (:mod:`capture`), and torch-mlir converts it to its `torch`
dialect. A table with one row for each torch op (:mod:`rows.op_table`) turns that into a kernel
graph (:mod:`conversion`). Weights become inputs of the graph that the callable binds
automatically."""

from mirage.frontend.torch_import.capture.capture import export_program
from mirage.frontend.torch_import.capture.dynamic import dynamic_program
from mirage.frontend.torch_import.capture.effects import Effects, effects_of
from mirage.frontend.torch_import.capture.module_call import ModuleCall
from mirage.frontend.torch_import.conversion.importer import ImportedGraph, from_torch

__all__ = [
    "Effects",
    "ImportedGraph",
    "ModuleCall",
    "dynamic_program",
    "effects_of",
    "export_program",
    "from_torch",
]
