"""An optimized program as a plan: its tensors are numbered, and stores are made in place where
allowed.

A store ("index_copy") gives a new tensor. It may write to the old one instead if the caller gives
that up (the program updates it) and nothing that comes later reads what the store overwrites:

1. The store's target lies in the memory of an input that is updated, and nothing else that the
   store reads does (but for what is in its place there already, see below).
2. No later step, and no output, has a value in that memory that was there before the store; but for
   stores to it that overwrite all that the first one does: ``x[2].index_copy_(0, at, y)`` is an
   ``index_copy`` to a view of ``x`` and then a ``select_scatter`` of the result to the same place,
   which has nothing to do once the first one writes in place.

Values are in the memory of an input if a call may have made them views of it. The schemas of
PyTorch's ops say whether they may return a view, except for ops that are composed of others
(``einsum``); those are assumed to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mirage.runtime.dispatch.in_place_stores import destination, is_store
from mirage.runtime.dispatch.plan import (
    Argument,
    Call,
    Device,
    ElementType,
    Launch,
    Plan,
    Step,
    Tensors,
)
from mirage.runtime.dispatch.torch_calls import TorchCall, overload_of
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.row_updates import updated_inputs
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.transforms.partition.calls import DTYPE

if TYPE_CHECKING:
    import torch

    from mirage.pipeline.result import Step as Compiled


def plan_of(graph: KernelGraph, steps: Sequence[Compiled], updates: Sequence[int] = ()) -> Plan:
    """Return the plan of a program that is cut into ``steps``; parts are numbered in their order.
    The first outputs are the new values of the inputs ``updates``."""
    pieces = [s.external if s.external is not None else s.graph for s in steps]
    return plan_of_pieces(graph, [p for p in pieces if p is not None], updates)


def plan_of_pieces(
    graph: KernelGraph, pieces: Iterable[External | KernelGraph], updates: Sequence[int] = ()
) -> Plan:
    """Return the plan of a program whose parts are not compiled; see :func:`plan_of`."""
    return numbered_pieces(graph, pieces, updates).plan


@dataclass(frozen=True)
class Pieces:
    """The pieces of a program, its plan, and, for each tensor, the inputs whose memory it may
    share."""

    pieces: tuple[External | KernelGraph, ...]
    plan: Plan
    roots: Mapping[int, frozenset[int]]


def numbered_pieces(
    graph: KernelGraph, pieces: Iterable[External | KernelGraph], updates: Sequence[int] = ()
) -> Pieces:
    """Return the plan of parts that are not compiled, with the pieces and memory that were
    determined for it."""
    pieces = tuple(pieces)
    numbers: dict[Value, int] = {}
    types: list[TensorType] = []

    def numbered(values: Sequence[Value]) -> tuple[int, ...]:
        for v in values:
            numbers[v] = len(types)
            types.append(v.type)
        return tuple(numbers[v] for v in values)

    numbered(graph.inputs)
    found: list[Step] = []
    parts = 0
    for piece in pieces:
        if isinstance(piece, KernelGraph):
            operands = tuple(numbers[v] for v in piece.inputs)
            updated = updated_inputs(piece)
            found.append(Launch(parts, operands, numbered(piece.outputs), updated))
            parts += 1
        else:
            operands = tuple(numbers[v] for v in piece.operands)
            results = numbered(piece.results)
            found.append(replace(call_of(piece), operands=operands, results=results))
    outputs = tuple(numbers[v] for v in graph.outputs)
    plan = Plan(len(graph.inputs), tuple(found), outputs, tuple(updates))
    analysis = _InPlace(plan, types)
    plan = analysis.plan() if updates else plan
    return Pieces(pieces, plan, analysis.roots)


def in_place(plan: Plan, types: Sequence[TensorType]) -> Plan:
    """Return the plan with stores made in place where allowed; ``types`` are the types of its
    tensors."""
    return _InPlace(plan, types).plan() if plan.updates else plan


def call_of(op: External) -> Call:
    """Return the call that ``op`` stands for; its operands are numbered from 0, and its results
    follow them."""
    first = len(op.operands)
    results = tuple(range(first, first + len(op.results)))
    arguments = _arguments(op)
    return Call(op.target, tuple(range(first)), results, arguments, seen_as=op.seen_as)


def _arguments(op: External) -> tuple[tuple[str, Argument], ...]:
    kinds = {p.name: str(p.type) for p in overload_of(op.target)._schema.arguments}
    return tuple((name, _argument(value, kinds.get(name, ""))) for name, value in op.arguments)


def _argument(value: Any, kind: str) -> Argument:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "tensors":
        which = value[1] if isinstance(value[1], tuple) else (1,) * value[1]
        return Tensors(tuple(map(bool, which)))
    if isinstance(value, tuple) and len(value) == 2 and value[0] == DTYPE:
        return ElementType(value[1])
    if "Device" in kind and value is not None:
        return Device()
    return value


class _InPlace:
    def __init__(self, plan: Plan, types: Sequence[TensorType]) -> None:
        self.given, self.types = plan, types
        self.roots: dict[int, frozenset[int]] = {i: frozenset((i,)) for i in range(plan.inputs)}
        self.views: dict[int, torch.Tensor] = {}
        """The positions, in a dense tensor, of values that are an updated input or views of it."""
        self.sources: dict[int, int] = {}  # the value that each view is a view of

    def plan(self) -> Plan:
        """Return the plan with calls that write in place."""
        import torch

        for i in self.given.updates:
            type_ = self.types[i]
            dtype = getattr(torch, TORCH_NAMES[type_.dtype.value])
            self.views[i] = torch.empty(type_.shape, dtype=dtype, device="meta")
        steps: list[Step] = []
        for number, step in enumerate(self.given.steps):
            if isinstance(step, Call) and self._may_write(step, number):
                step = replace(step, in_place=True)
            self._note(step)
            steps.append(step)
        return replace(self.given, steps=tuple(steps))

    def _may_write(self, call: Call, number: int) -> bool:
        if not is_store(call.op) or len(call.results) != 1:
            return False
        target, *others = call.operands
        if target not in self.views:
            return False
        (root,) = self.roots[target]
        if any(root in self.roots[v] and not self._there(call, v) for v in others):
            return False
        old = {v for v, roots in self.roots.items() if root in roots}
        if old.intersection(self.given.outputs):
            return False
        later = self.given.steps[number + 1 :]
        readers = (s for s in later if old.intersection(s.operands))
        return all(self._overwrites(s, target, old) for s in readers)

    def _there(self, call: Call, value: int) -> bool:
        """Return whether the value that a store writes is already in its place, written there by
        another store."""
        place = destination(call.op, self.views[call.operands[0]], dict(call.arguments))
        if place is None or value not in self.views:
            return False
        return _elements(self.views[value]) == _elements(place)

    def _overwrites(self, step: Step, target: int, old: set[int]) -> bool:
        """Return whether a step reads old values only to replace all of ``target`` in one of
        them."""
        if not isinstance(step, Call) or step.operands[0] not in self.views:
            return False
        if old.intersection(step.operands[1:]):
            return False
        whole = self.views[step.operands[0]]
        place = destination(step.op, whole, dict(step.arguments))
        if place is None:
            return False
        around: int | None = target
        while around is not None:
            if _elements(self.views[around]) == _elements(place):
                return True
            around = self.sources.get(around)
        return False

    def _note(self, step: Step) -> None:
        """Record the memory that the results of a step may share."""
        if isinstance(step, Launch):
            self.roots.update(dict.fromkeys(step.results, frozenset[int]()))
            first = len(step.results) - len(step.updates)
            for place, new in zip(step.updates, step.results[first:], strict=True):
                self._is_now(new, step.operands[place])
            return
        if step.in_place:
            self._is_now(step.results[0], step.operands[0])
            return
        behind = frozenset[int]()
        if may_view(step.op):
            behind = behind.union(*(self.roots[v] for v in step.operands))
        self.roots.update(dict.fromkeys(step.results, behind))
        looks = len(step.operands) == len(step.results) == 1 and may_view(step.op)
        if looks and step.operands[0] in self.views:
            source = self.views[step.operands[0]]
            (seen,) = TorchCall(step, source.device)([source])
            if _storage(seen) == _storage(source):
                self.views[step.results[0]] = seen
                self.sources[step.results[0]] = step.operands[0]

    def _is_now(self, new: int, old: int) -> None:
        """Record a tensor's memory after a store to it."""
        self.roots[new] = self.roots[old]
        self.views[new] = self.views[old]
        self.sources[new] = old


def may_view(op: str) -> bool:
    """Return whether results of an op may share the memory of its operands."""
    from torch._C import DispatchKey

    function = overload_of(op)
    composite = DispatchKey.CompositeImplicitAutograd
    if function.has_kernel_for_dispatch_key(composite):
        return True
    return any(result.alias_info is not None for result in function._schema.returns)


def _storage(x: torch.Tensor) -> int:
    from torch.multiprocessing.reductions import StorageWeakRef

    return int(StorageWeakRef(x.untyped_storage()).cdata)


def _elements(x: torch.Tensor) -> object:
    """Identify the elements of a dense tensor that a view of it has."""
    dims = [(n, s) for n, s in zip(x.shape, x.stride(), strict=True) if n != 1]
    return x.storage_offset(), dims
