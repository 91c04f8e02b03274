"""The arguments that a caller passes to a model, checked against its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mirage.runtime.arguments.overlaps import written_apart
from mirage.runtime.arguments.tensor_check import TensorCheck
from mirage.runtime.errors import (
    ArgumentAliasError,
    ArgumentCountError,
    ArgumentDeviceError,
    ArgumentValueError,
)
from mirage.runtime.models.model_manifest import Fixed, ModelManifest
from mirage.runtime.serialization.manifest import TensorSpec

if TYPE_CHECKING:
    import torch


class ModelArguments:
    """Extracts the tensors from positional and named arguments, in order."""

    def __init__(self, manifest: ModelManifest, device: torch.device) -> None:
        self.manifest = manifest
        self.device = device
        positional, named = manifest.structure.children
        self._count = len(positional.children)
        self._by_name = manifest.parameters
        self._positional, self._named = positional.children, named
        self._wanted = [
            a if isinstance(a, Fixed) else _Wanted(a.spec, device) for a in manifest.arguments
        ]
        updated = set(manifest.plan.updates)
        count = len(manifest.inputs)
        names = [s.name for s in manifest.memories]
        self._written = [(i, names[i]) for i in sorted(updated) if i < count]
        self._held = [(i - count, names[i]) for i in sorted(updated) if i >= count]
        self._names = names[:count]
        self._bytes = [spec.bytes for spec in manifest.memories]
        self._updated = frozenset(updated)
        self._apart_at: tuple[int, ...] | None = None  # addresses that are known not to overlap

    def __call__(
        self, args: Sequence[Any], named: Mapping[str, Any], state: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return the tensors. Raises :class:`~mirage.runtime.errors.CallError`."""
        leaves = self.leaves(args, named)
        tensors: list[torch.Tensor] = []
        for wanted, leaf, name in zip(self._wanted, leaves, self._places()):
            if isinstance(wanted, Fixed):
                _check_fixed(wanted, leaf, name)
            else:
                tensors.append(wanted(leaf))
        self._check_memory(tensors, state)
        return tensors

    def leaves(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return all arguments in order, tensors or not. Raises
        :class:`~mirage.runtime.errors.CallError` if they are nested in another way."""
        return list(self._leaves(args, named))

    def _places(self) -> Iterator[str]:
        for number, child in enumerate(self._positional):
            yield from child.places(f"argument {number}")
        for key, child in zip(self._named.keys, self._named.children):
            yield from child.places(str(key))

    def _leaves(self, args: Sequence[Any], named: Mapping[str, Any]) -> Iterator[Any]:
        keys = self._named.keys
        if len(args) != self._count or set(named) != set(keys):
            args, named = self._as_exported(args, named)
        for number, (child, value) in enumerate(zip(self._positional, args)):
            yield from child.flatten(value, f"argument {number}")
        for key, child in zip(keys, self._named.children):
            yield from child.flatten(named[str(key)], str(key))

    def _as_exported(
        self, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return arguments by position and by name as in the export, given those of a call that may
        pass others by name."""
        known = {name or i: i for i, name in enumerate(self._by_name)}
        given: dict[int | str, Any] = dict(zip(range(len(known)), args))
        given |= {known.get(name, name): value for name, value in named.items()}
        wanted = [*range(self._count), *(known.get(str(k), str(k)) for k in self._named.keys)]
        if len(given) != len(args) + len(named) or {*given} != {*wanted}:
            raise self._misfit(len(args), named)
        ordered = [given[place] for place in wanted]
        left = dict(zip(map(str, self._named.keys), ordered[self._count :]))
        return ordered[: self._count], left

    def _misfit(self, count: int, named: Mapping[str, Any]) -> ArgumentCountError:
        own = ", ".join(filter(None, self._by_name[: self._count]))
        names = ", ".join(map(str, self._named.keys)) or "none"
        return ArgumentCountError(
            f"model {self.manifest.name!r}: expected {self._count} positional arguments"
            f"{f' ({own})' if own else ''} and the named ones {names}, as it was exported with, "
            f"got {count} and {', '.join(named) or 'none'}"
        )

    def _check_memory(self, tensors: Sequence[torch.Tensor], state: Sequence[torch.Tensor]) -> None:
        """Check that no tensor that is written to is visible through another argument."""
        if not self._updated:
            return
        starts = (*(x.data_ptr() for x in tensors), *(x.data_ptr() for x in state))
        if starts == self._apart_at:
            return
        if written_apart(starts, self._bytes, self._updated):
            self._apart_at = starts
            return
        taken = [(_range(x), name) for x, name in zip(tensors, self._names)]
        for place, name in self._written:
            self._apart(taken[place][0], name, taken[:place] + taken[place + 1 :])
            self._apart(taken[place][0], name, ((_range(x), "the state") for x in state))
        for place, name in self._held:
            self._apart(_range(state[place]), name, taken)

    @staticmethod
    def _apart(mine: tuple[int, int], name: str, others: Any) -> None:
        for (start, end), other in others:
            if mine[0] < end and start < mine[1]:
                raise ArgumentAliasError(
                    f"{name}: expected separate memory, as the model writes to it, got some that "
                    f"{other} has too; pass {other}.clone()"
                )


def _range(x: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and of the end of its last."""
    start = x.data_ptr()
    if not x.numel():
        return start, start
    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return start, start + (last + 1) * x.element_size()


def _check_fixed(wanted: Fixed, got: object, where: str) -> None:
    same = type(got) is type(wanted.value) and (got == wanted.value or got != got)
    if not same:
        raise ArgumentValueError(
            f"{where}: expected {wanted.value!r}, for which the model was exported, got "
            f"{got!r:.80}; export it again for another value"
        )


class _Wanted(TensorCheck):
    """The check of a tensor argument of a model, which is on one device."""

    def __init__(self, spec: TensorSpec, device: torch.device) -> None:
        super().__init__(spec, spec.name, ", for which the model was exported")
        self.device = device

    def __call__(self, x: Any) -> torch.Tensor:
        self.check_kind(x)
        if x.device != self.device:
            raise ArgumentDeviceError(
                f"{self.what}: expected a tensor on {self.device}, where the model was loaded, got "
                f"one on {x.device}; pass .to({str(self.device)!r}), or load the model there"
            )
        self.check_layout(x)
        return x.detach() if x.requires_grad else x
