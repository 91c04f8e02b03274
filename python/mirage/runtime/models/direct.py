"""Models that consist of one compiled part, called without the steps of a plan.

The compiled launcher makes all checks that such a model needs, since the part takes and returns
exactly the model's arguments and results. If the launcher declines a call, or if a model has other
steps, the plan runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mirage.runtime.dispatch.plan import Launch
from mirage.runtime.launching.executable import Executable
from mirage.runtime.models.model_manifest import Fixed, ModelManifest, Result
from mirage.runtime.serialization.manifest import Manifest, TensorSpec

if TYPE_CHECKING:
    import torch


class Direct:
    """Calls of the only part of a model. ``held`` is the model's state."""

    def __init__(
        self, manifest: ModelManifest, part: Executable, held: Sequence[torch.Tensor]
    ) -> None:
        positional, named = manifest.structure.children
        (launch,) = manifest.plan.steps
        count = len(manifest.arguments)
        self._part = part
        self._count = len(positional.children)
        self._names = tuple(map(str, named.keys))
        self._all = launch.operands == tuple(range(count))
        self._operands = [(v, None) if v < count else (0, held[v - count]) for v in launch.operands]
        self._results = tuple(launch.results.index(v) for v in manifest.plan.outputs)
        self._whole = self._results == tuple(range(len(launch.results)))
        self._structure = manifest.result_structure

    def __call__(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return the results as the model nests them; None if the launcher declines the call."""
        if len(args) != self._count or len(named) != len(self._names):
            return None
        given: Sequence[Any] = args
        if named:
            try:
                given = [*args, *[named[name] for name in self._names]]
            except KeyError:
                return None
        if not self._all:
            given = [given[v] if x is None else x for v, x in self._operands]
        found = self._part.fast_results(given)
        if found is None:
            return None
        if not self._whole:
            found = tuple([found[i] for i in self._results])
        kind = self._structure.kind
        if kind == "leaf":
            return found[0]
        return found if kind == "tuple" else self._structure.unflatten(iter(found))


def direct(
    manifest: ModelManifest, part: Manifest | None, run: Executable | None, held: Sequence[Any]
) -> Direct | None:
    """Return the direct call of a model whose first part is ``part`` (at its largest size if it has
    one); None if the model is more than that part."""
    if part is None or run is None or not _is_one_part(manifest, part):
        return None
    return Direct(manifest, run, held)


def _is_one_part(m: ModelManifest, part: Manifest) -> bool:
    """Return whether a model takes and returns the tensors of its only part: nothing is written to,
    copied, or viewed in another way."""
    steps, structure = m.plan.steps, m.structure
    if len(steps) != 1 or m.plan.updates or any(isinstance(a, Fixed) for a in m.arguments):
        return False
    (launch,) = steps
    nested = [c for group in structure.children for c in group.children if c.kind != "leaf"]
    result = m.result_structure
    nested += [c for c in result.children if c.kind != "leaf"]
    if nested or not isinstance(launch, Launch) or launch.updates:
        return False
    results = [r for r in m.results if isinstance(r, Result)]
    groups = {r.group for r in results}
    if len(results) < len(m.results) or len(groups) < len(results):
        return False
    if any(v not in launch.results for v in m.plan.outputs):
        return False
    given = [m.memories[v] for v in launch.operands]
    outputs = [part.outputs[launch.results.index(v)] for v in m.plan.outputs]
    return (
        len(given) == len(part.inputs)
        and set(range(len(m.arguments))) <= set(launch.operands)
        and all(map(_alike, given, part.inputs))
        and all(r.memory is None and not r.offset for r in results)
        and all(map(_alike, results, outputs))
    )


def _alike(a: TensorSpec | Result, b: TensorSpec) -> bool:
    return (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
