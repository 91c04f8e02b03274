"""Calls of PyTorch by the names of ops, using torch alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mirage.runtime.dispatch.carriers import carried, seen_as
from mirage.runtime.dispatch.in_place_stores import in_place
from mirage.runtime.dispatch.plan import Argument, Call, Device, ElementType, Tensors
from mirage.runtime.errors import MissingOpError
from mirage.runtime.serialization.manifest import TORCH_NAMES

if TYPE_CHECKING:
    import torch


def overload_of(op: str) -> Any:
    """Return PyTorch's function for an op ("aten.cumsum.default"). Raises
    :class:`MissingOpError`."""
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
    """A call that is ready to be made: names are resolved once.

    ``device`` is the program's device (None: PyTorch's default). It replaces arguments that name
    the device, and tensors without operands are created there. Raises :class:`MissingOpError`.
    """

    def __init__(self, call: Call, device: torch.device | None = None) -> None:
        function = overload_of(call.op)
        named = dict(call.arguments)
        self.call = call
        self._function: Callable[..., Any] = function
        self._in_place = in_place(call.op) if call.in_place else None
        self.repeatable = _repeatable(function)
        """Whether equal operands give equal results."""
        self._places: list[tuple[str, Argument, bool]] = []  # name, value, whether tensors
        for parameter in function._schema.arguments:
            name = parameter.name
            if name not in named:
                self._places.append((name, None, True))
                continue
            value = named[name]
            if value is None and name == "device" and not call.operands:
                value = Device()
            tensors = isinstance(value, Tensors)
            self._places.append((name, value if tensors else _as_torch(value, device), tensors))

    def __call__(self, operands: Sequence[Any], write: bool = False) -> tuple[Any, ...]:
        """Return the results; with ``write``, the call writes in place if it is one that may."""
        if self.call.seen_as:
            pairs = zip(operands, self.call.seen_as, strict=True)
            operands = [seen_as(x, name) if name else x for x, name in pairs]
        rest = iter(operands)
        arguments: dict[str, Any] = {}
        for name, value, tensors in self._places:
            if not tensors:
                arguments[name] = value
            elif isinstance(value, Tensors):
                arguments[name] = [next(rest) if there else None for there in value.there]
            else:
                arguments[name] = next(rest)
        if write and self._in_place is not None:
            self._in_place(**arguments)
            return (carried(operands[0]) if self.call.seen_as else operands[0],)
        result = self._function(**arguments)
        results = result if isinstance(result, tuple | list) else (result,)
        return tuple(carried(x) if x is not None else None for x in results)


def _repeatable(function: Any) -> bool:
    import torch

    seeded = torch.Tag.nondeterministic_seeded in getattr(function, "tags", ())
    return not (seeded or function._schema.is_mutable or "empty" in function._schema.name)


def _as_torch(value: Argument, device: torch.device | None) -> Any:
    if isinstance(value, ElementType):
        import torch

        return getattr(torch, TORCH_NAMES[value.name])
    if isinstance(value, Device):
        return device
    return list(value) if isinstance(value, tuple) else value
