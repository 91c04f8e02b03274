"""The forms that a program goes through, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from mirage.frontend.program import Program
from mirage.mlir_io.data import InputNote
from mirage.semantics.ugraph import KernelGraph

Graphs: TypeAlias = "Mapping[str, tuple[str, KernelGraph]]"
"""For each stage, the name of the IR form and the resulting graph."""
_Made: TypeAlias = "KernelGraph | Callable[[], KernelGraph]"

NONE: Graphs = MappingProxyType({})

STAGES = ("reference", "candidates", "stabilized", "verified", "selected")


class Forms(Mapping[str, str]):
    """The MLIR of each stage's result, written on demand, since it is rarely read. If the result of
    an earlier run was taken, ``again`` makes the forms that were not kept."""

    def __init__(
        self, program: Program, graphs: Graphs = NONE, again: Callable[[], Graphs] | None = None
    ) -> None:
        self._program = program
        self._graphs: dict[str, tuple[str, _Made]] = dict(graphs)
        self._again = again
        self._texts: dict[str, str] = {}

    @property
    def graphs(self) -> Graphs:
        """The graphs that the texts are written from."""
        return {stage: self._graph(stage) for stage in self._graphs}

    def _graph(self, stage: str) -> tuple[str, KernelGraph]:
        form, graph = self._graphs[stage]
        if not isinstance(graph, KernelGraph):
            graph = graph()
            self._graphs[stage] = form, graph
        return form, graph

    def add(self, stage: str, graph: _Made, form: str | None = None) -> None:
        """Add the result of ``stage``, or a function that returns it; the ``form`` of the IR is
        named like the stage unless given."""
        self._graphs[stage] = (form or stage, graph)
        self._texts.pop(stage, None)

    def having(self, stage: str, graph: KernelGraph) -> Forms:
        """Return a copy with another result of a stage."""
        other = Forms(self._program, NONE, self._again)
        other._graphs = dict(self._graphs)
        other.add(stage, graph)
        return other

    def __getitem__(self, stage: str) -> str:
        from mirage.mlir_io import graph_to_text

        if stage not in self._graphs and stage in STAGES and self._again is not None:
            again, self._again = self._again, None
            self._graphs = {**again(), **self._graphs}
        if stage not in self._texts:
            form, graph = self._graph(stage)
            notes = {p.index: InputNote(p.name) for p in self._program.parameters}
            self._texts[stage] = graph_to_text(
                graph, form=form, locations=self._program.locations, notes=notes
            )
        return self._texts[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(STAGES if self._again is not None else self._graphs)

    def __len__(self) -> int:
        return len(STAGES if self._again is not None else self._graphs)
