"""Runs a whole model from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli.given_inputs import Wanted, given_inputs
from mirage.cli.output import Output
from mirage.cli.python_files import BadProgramError
from mirage.cli.tensor_archives import DTYPES, check_writable, read_tensors, write_tensors

if TYPE_CHECKING:
    from mirage.runtime import Model


def run_model(options: argparse.Namespace, output: Output) -> int:
    """Call the model once, on random arguments or those of a file, and report its results.

    Raises :class:`BadProgramError`, and the errors of loading and calling the model."""
    import torch

    from mirage.runtime import Model
    from mirage.runtime.loading import load

    for name in ("program", "stats"):
        if getattr(options, name):
            raise BadProgramError(f"{options.artifact}: a whole model is run without --{name}")
    device = "cpu" if options.emulate else None
    model = load(options.artifact, device=device, check_indices=options.check_indices)
    assert isinstance(model, Model)
    torch.manual_seed(options.seed)
    tensors = _given(model, options.inputs) if options.inputs is not None else _random(model)
    args, named = model.manifest.structure.unflatten(_leaves(model, tensors))
    found = model(*args, **named)
    structure = model.manifest.result_structure
    leaves = zip(structure.places("y"), structure.flatten(found, "y"))
    results = {place: y for place, y in leaves if isinstance(y, torch.Tensor)}
    output.table(
        ("output", "shape", "type", "norm"),
        [
            (place, tuple(y.shape), str(y.dtype).removeprefix("torch."), f"{_norm(y):.6g}")
            for place, y in results.items()
        ],
    )
    data = {
        "artifact": str(options.artifact),
        "name": model.manifest.name,
        "device": str(model.device),
        "outputs": [
            {"name": place, "shape": list(y.shape), "norm": _norm(y)}
            for place, y in results.items()
        ],
    }
    if options.outputs is not None:
        arrays = {place: _array(y) for place, y in results.items()}
        check_writable(options.outputs, {})
        write_tensors(options.outputs, arrays)
        output.say(f"outputs: {options.outputs}")
        data["written"] = str(options.outputs)
    output.result({**data, "ok": True})
    return 0


def _leaves(model: Model, tensors: list[Any]) -> Any:
    """Return all arguments in order: tensors, and the values with which the model was exported."""
    from mirage.runtime.models.model_manifest import Fixed

    rest = iter(tensors)
    return iter([a.value if isinstance(a, Fixed) else next(rest) for a in model.manifest.arguments])


def _random(model: Model) -> list[Any]:
    import torch

    from mirage.runtime.serialization.manifest import TORCH_NAMES

    found: list[Any] = []
    for spec in model.manifest.inputs:
        dtype = getattr(torch, TORCH_NAMES[spec.dtype])
        x = torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=model.device)
        if dtype.is_floating_point:
            found.append(x.copy_(torch.randn(spec.shape)))
        else:  # any table has such rows
            found.append(x.copy_(torch.randint(0, 2 if dtype is torch.bool else 4, spec.shape)))
    return found


def _given(model: Model, path: Path) -> list[Any]:
    import torch

    from mirage.runtime.serialization.manifest import TORCH_NAMES

    specs = model.manifest.inputs
    wanted = [Wanted((spec.name,), spec.shape, spec.dtype) for spec in specs]
    arrays = given_inputs(path, read_tensors(path), wanted)
    found: list[Any] = []
    for spec, array in zip(specs, arrays, strict=True):
        dtype = getattr(torch, TORCH_NAMES[spec.dtype])
        x = torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=model.device)
        found.append(x.copy_(torch.tensor(array)))
    return found


def _norm(y: Any) -> float:
    return float(y.detach().double().norm())


def _array(y: Any) -> Any:
    import torch

    y = y.detach().cpu()
    if y.dtype is torch.bfloat16:
        return y.float().numpy().astype(DTYPES["bf16"])
    return y.contiguous().numpy()
