"""Execution of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mirage.runtime.dispatch.plan import Call, Launch, Plan
from mirage.runtime.dispatch.plan_constants import Constants
from mirage.runtime.dispatch.torch_calls import TorchCall
from mirage.runtime.errors import CallError, InterruptedUpdateError
from mirage.runtime.launching.fast import ALIGNMENT

if TYPE_CHECKING:
    import torch


class Launcher(Protocol):
    """A function that runs a compiled part, by its number, on tensors that are contiguous and
    aligned. ``follows`` says that the kernels of another part have been launched just before."""

    def __call__(
        self, part: int, given: list[torch.Tensor], follows: bool, /
    ) -> Sequence[torch.Tensor]: ...


class Steps:
    """A plan with its calls resolved. ``device`` is the program's device (None: that of the inputs
    of each call). Raises :class:`~mirage.runtime.errors.MissingOpError`."""

    def __init__(self, plan: Plan, device: torch.device | None = None) -> None:
        self.plan = plan
        self._device = device
        self._prepared: dict[torch.device | None, _Prepared] = {}
        prepared = self._on(device)
        if device is not None:
            prepared.constants()

    def _on(self, device: torch.device | None) -> _Prepared:
        found = self._prepared.get(device)
        if found is None:
            found = self._prepared[device] = _Prepared(self.plan, device)
        return found

    def __call__(
        self, tensors: Sequence[Any], launch: Launcher, *, write: bool = False
    ) -> tuple[Any, ...]:
        """Run the plan and return its outputs. With ``write``, inputs that the plan updates in
        place are written to, and an output may be the input itself.

        Raises the errors of calls and launches, or :class:`InterruptedUpdateError` if an input has
        already been written to.
        """
        device = _device_of(tensors) if self._device is None else self._device
        prepared = self._on(device)
        constants = prepared.constants()
        values: dict[int, Any] = dict(enumerate(tensors))
        values.update(constants)
        copies: dict[int, Any] = {}  # copies of tensors that kernels cannot take directly
        wrote = begun = False  # inputs are written: by now, and before this step
        follows = False
        try:
            for step, call, unused in prepared.steps:
                begun = wrote
                if call is None:
                    assert isinstance(step, Launch)
                    wrote |= write and bool(step.updates)
                    results, follows = _launched(launch, step, values, copies, write, follows)
                else:
                    follows = False
                    changes = write and call.call.in_place
                    wrote |= changes
                    results = call([values[v] for v in step.operands], changes)
                values.update(zip(step.results, results, strict=True))
                for v in unused:
                    del values[v]
                    copies.pop(v, None)
        except Exception as error:
            if not begun and (not wrote or isinstance(error, CallError)):  # refused, not run
                raise
            raise InterruptedUpdateError(
                f"the program failed after it had begun to update its inputs, which hold old and "
                f"new numbers now: {type(error).__name__}: {error}"
            ) from error
        outputs = tuple(values[v] for v in self.plan.outputs)
        return _apart(outputs, constants) if constants else outputs


class _Prepared:
    """A plan on a device: the steps that depend on inputs, each with its call (None for a launch)
    and the tensors that no later step needs; and the other steps as constants."""

    def __init__(self, plan: Plan, device: torch.device | None) -> None:
        calls = [TorchCall(step, device) if isinstance(step, Call) else None for step in plan.steps]
        self.constants = Constants([call for call in calls if call is not None])
        made = self.constants.made
        self.steps = [
            (step, call, tuple(v for v in unused if v not in made))
            for step, call, unused in zip(plan.steps, calls, plan.last_uses, strict=True)
            if not made.issuperset(step.results)
        ]


def _device_of(tensors: Sequence[Any]) -> torch.device | None:
    """Return the device of the tensors; a number on the CPU may be combined with tensors on a
    GPU."""
    devices = [x.device for x in tensors if hasattr(x, "device")]
    return next((d for d in devices if d.type != "cpu"), devices[0] if devices else None)


def _launched(
    launch: Launcher,
    step: Launch,
    values: dict[int, Any],
    copies: dict[int, Any],
    write: bool,
    follows: bool,
) -> tuple[Sequence[Any], bool]:
    """Return the results of a part, and whether its kernels were launched last. ``follows`` says
    whether those of the previous step were. With ``write``, tensors that the part updates are
    written in place; otherwise copies are."""
    given = [_ready(v, values, copies) for v in step.operands]
    follows &= all(x is values[v] for x, v in zip(given, step.operands, strict=True))
    if not step.updates:
        return launch(step.part, given, follows), True
    updated: list[Any] = []
    for place in step.updates:
        number = step.operands[place]
        if not write:
            given[place] = given[place].clone()
        updated.append(values[number] if write else given[place])
    results = launch(step.part, given, follows and write)
    is_last = True
    for place, x in zip(step.updates, updated):
        if given[place] is not x:  # a copy, since kernels could not take it directly
            x.copy_(given[place])
            copies.pop(step.operands[place], None)
            is_last = False
    return (*results, *updated), is_last


def _ready(number: int, values: dict[int, Any], copies: dict[int, Any]) -> torch.Tensor:
    """Return a tensor in the form that kernels take, copying it at most once."""
    x = copies.get(number, values[number])
    if x.is_contiguous() and not x.data_ptr() % ALIGNMENT:
        return x
    dense = x.contiguous()
    copies[number] = dense.clone() if dense.data_ptr() % ALIGNMENT else dense
    return copies[number]


def _apart(outputs: tuple[Any, ...], constants: Mapping[int, Any]) -> tuple[Any, ...]:
    """Return the outputs, copying those that share the memory of constants."""
    kept = {x.untyped_storage().data_ptr() for x in constants.values()}
    return tuple(y.clone() if y.untyped_storage().data_ptr() in kept else y for y in outputs)
