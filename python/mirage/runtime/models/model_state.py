"""The tensors that a model holds: read from its files, taken from a state dict, or filled with one
number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mirage.runtime.errors import StateError
from mirage.runtime.models.model_artifact import ModelArtifact
from mirage.runtime.models.model_manifest import Held
from mirage.runtime.serialization.manifest import TORCH_NAMES

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class State:
    """The tensors, in the order of the manifest and by name."""

    tensors: tuple[torch.Tensor, ...]
    by_name: Mapping[str, torch.Tensor]


def model_state(
    artifact: ModelArtifact, given: Mapping[str, Any] | None, device: torch.device
) -> State:
    """Return the state on a device. Tensors of ``given`` that are already there, with the right
    layout, are used directly. Raises :class:`StateError`."""
    held = artifact.manifest.state
    wanted = [h for h in held if h.file is None and h.fill is None]
    missing = list(dict.fromkeys(h.key for h in wanted if given is None or h.key not in given))
    if missing:
        some = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
        why = "none was given" if given is None else "it has none of these names"
        raise StateError(
            f"model {artifact.manifest.name!r}: expected a state dict with {len(missing)} tensors "
            f"({some}), but {why}; pass state=module.state_dict(), or export with "
            "weights='safetensors'"
        )
    if not wanted:
        _check_unused(artifact, given or {})
    shared: dict[tuple[str | None, str], torch.Tensor] = {}
    tensors: list[torch.Tensor] = []
    for one in held:
        place = one.file, one.key
        if one.fill is not None:
            tensors.append(_filled(one, device))
            continue
        if place not in shared:
            source = given if one.file is None else artifact.tensors[one.file]
            assert source is not None
            shared[place] = _on(device, one, source.get(one.key))
        tensors.append(shared[place])
    return State(tuple(tensors), {h.spec.name: x for h, x in zip(held, tensors, strict=True)})


def _check_unused(artifact: ModelArtifact, given: Mapping[str, Any]) -> None:
    """Raise an error for given weights that would be ignored because the model has its own."""
    for one in artifact.manifest.state:
        if one.file is not None and one.key in given:
            raise StateError(
                f"model {artifact.manifest.name!r}: expected no state dict, as {one.key!r} and the "
                f"rest are in {one.file}; load the model without one, or export it with "
                "weights='reference'"
            )


def _filled(held: Held, device: torch.device) -> torch.Tensor:
    import torch

    spec = held.spec
    assert held.fill is not None
    dtype = getattr(torch, TORCH_NAMES[spec.dtype])
    x = torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=device)
    return x.fill_(held.fill)


def _on(device: torch.device, held: Held, x: Any) -> torch.Tensor:
    """Return a tensor in the form that the model expects."""
    import torch

    spec, where = held.spec, held.file or "the state dict"
    dtype = getattr(torch, TORCH_NAMES[spec.dtype])
    if not isinstance(x, torch.Tensor):
        raise StateError(f"{where}: expected a tensor {held.key!r}, got {type(x).__name__}")
    if x.dtype is not dtype or tuple(x.shape) != spec.shape:
        raise StateError(
            f"{where}: {held.key}: expected {dtype} of shape {spec.shape}, got {x.dtype} of shape "
            f"{tuple(x.shape)}; these are the weights of another model: export that one"
        )
    x = x.detach().to(device)
    if _lies(x, spec.strides):
        return x
    y = torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=device)
    return y.copy_(x)


def _lies(x: torch.Tensor, strides: tuple[int, ...]) -> bool:
    return all(n < 2 or a == b for n, a, b in zip(x.shape, x.stride(), strides, strict=True))
