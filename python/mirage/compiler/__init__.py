"""From a chosen µGraph to an artifact: pipelines, manifest, cache, assembler.

from mirage.compiler import CompileOptions, compile_module

compiled = compile_module(module, CompileOptions(chip="h200"))
mirage.runtime.write_artifact(compiled.artifact, "program.mirage")
"""

from mirage.compiler.chips import default_chip
from mirage.compiler.collect import Names
from mirage.compiler.compile import (
    Compiled,
    CompileOptions,
    compile_graph,
    compile_module,
    compile_text,
)
from mirage.compiler.errors import CompileError, PtxasError, UnsupportedChipError
from mirage.cost.target import CHIPS, DEFAULT_CHIP

__all__ = [
    "CHIPS",
    "DEFAULT_CHIP",
    "CompileError",
    "CompileOptions",
    "Compiled",
    "Names",
    "PtxasError",
    "UnsupportedChipError",
    "compile_graph",
    "compile_module",
    "compile_text",
    "default_chip",
]
