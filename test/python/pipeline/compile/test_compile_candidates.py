"""Candidates are compiled within the available time, and nothing is compiled twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from example_programs.built import linear
from mirage import from_torch
from mirage.compiler import Compiled
from mirage.compiler.errors import CompileError
from mirage.mlir_io import graph_from_text
from mirage.pipeline import deadline as deadline_module
from mirage.pipeline.compile import compile_candidates
from mirage.pipeline.compile.broken import key_of
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.compile.compile_candidates import CandidateCompiler
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.progress import Progress
from mirage.pipeline.result import Finalist
from mirage.pipeline.select import ranking, select_cheapest
from mirage.semantics.alternatives import parts_of
from mirage.semantics.ugraph import KernelGraph, launches
from thorough import some_of

OPTIONS = OptimizeOptions(
    chip="sm_90a", verify_seed=0, jobs=1, use_cache=False, budget=20.0, candidates=6
)


@pytest.fixture(scope="module")
def verified() -> KernelGraph:
    """A program with several verified candidates."""
    found = optimize(linear(512, 256), replace(OPTIONS, compile=False))
    graph = graph_from_text(found.mlir["verified"]).graph
    assert len(parts_of(graph)[0].programs) > 4
    return graph


@dataclass
class Slow:
    """A compiler that takes ``seconds`` of a clock that nothing else advances. Candidates with one
    of the kernels ``wrong`` do not compile; the compiler says which if it ``names`` them."""

    seconds: float
    wrong: set[str] = field(default_factory=set[str])
    names: bool = True
    now: float = 1000.0
    texts: list[str] = field(default_factory=list[str])

    def compiles(self, text: str, *_: Any) -> Compiled:
        self.texts.append(text)
        self.now += self.seconds
        kernels = list(launches(graph_from_text(text).graph.ops))
        numbers = tuple(n for n, k in enumerate(kernels) if key_of(k) in self.wrong)
        if numbers:
            raise CompileError("no registers", numbers if self.names else ())
        return SimpleNamespace(spilled_bytes=0)  # pyright: ignore[reportReturnType]


def compiler(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> CandidateCompiler:
    clock = SimpleNamespace(time=lambda: slow.now, perf_counter=lambda: slow.now)
    monkeypatch.setattr(deadline_module, "time", clock)
    monkeypatch.setattr(compile_candidates, "time", clock)
    monkeypatch.setattr(Builder, "_made", lambda self, text, names, alone: slow.compiles(text))
    monkeypatch.setattr(Builder, "_told", lambda self, part, compiled, text: compiled)
    monkeypatch.setattr("mirage.pipeline.rank.finalist", _finalist)
    progress = Progress(OPTIONS, Deadline(OPTIONS.budget))
    return CandidateCompiler(linear(512, 256).program(), OPTIONS, progress)


def _finalist(selected: KernelGraph, place: int, *_: object) -> Finalist:
    return Finalist(selected, (), place, None, 0)


def all_kernels(verified: KernelGraph) -> set[str]:
    (part,) = parts_of(verified)
    return {key_of(k) for program in part.programs[1:] for k in launches(program.ops)}


@pytest.mark.parametrize("seconds", some_of([0.5, 3.0, 7.0], every=2))
@pytest.mark.parametrize("names", [True, False])
def test_the_time_is_kept_when_nothing_compiles(
    verified: KernelGraph, seconds: float, names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the candidates nor the halves of those that do not compile take more than the
    available time."""
    slow = Slow(seconds, all_kernels(verified), names)
    tried = compiler(slow, monkeypatch)
    end = slow.now + OPTIONS.budget
    assert not tried.finalists(verified)
    broken = tried.take_broken_kernels(verified)
    assert slow.now <= end
    assert slow.texts
    if names:
        assert broken


def test_a_kernel_that_does_not_compile_is_tried_once(
    verified: KernelGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the compiler names a kernel that several candidates share, this is known for the others;
    knowledge about a candidate is kept when another one is compiled."""
    slow = Slow(0.1)
    tried = compiler(slow, monkeypatch)
    (part,) = parts_of(verified)
    places = range(len(ranking(part, tried.target)))
    keys = [
        {key_of(k) for k in launches(select_cheapest(verified, tried.target, place)[0].ops)}
        for place in places
    ]
    slow.wrong = set(keys[0])
    expected = [place for place in places if place == 0 or keys[place].isdisjoint(keys[0])]
    tried.options = replace(OPTIONS, finalists=len(keys) + 1)
    found = tried.finalists(verified)
    assert [f.place for f in found] == expected[1:]
    assert len(slow.texts) == len(expected)
    assert len(set(slow.texts)) == len(slow.texts)


@pytest.mark.parametrize("wrong", [True, False])
def test_nothing_is_compiled_twice(
    verified: KernelGraph, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it compiles or not, the result is available when it is requested again."""
    slow = Slow(0.1, all_kernels(verified) if wrong else set(), names=False)
    tried = compiler(slow, monkeypatch)
    for _ in range(2):
        assert bool(tried.finalists(verified)) != wrong
        tried.take_broken_kernels(verified)
    assert len(set(slow.texts)) == len(slow.texts)


def test_halves_are_not_looked_at_without_time(
    verified: KernelGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(9.0, all_kernels(verified), names=False)
    tried = compiler(slow, monkeypatch)
    tried.finalists(verified)
    before = len(slow.texts)
    assert tried.take_broken_kernels(verified) == {}
    assert len(slow.texts) == before == 1


def test_kernels_beside_those_of_parts_are_not_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes rows that are looked up comes before those of the part that also reads
    them."""
    table, ids, w = torch.rand(32, 64), torch.arange(16), torch.rand(64, 48)
    graph = from_torch(lambda x, i, w: (x[i], x[i] @ w), table, ids, w)
    verified = graph_from_text(optimize(graph, replace(OPTIONS, compile=False)).mlir["verified"])
    slow = Slow(0.1)
    tried = compiler(slow, monkeypatch)
    selected, _ = select_cheapest(verified.graph, tried.target)
    kernels = list(launches(selected.ops))
    parts = {id(p): list(launches(p.ops)) for op in parts_of(verified.graph) for p in op.programs}
    assert len(kernels) > 1
    slow.wrong = set(map(key_of, kernels))
    tried.options = replace(OPTIONS, finalists=1)
    assert not tried.finalists(verified.graph)
    broken = tried.take_broken_kernels(verified.graph)
    assert broken
    for program, found in broken.items():
        assert all(any(k is kernel for kernel in parts[program]) for k in found)
