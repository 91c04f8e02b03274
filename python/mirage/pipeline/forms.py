"""The forms that a program goes through, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.frontend.program import Program
from mirage.mlir_io.data import InputNote
from mirage.semantics.ugraph import KernelGraph


class Forms(Mapping[str, str]):
    """MLIR of each stage's result; written when it is asked for, as few people read it."""

    def __init__(
        self, program: Program, graphs: Mapping[str, tuple[str, KernelGraph]] = {}
    ) -> None:
        self._program = program
        self._graphs = dict(graphs)
        self._texts: dict[str, str] = {}

    def add(self, stage: str, graph: KernelGraph, form: str | None = None) -> None:
        """What ``stage`` makes; ``form`` (that of the IR) has the stage's name unless given."""
        self._graphs[stage] = (form or stage, graph)
        self._texts.pop(stage, None)

    def having(self, stage: str, graph: KernelGraph) -> Forms:
        """The same with another result of a stage."""
        other = Forms(self._program, self._graphs)
        other.add(stage, graph)
        return other

    def __getitem__(self, stage: str) -> str:
        from mirage.mlir_io import graph_to_text

        if stage not in self._texts:
            form, graph = self._graphs[stage]
            notes = {p.index: InputNote(p.name) for p in self._program.parameters}
            self._texts[stage] = graph_to_text(
                graph, form=form, locations=self._program.locations, notes=notes
            )
        return self._texts[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._graphs)

    def __len__(self) -> int:
        return len(self._graphs)
