"""Programs for any size in a range: a table of artifacts, each for sizes up to one of its own.

The compiled launcher takes any size of a class. If it is missing or declines a call, launches are
prepared for a size when it first occurs, with the code that is already loaded.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.runtime.errors import (
    ArgumentCountError,
    ArgumentSizeError,
    ArgumentTypeError,
    UnreadableArtifactError,
)
from mirage.runtime.launching.executable import Executable
from mirage.runtime.launching.launch_tensors import given_tensors
from mirage.runtime.serialization.artifact import (
    MANIFEST,
    Artifact,
    read_artifact,
    read_json,
    write_files,
    writing,
)
from mirage.runtime.serialization.json_reader import opened
from mirage.runtime.serialization.sizes import Classes, Size, at_size, sizes_of

if TYPE_CHECKING:
    import torch

FORMAT = "mirage-sizes"
VERSION = 1
_KEPT = 4096
"""The most sizes whose launches are kept if there is no compiled launcher."""


class SizeTable:
    """Artifacts of one program, each for sizes up to its own largest one, in increasing order;
    together they cover all sizes from ``at_least`` to ``at_most``. Raises
    :class:`UnreadableArtifactError` if they do not fit each other."""

    def __init__(
        self,
        artifacts: Sequence[Artifact],
        at_least: int,
        at_most: int,
        where: str = "a table of sizes",
    ) -> None:
        sizes = [a.manifest.size for a in artifacts]
        known = [s for s in sizes if s is not None]
        self.most = [s.at_most for s in known]
        if not known or len(known) < len(sizes) or self.most != sorted(set(self.most)):
            raise UnreadableArtifactError(
                f"{where}: expected programs for growing sizes, got "
                f"{[None if s is None else s.at_most for s in sizes]}"
            )
        if not 1 <= at_least <= at_most <= self.most[-1]:
            raise UnreadableArtifactError(
                f"{where}: expected sizes within 1 to {self.most[-1]}, got {at_least} to {at_most}"
            )
        if len({_interface(a, s) for a, s in zip(artifacts, known, strict=True)}) > 1:
            raise UnreadableArtifactError(
                f"{where}: expected programs of the same inputs and outputs, got different ones"
            )
        self.artifacts, self.at_least, self.at_most = tuple(artifacts), at_least, at_most

    def at(self, size: int) -> tuple[int, Artifact]:
        """Return the number of the artifact for a size, and the artifact restated for that size.
        Raises :class:`ArgumentSizeError`."""
        if not self.at_least <= size <= self.at_most:
            name = self.artifacts[0].manifest.name
            raise ArgumentSizeError(
                f"expected a size from {self.at_least} to {self.at_most}, which {name!r} was "
                f"compiled for, got {size}; compile it for more, or call it with parts of that"
            )
        number = bisect_left(self.most, size)
        artifact = self.artifacts[number]
        return number, replace(artifact, manifest=at_size(artifact.manifest, size))

    def size_of(self, shapes: Sequence[Sequence[int]]) -> int:
        """Return the size of inputs with these shapes. Raises
        :class:`~mirage.runtime.errors.ArgumentShapeError`."""
        m = self.artifacts[-1].manifest
        if len(shapes) != len(m.inputs):
            names = ", ".join(t.name for t in m.inputs)
            raise ArgumentCountError(
                f"expected {len(m.inputs)} input tensors ({names}), got {len(shapes)}"
            )
        return sizes_of(m, shapes)


def _interface(artifact: Artifact, size: Size) -> object:
    m = artifact.manifest
    one = at_size(m, 1)
    tensors = tuple((t.name, t.shape, t.dtype, t.parameter) for t in (*one.inputs, *one.outputs))
    return tensors, size.inputs, size.outputs


class SizedExecutable:
    """A :class:`SizeTable` as a function of torch tensors; outputs have the size of the inputs.
    ``make`` creates the executable for a size."""

    def __init__(
        self,
        table: SizeTable,
        make: Callable[..., Executable] = Executable,
        *,
        check_indices: bool = False,
    ) -> None:
        """Prepare the classes. With ``check_indices``, calls check their indices as an
        :class:`Executable` does."""
        self.table = table
        self._make = partial(make, check_indices=True) if check_indices else make
        self._checks_indices = check_indices
        self._largest = tuple(map(Executable, table.artifacts))  # has the code
        self._known: dict[int, Executable] = {}
        m = table.artifacts[-1].manifest
        assert m.size is not None
        self._first = m.size.inputs[0]
        self._each = m.inputs[self._first].shape[0] // m.size.value
        self._classes = Classes(
            table.at_least, table.at_most, tuple(table.most), self._first, self._each
        )

    def __repr__(self) -> str:
        table = self.table
        name = table.artifacts[0].manifest.name
        return f"<mirage program {name!r} for sizes from {table.at_least} to {table.at_most}>"

    def executable(self, given: Sequence[torch.Tensor]) -> Executable:
        """Return the executable for inputs like these, for calls that the compiled launcher
        declines. Raises :class:`~mirage.runtime.errors.CallError`."""
        try:
            size, rest = divmod(given[self._first].size(0), self._each)
            found = self._known.get(size)
        except (AttributeError, LookupError, TypeError):
            rest, found = 0, None
        return self._found(given) if found is None or rest else found

    def _fast_results(
        self, given: Sequence[torch.Tensor], out: Sequence[torch.Tensor] | None
    ) -> Any:
        """Return the outputs, computed by the compiled launcher of the class; None if it declines
        the call."""
        number = None if self._checks_indices else self._classes.number(given)
        return None if number is None else self._largest[number].fast_results(given, out)

    def _found(self, given: Sequence[torch.Tensor]) -> Executable:
        shapes = [getattr(x, "shape", None) for x in given]
        for i, shape in enumerate(shapes):
            if shape is None:
                raise ArgumentTypeError(
                    f"input {i}: expected a torch.Tensor, got {type(given[i]).__name__}"
                )
        size = self.table.size_of([tuple(s) for s in shapes if s is not None])
        number, artifact = self.table.at(size)
        if len(self._known) >= _KEPT:
            self._known.clear()
        found = self._known[size] = self._make(artifact, self._largest[number])
        return found

    def __call__(
        self,
        *tensors: torch.Tensor | Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor] | None = None,
        out: Sequence[torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Launch the program and return its outputs; see :class:`Executable`."""
        given = given_tensors(tensors, inputs)
        results = self._fast_results(given, out)
        return self.executable(given)(inputs=given, out=out) if results is None else results


def write_sizes(table: SizeTable, path: str | os.PathLike[str]) -> Path:
    """Write the folder ``path``, with one folder inside for each artifact, and return it. Raises
    :class:`UnreadableArtifactError` if ``path`` is anything other than an artifact, and
    ``OSError``."""
    names = [f"up-to-{most}" for most in table.most]
    with writing(path) as folder:
        for name, artifact in zip(names, table.artifacts, strict=True):
            (folder / name).mkdir()
            write_files(artifact, folder / name)
        data = {
            "format": FORMAT, "version": VERSION, "at_least": table.at_least,
            "at_most": table.at_most, "programs": names,
        }  # fmt: skip
        (folder / MANIFEST).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return Path(path)


def read_sizes(path: str | os.PathLike[str]) -> SizeTable:
    """Read and check a folder that :func:`write_sizes` wrote. Raises
    :class:`~mirage.runtime.errors.ArtifactError`."""
    folder = Path(path)
    where = str(folder / MANIFEST)
    advice = "compile the program again with this version"
    r = opened(read_json(folder), where, VERSION, "a table of sizes of", advice)
    least, most, names = r.integer("at_least"), r.integer("at_most"), r.texts("programs")
    r.finish()
    parts = [read_artifact(folder / r.file(name, "programs")) for name in names]
    return SizeTable(parts, least, most, where)
