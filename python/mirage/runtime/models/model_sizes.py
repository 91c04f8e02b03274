"""Models with a size that is known only at the call; their manifests state the largest size.

Arguments and results have rows in proportion to the size. Plans use
:class:`~mirage.runtime.dispatch.plan.Rows` among the arguments of PyTorch calls, and parts take the
size as single programs do (:mod:`mirage.runtime.serialization.sizes`). Each class of sizes has a
plan and parts of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.runtime.dispatch.plan import Plan, plan_at
from mirage.runtime.errors import ArgumentSizeError, UnreadableArtifactError
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.sizes import at_size

if TYPE_CHECKING:
    from mirage.runtime.models.model_artifact import ModelArtifact
    from mirage.runtime.models.model_manifest import Given, PartFolder, Result


Shape: TypeAlias = "tuple[int, ...] | None"
"""The shape of an argument or result; None if it is not a tensor."""


@dataclass(frozen=True)
class ModelProgram:
    """The plan and parts for sizes up to ``at_most`` that no earlier program covers."""

    at_most: int
    parts: tuple[PartFolder, ...]
    plan: Plan


@dataclass(frozen=True)
class ModelSize:
    """A size from ``at_least`` to ``at_most``, with the ``name`` of its declaration.

    The manifest is stated for ``stated``, the largest size of the last class; ``smaller`` are the
    programs of the other classes. ``arguments`` and ``results`` are the numbers of those that have
    rows."""

    name: str
    at_least: int
    at_most: int
    stated: int
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    smaller: tuple[ModelProgram, ...]

    def check(self, arguments: Sequence[Shape], results: Sequence[Shape], where: str) -> None:
        """Raise :class:`UnreadableArtifactError` if a manifest with arguments and results of these
        shapes is not consistent with this size."""

        def need(fine: bool, what: str, got: object) -> None:
            if not fine:
                raise UnreadableArtifactError(f"{where}: size: expected {what}, got {got}")

        bounds = [p.at_most for p in self.smaller]
        fine = 1 <= self.at_least <= self.at_most <= self.stated
        need(fine, f"sizes within 1 to {self.stated}", f"{self.at_least} to {self.at_most}")
        order = [0, *bounds, self.stated]
        need(order == sorted(set(order)), "classes that grow", bounds)
        shapes: list[Shape] = []
        for numbers, values in ((self.arguments, arguments), (self.results, results)):
            for i in numbers:
                need(i < len(values), f"one of {len(values)} values", i)
                shapes.append(values[i])
        need(bool(self.arguments), "an argument that has rows", "none")
        for shape in shapes:
            rows = bool(shape) and shape[0] > 0 and shape[0] % self.stated == 0
            need(rows, f"a tensor with a multiple of {self.stated} rows", shape)


def model_at(artifact: ModelArtifact, size: int) -> ModelArtifact:
    """Return the model for one size. Raises :class:`ArgumentSizeError` for sizes that it does not
    support."""
    m = artifact.manifest
    known = m.size
    assert known is not None
    if not known.at_least <= size <= known.at_most:
        raise ArgumentSizeError(
            f"expected a size ({known.name}) from {known.at_least} to {known.at_most}, for which "
            f"model {m.name!r} was exported, got {size}; export it for more, or call it with parts "
            "of that"
        )
    number = bisect_left([p.at_most for p in known.smaller], size)
    return _stated(artifact, known, number, size)


def class_at(artifact: ModelArtifact, number: int) -> ModelArtifact:
    """Return the model for the largest size of a class, even if the model does not support that
    size itself."""
    known = artifact.manifest.size
    assert known is not None
    most = (*(p.at_most for p in known.smaller), known.stated)
    return _stated(artifact, known, number, most[number])


def _stated(artifact: ModelArtifact, known: ModelSize, number: int, size: int) -> ModelArtifact:
    m = artifact.manifest
    program = known.smaller[number] if number < len(known.smaller) else None
    plan, parts = (m.plan, m.parts) if program is None else (program.plan, program.parts)
    arguments: list[Any] = list(m.arguments)
    results: list[Any] = list(m.results)
    for i in known.arguments:
        arguments[i] = _argument_at(arguments[i], known.stated, size)
    for i in known.results:
        results[i] = _result_at(results[i], known.stated, size)
    manifest = replace(
        m, plan=plan_at(plan, size), parts=parts, size=None,
        arguments=tuple(arguments), results=tuple(results),
        bounds=tuple(replace(b, below=b.below - b.each * (known.stated - size)) for b in m.bounds),
    )  # fmt: skip
    folders = {p.folder for p in parts}
    own = {name: _part_at(a, size) for name, a in artifact.parts.items() if name in folders}
    return replace(artifact, manifest=manifest, parts=own)


def _part_at(artifact: Artifact, size: int) -> Artifact:
    if artifact.manifest.size is None:
        return artifact
    return replace(artifact, manifest=at_size(artifact.manifest, size))


def _argument_at(argument: Given, stated: int, size: int) -> Given:
    spec = argument.spec
    shape = (spec.shape[0] // stated * size, *spec.shape[1:])
    return replace(argument, spec=replace(spec, shape=shape))


def _result_at(result: Result, stated: int, size: int) -> Result:
    shape = (result.shape[0] // stated * size, *result.shape[1:])
    return replace(result, shape=shape, bytes=result.bytes // stated * size)
