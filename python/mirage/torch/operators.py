"""Artifacts as PyTorch operators, which ``torch.compile``, ``torch.export`` and profilers can
see."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from mirage.errors import MirageError
from mirage.runtime.serialization.manifest import TORCH_NAMES, Manifest

NAMESPACE = "mirage"

DTYPES = {name: getattr(torch, known) for name, known in TORCH_NAMES.items()}


class BadOperatorNameError(MirageError, ValueError):
    """An operator cannot have this name, or the name is taken."""


class Program(Protocol):
    """The program to wrap: an :class:`mirage.runtime.Executable`, or anything like it."""

    @property
    def manifest(self) -> Manifest:
        """The types of inputs and outputs."""
        ...

    def __call__(self, *tensors: Any) -> Sequence[torch.Tensor]:
        """Run the program."""
        ...


def custom_op(program: Program, name: str) -> Callable[..., Any]:
    """Register ``program`` as the operator ``torch.ops.mirage.<name>`` and return that.

    The operator takes the program's inputs as tensors and returns its output, or a tuple if there
    are several. It has no derivative. Raises :class:`BadOperatorNameError`.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise BadOperatorNameError(
            f"expected a name of lowercase letters, digits and _, got {name!r}"
        )
    if hasattr(getattr(torch.ops, NAMESPACE), name):
        raise BadOperatorNameError(
            f"expected a new name, got {name!r}, which is registered already"
        )
    manifest = program.manifest
    single = len(manifest.outputs) == 1
    arguments = ", ".join(f"Tensor x{i}" for i in range(len(manifest.inputs)))
    result = "Tensor" if single else f"({', '.join('Tensor' for _ in manifest.outputs)})"

    def run(*tensors: torch.Tensor) -> Any:
        outputs = tuple(program(*tensors))
        return outputs[0] if single else outputs

    def shapes(*tensors: torch.Tensor) -> Any:
        device = tensors[0].device if tensors else torch.device("cuda")
        outputs = tuple(
            torch.empty_strided(t.shape, t.strides, dtype=DTYPES[t.dtype], device=device)
            for t in manifest.outputs
        )
        return outputs[0] if single else outputs

    operator = torch.library.custom_op(
        f"{NAMESPACE}::{name}", run, mutates_args=(), schema=f"({arguments}) -> {result}"
    )
    operator.register_fake(shapes)
    return operator
