"""Import of PyTorch programs through torch-mlir.

``torch.export`` captures the program, torch-mlir converts it to its `torch` dialect, and a table
with one row for each torch op (:mod:`table`) turns that into a kernel graph. Weights become inputs
of the graph that the callable binds automatically."""

from mirage.frontend.torch_import.capture import export_program
from mirage.frontend.torch_import.dynamic import dynamic_program
from mirage.frontend.torch_import.effects import Effects, effects_of
from mirage.frontend.torch_import.importer import ImportedGraph, from_torch
from mirage.frontend.torch_import.module_call import ModuleCall

__all__ = [
    "Effects",
    "ImportedGraph",
    "ModuleCall",
    "dynamic_program",
    "effects_of",
    "export_program",
    "from_torch",
]
