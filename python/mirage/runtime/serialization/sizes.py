"""Programs for any size up to a largest one: a batch, a number of tokens.

Their manifests state the largest size. Kernels take the size as a parameter and access only
existing rows. So for another size, :func:`at_size` changes the numbers of rows in the manifest, of
blocks in its grids, and of rows in its tensor maps; the code is the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from mirage.runtime.errors import (
    ArgumentShapeError,
    ArgumentSizeError,
    UnreadableArtifactError,
)

if TYPE_CHECKING:
    from mirage.runtime.serialization.json_reader import Json, Reader
    from mirage.runtime.serialization.manifest import (
        Argument,
        KernelLaunch,
        Manifest,
        TensorSpec,
        WorkspaceBuffer,
    )

    Tensor = TypeVar("Tensor", TensorSpec, WorkspaceBuffer)


@dataclass(frozen=True)
class Size:
    """A size that is known only at the call.

    ``value``, from 1 to ``at_most``, is the size that a manifest is stated for. ``inputs``,
    ``outputs`` and ``workspace`` are the numbers of the tensors whose rows (indices of the
    outermost dimension) are in proportion to it.
    """

    value: int
    at_most: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    workspace: tuple[int, ...] = ()

    def varies(self, kind: str, index: int) -> bool:
        """Return whether the rows of a tensor are in proportion to the size."""
        numbers = {"input": self.inputs, "output": self.outputs, "workspace": self.workspace}
        return index in numbers.get(kind, ())

    def to_json(self) -> Json:
        """Return the size as JSON data, for a manifest that is stated for the largest size."""
        assert self.value == self.at_most
        return {
            "at_most": self.at_most,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "workspace": list(self.workspace),
        }

    def check(self, m: Manifest, where: str) -> None:
        """Raise :class:`UnreadableArtifactError` if the tensors of a manifest for the largest size
        are not consistent with it, or if kernels that access them do not take it."""

        def need(fine: bool, path: str, wanted: str, got: object) -> None:
            if not fine:
                raise UnreadableArtifactError(f"{where}: {path}: expected {wanted}, got {got}")

        most = self.at_most
        need(most >= 1, "size.at_most", "a positive integer", most)
        groups = (
            ("inputs", self.inputs, m.inputs),
            ("outputs", self.outputs, m.outputs),
            ("workspace", self.workspace, m.workspace),
        )
        for kind, numbers, tensors in groups:
            for i in numbers:
                need(i < len(tensors), f"size.{kind}", f"one of {len(tensors)} tensors", i)
                shape = tensors[i].shape
                need(
                    bool(shape) and shape[0] > 0 and shape[0] % most == 0,
                    f"{kind}[{i}].shape", f"a multiple of {most} rows", list(shape),
                )  # fmt: skip
        for number, kernel in enumerate(m.kernels):
            at = f"kernels[{number}]"
            if kernel.rows is not None:
                parts = _parts(kernel.rows, most)
                need(kernel.grid[0] % parts == 0, f"{at}.grid", f"{parts} equal parts", kernel.grid)
            varying = [a for a in kernel.arguments if self.varies(a.kind, a.index)]
            knows = sum(a.kind == "size" for a in kernel.arguments)
            need(knows == bool(varying), f"{at}.arguments", "the size once where rows vary", knows)
            for a in varying:
                rows = most if a.map is None else a.map.shape[0]
                need(
                    rows % most == 0, f"{at}.arguments", f"maps of a multiple of {most} rows", rows
                )


@dataclass(frozen=True)
class Classes:
    """The classes of sizes, to find the class of a call: ``most`` are their largest sizes. The
    tensor ``first`` has ``each`` rows for each unit of the size."""

    at_least: int
    at_most: int
    most: tuple[int, ...]
    first: int
    each: int

    def number(self, given: Sequence[Any]) -> int | None:
        """Return the number of the class for a call; None if it cannot be determined, or if there
        is none."""
        try:
            size, rest = divmod(given[self.first].size(0), self.each)
        except (AttributeError, LookupError, TypeError):
            return None
        if rest or not self.at_least <= size <= self.at_most:
            return None
        return bisect_left(self.most, size)


def read_size(r: Reader) -> Size | None:
    """Read the size of a manifest."""
    if r.data.get("size") is None:
        r.take("size", "an object or null")
        return None
    from mirage.runtime.serialization.json_reader import Reader

    inner = Reader(r.mapping("size"), r.where, "size")
    most = inner.integer("at_most")
    size = Size(
        most, most, inner.integers("inputs"), inner.integers("outputs"), inner.integers("workspace")
    )
    inner.finish()
    return size


def at_size(m: Manifest, value: int) -> Manifest:
    """Convert a manifest that is stated for the largest size to another size.

    Raises :class:`ArgumentSizeError` for sizes that it has no kernels for.
    """
    size = m.size
    if size is None or size.value != size.at_most:
        raise ValueError("expected the manifest of a program for any size, at its largest one")
    if not 1 <= value <= size.at_most:
        raise ArgumentSizeError(
            f"expected a size from 1 to {size.at_most}, which {m.name!r} was compiled for, got "
            f"{value}"
        )
    return replace(
        m,
        inputs=_scaled(m.inputs, size.inputs, size, value),
        outputs=_scaled(m.outputs, size.outputs, size, value),
        workspace=_scaled(m.workspace, size.workspace, size, value),
        kernels=tuple(_kernel_at(k, size, value) for k in m.kernels),
        size=replace(size, value=value),
        bounds=tuple(replace(b, below=b.below - b.each * (size.at_most - value)) for b in m.bounds),
    )


def _scaled(
    tensors: Sequence[Tensor], numbers: Sequence[int], size: Size, value: int
) -> tuple[Tensor, ...]:
    return tuple(
        replace(t, shape=_rows_at(t.shape, size, value)) if i in numbers else t
        for i, t in enumerate(tensors)
    )


def _rows_at(shape: tuple[int, ...], size: Size, value: int) -> tuple[int, ...]:
    return (shape[0] // size.at_most * value, *shape[1:])


def _kernel_at(kernel: KernelLaunch, size: Size, value: int) -> KernelLaunch:
    grid = kernel.grid
    if kernel.rows is not None:
        most = _parts(kernel.rows, size.at_most)
        grid = (grid[0] // most * _parts(kernel.rows, value), *grid[1:])
    arguments = tuple(_argument_at(a, size, value) for a in kernel.arguments)
    return replace(kernel, grid=grid, arguments=arguments)


def _parts(rows: tuple[int, int], value: int) -> int:
    """Return the number of parts of the grid that have rows at a size."""
    return -(-value * rows[0] // rows[1])


def _argument_at(argument: Argument, size: Size, value: int) -> Argument:
    if argument.map is None or not size.varies(argument.kind, argument.index):
        return argument
    shape = _rows_at(argument.map.shape, size, value)
    return replace(argument, map=replace(argument.map, shape=shape))


def sizes_of(m: Manifest, shapes: Sequence[Sequence[int]]) -> int:
    """Return the size of inputs with these shapes. Raises :class:`ArgumentShapeError` if they do
    not determine one."""
    assert m.size is not None
    stated = {i: (m.inputs[i].name, m.inputs[i].shape) for i in m.size.inputs}
    return common_size(stated, m.size.value, shapes)


def common_size(
    stated: Mapping[int, tuple[str, Sequence[int]]], value: int, shapes: Sequence[Sequence[int]]
) -> int:
    """Return the size of inputs with these shapes. ``stated`` are the names and shapes, at size
    ``value``, of the inputs that have rows, by number. Raises :class:`ArgumentShapeError` if they
    do not all have the same size."""
    found: dict[int, int] = {}
    for i, (name, known) in stated.items():
        shape, inner = tuple(shapes[i]), tuple(known[1:])
        each = known[0] // value
        if len(shape) != len(known) or shape[1:] != inner or shape[0] % each:
            rows = "n" if each == 1 else f"{each} * n"
            others = "".join(f", {n}" for n in inner)
            raise ArgumentShapeError(
                f"input {i} ({name}): expected shape ({rows}{others}), got {shape}"
            )
        found[i] = shape[0] // each
    if len(set(found.values())) != 1:
        told = ", ".join(f"{n} of {stated[i][0]}" for i, n in found.items())
        raise ArgumentShapeError(f"expected inputs of one size, got {told}")
    return next(iter(found.values()))
