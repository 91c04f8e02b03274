"""Mirage inside PyTorch.

import mirage.torch

fast = torch.compile(module, backend="mirage")              # searches, verifies, compiles
op = mirage.torch.custom_op(mirage.runtime.load(path), "rms_linear")   # an artifact as an operator
"""

from mirage.torch.backend import backend, register
from mirage.torch.custom_op import BadOperatorNameError, custom_op

register()

__all__ = ["BadOperatorNameError", "backend", "custom_op", "register"]
