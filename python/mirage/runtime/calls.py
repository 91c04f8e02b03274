"""Calls of PyTorch by the names of ops, with torch alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mirage.runtime.errors import MissingOpError
from mirage.runtime.manifest import TORCH_NAMES
from mirage.runtime.plan import Argument, Call, Device, ElementType, Tensors
from mirage.runtime.stores import in_place

if TYPE_CHECKING:
    import torch


def overload_of(op: str) -> Any:
    """PyTorch's function for an op ("aten.cumsum.default"). Raises :class:`MissingOpError`."""
    import torch

    namespace, name, *overload = op.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    found = getattr(packet, overload[0] if overload else "default", None)
    if found is None:
        raise MissingOpError(
            f"expected an op {op!r}, which torch {torch.__version__} does not have; use the "
            "version that the program was made with"
        )
    return found


class TorchCall:
    """A call that is ready to be made: what depends on names is looked up once.

    Raises :class:`MissingOpError`.
    """

    def __init__(self, call: Call) -> None:
        function = overload_of(call.op)
        named = dict(call.arguments)
        self.call = call
        self._function: Callable[..., Any] = function
        self._in_place = in_place(call.op) if call.in_place else None
        self._places: list[tuple[str, Argument, bool]] = []  # name, value, whether tensors
        for parameter in function._schema.arguments:
            name = parameter.name
            if name not in named:
                self._places.append((name, None, True))
                continue
            value = named[name]
            # what is made of no tensor is made where the program runs
            made = not call.operands and name == "device" and value is None
            value = Device() if made else value
            tensors = isinstance(value, Tensors)
            plain = tensors or isinstance(value, Device)
            self._places.append((name, value if plain else _as_torch(value), tensors))

    def __call__(
        self, operands: Sequence[Any], write: bool = False, device: torch.device | None = None
    ) -> tuple[Any, ...]:
        """The results; with ``write`` the call writes in place if it is one that may. ``device`` is
        the one that the program runs on (None: PyTorch's default)."""
        rest = iter(operands)
        arguments: dict[str, Any] = {}
        for name, value, tensors in self._places:
            if isinstance(value, Device):
                arguments[name] = device
            elif not tensors:
                arguments[name] = value
            elif isinstance(value, Tensors):
                arguments[name] = [next(rest) if there else None for there in value.there]
            else:
                arguments[name] = next(rest)
        if write and self._in_place is not None:
            self._in_place(**arguments)
            return (operands[0],)
        result = self._function(**arguments)
        return tuple(result) if isinstance(result, tuple | list) else (result,)


def _as_torch(value: Argument) -> Any:
    if isinstance(value, ElementType):
        import torch

        return getattr(torch, TORCH_NAMES[value.name])
    return list(value) if isinstance(value, tuple) else value
