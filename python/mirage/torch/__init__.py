"""Mirage inside PyTorch.

import mirage.torch

fast = torch.compile(module, backend="mirage")              # searches, verifies, compiles
print(mirage.torch.explain(module, x))                      # graph by graph
op = mirage.torch.custom_op(mirage.runtime.load(path), "rms_linear")   # an artifact as an operator
"""

from mirage.torch.backend import backend, register
from mirage.torch.custom_op import BadOperatorNameError, custom_op
from mirage.torch.explain import Explanation, explain

register()

__all__ = [
    "BadOperatorNameError",
    "Explanation",
    "backend",
    "custom_op",
    "explain",
    "register",
]
