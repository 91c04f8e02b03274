"""Mirage inside PyTorch.

import mirage.torch

fast = torch.compile(module, backend="mirage")              # PyTorch answers, then kernels do
print(mirage.torch.explain())                               # what is still being compiled
print(mirage.torch.explain(module, x))                      # graph by graph, once all is compiled
mirage.torch.tune(module, x)                                # the fastest, as measured here
op = mirage.torch.custom_op(mirage.runtime.load(path), "rms_linear")   # an artifact as an operator

Importing this package takes little time: the modules behind a name are imported when it is first
used. If the package is installed, ``torch.compile`` finds the backend without this import.
"""

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from mirage.lazy_names import on_first_use

if TYPE_CHECKING:
    from mirage.torch.explanation import Explanation, explain
    from mirage.torch.graph_compiler import backend, register
    from mirage.torch.operators import BadOperatorNameError, custom_op
    from mirage.torch.timed_graphs import tune

_HOMES = {
    "BadOperatorNameError": ".operators",
    "Explanation": ".explanation",
    "backend": ".graph_compiler",
    "custom_op": ".operators",
    "explain": ".explanation",
    "register": ".graph_compiler",
    "tune": ".timed_graphs",
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)


if not entry_points(group="torch_dynamo_backends", name="mirage"):
    __getattr__("register")()

__all__ = [
    "BadOperatorNameError",
    "Explanation",
    "backend",
    "custom_op",
    "explain",
    "register",
    "tune",
]
