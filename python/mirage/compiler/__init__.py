"""From a chosen µGraph to an artifact: pipelines, manifest, cache, assembler.

from mirage.compiler import CompileOptions, compile_module

compiled = compile_module(module, CompileOptions(chip="sm_90a"))
mirage.runtime.write_artifact(compiled.artifact, "program.mirage")
"""

from mirage.compiler.collect import Names
from mirage.compiler.compile import (
    CHIPS,
    DEFAULT_CHIP,
    Compiled,
    CompileOptions,
    compile_graph,
    compile_module,
    compile_text,
)
from mirage.compiler.errors import CompileError, PtxasError, UnsupportedChipError

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
]
