"""Mirage inside PyTorch.

import mirage.torch

fast = torch.compile(module, backend="mirage")              # PyTorch answers, then kernels do
print(mirage.torch.explain())                               # what is still being compiled
print(mirage.torch.explain(module, x))                      # graph by graph, once all is compiled
mirage.torch.tune(module, x)                                # the fastest, as measured here
op = mirage.torch.custom_op(mirage.runtime.load(path), "rms_linear")   # an artifact as an operator
"""

from mirage.torch.backend import backend, register
from mirage.torch.custom_op import BadOperatorNameError, custom_op
from mirage.torch.explain import Explanation, explain
from mirage.torch.timed_graphs import tune

register()

__all__ = [
    "BadOperatorNameError",
    "Explanation",
    "backend",
    "custom_op",
    "explain",
    "register",
    "tune",
]
