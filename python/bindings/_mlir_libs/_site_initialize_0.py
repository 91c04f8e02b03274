"""Runs once when the bindings are first imported: registers our dialects and passes."""

import sys

from ._mirage import (
    register_dialects,  # noqa: F401  (called by _mlir_libs with its registry)
    register_passes,
    set_python_interpreter,
)

register_passes()
# Passes written in Python that a textual pipeline names run in a worker of this interpreter.
set_python_interpreter(sys.executable)
