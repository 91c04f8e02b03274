"""The results of an earlier run are used only if they are complete, belong to this program and
these options, and had enough time.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from example_programs.built import linear
from mirage.cache import shared_store
from mirage.cache.entry_file import packed, unpacked
from mirage.compiler import CompileError
from mirage.pipeline.commands import compile_process
from mirage.pipeline.compile.build import Builder as KernelBuilder
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.kept_program import is_kept, keep_measured
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import Matters, OptimizeOptions
from mirage.pipeline.parts import part as part_module
from mirage.pipeline.parts.part_candidates import PartCandidates
from mirage.pipeline.result import Measurement
from mirage.search import StopReason
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from thorough import some_of

OPTIONS = OptimizeOptions(
    chip="sm_90a", candidates=2, finalists=2, verify_seed=1, jobs=1, cubin=False, budget=600.0
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the programs that are searched and verified."""
    done: list[str] = []
    for name in ("search_part", "verify_candidates"):
        real = getattr(part_module, name)

        def counted(*given: Any, _real: Any = real, _name: str = name) -> Any:
            done.append(_name)
            return _real(*given)

        monkeypatch.setattr(part_module, name, counted)
    return done


def chain(layers: int, name: str = "x") -> KernelGraph:
    """Equal layers with a call of PyTorch between them."""
    b = Builder()
    x = y = Value(TensorType((16, 64), DType.F16), name)
    inputs = [x]
    for number in range(layers):
        inputs.append(Value(TensorType((64, 64), DType.F16), f"{name}_w{number}"))
        z = b.unary(UnaryFn.SILU, b.matmul(b.rms_norm(y), inputs[-1]))
        y = Value(z.type)
        b.ops.append(External((z,), (y,), "aten.cumsum.default", (("dtype", None), ("dim", 0))))
    return KernelGraph("chain", tuple(inputs), tuple(b.ops), (y,))


def entries(kind: str) -> dict[str, dict[str, Any]]:
    return {
        e.key: json.loads(shared_store().get(kind, e.key) or b"")
        for e in shared_store().entries()
        if e.kind == kind
    }


def test_a_second_run_does_nothing_twice(searches: list[str]) -> None:
    first = optimize(linear().program(), OPTIONS)
    assert searches
    searches.clear()
    shared_store().memory.clear()
    second = optimize(linear().program(), OPTIONS)
    assert not searches
    assert signature(second.graph) == signature(first.graph)
    assert second.artifact.manifest == first.artifact.manifest
    assert second.artifact.files == first.artifact.files
    assert all(s.compiled.from_cache for s in second.steps if s.compiled is not None)
    assert second.verdicts == tuple(c for c in first.verdicts)
    assert second.report.prediction == first.report.prediction
    assert second.report.notes[-1].startswith("found before")
    one, two = (r.report.to_json() for r in (first, second))
    same = ("search", "candidates", "verdicts", "prediction")
    assert {k: one[k] for k in same} == json.loads(json.dumps({k: two[k] for k in same}))
    assert len(second.finalists) == len(first.finalists)
    for mine, theirs in zip(second.finalists, first.finalists, strict=True):
        assert signature(mine.graph) == signature(theirs.graph)
        assert (mine.place, mine.predicted) == (theirs.place, theirs.predicted)
        assert mine.verdicts == theirs.verdicts


def test_forms_that_are_not_kept_are_made_again(searches: list[str]) -> None:
    first = optimize(linear().program(), OPTIONS)
    second = optimize(linear().program(), OPTIONS)
    searches.clear()
    assert list(second.mlir) == list(first.mlir)
    assert "kernel.alternatives" in second.mlir["verified"]
    assert second.mlir["selected"] == first.mlir["selected"]
    assert second.mlir["reference"] == first.mlir["reference"]
    assert not searches  # the result for the part is kept


def test_names_do_not_matter_and_equal_parts_of_other_programs_do(searches: list[str]) -> None:
    optimize(chain(1), OPTIONS)
    searches.clear()
    found = optimize(chain(3, "other"), OPTIONS)
    assert not searches
    assert len([s for s in found.steps if s.compiled is not None]) >= 3
    assert [v.name for v in found.graph.inputs] == ["other", *(f"other_w{i}" for i in range(3))]


def test_each_part_has_an_entry_of_its_own(searches: list[str]) -> None:
    optimize(chain(3), OPTIONS)
    assert searches.count("search_part") == 1
    assert len(entries("search")) == len(entries("program")) == 1


@pytest.mark.parametrize(
    ("change", "again"),
    some_of(
        [
            ({"seed": 1}, True),
            ({"draws": 3}, True),
            ({"verify_seed": 2}, True),
            ({"numerics": False}, True),
            ({"candidates": 3}, True),
            ({"finalists": 1}, True),
            ({"chip": "sm_80"}, True),
            ({"bounds": {"plans": 7}}, True),
            ({"use_cache": False}, True),
            ({"fresh": True}, True),
            ({"bounds": {"plans": 100}}, False),  # the default
            ({"jobs": 2}, False),
            ({"budget": 5.0}, False),
            ({"chip": "h200"}, False),
            ({"check_kernels": False}, False),
            ({"compile": True}, False),
            ({"watch": print}, False),
        ],
        6,
    ),
)
def test_options_that_matter(searches: list[str], change: dict[str, Any], again: bool) -> None:
    few = replace(OPTIONS, candidates=1, compile=False)
    optimize(linear(128, 64).program(), few)
    searches.clear()
    optimize(linear(128, 64).program(), replace(few, **change))
    assert bool(searches) == again


def test_every_option_says_what_it_matters_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in fields(OptimizeOptions):
        assert isinstance(option.metadata.get("matters"), Matters), option.name
    every = OPTIONS.identity(*Matters)
    assert set(every) == {f.name for f in fields(OptimizeOptions)}

    from dataclasses import dataclass

    @dataclass(frozen=True)
    class More(OptimizeOptions):
        forgotten: int = 0

    with pytest.raises(TypeError, match="'forgotten' to say what it matters for"):
        More().identity(Matters.SEARCH)


def test_a_program_without_candidates_is_not_searched_again(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartCandidates, "why_none", lambda self: "nothing is good enough")
    monkeypatch.setattr(part_module, "ROUNDS", 0)
    first = optimize(linear(128, 64).program(), OPTIONS)
    assert "nothing is good enough" in " ".join(first.report.notes)
    searches.clear()
    second = optimize(linear(128, 64).program(), OPTIONS)
    assert not searches
    assert "nothing is good enough" in " ".join(second.report.notes)
    assert signature(second.graph) == signature(first.graph)


# ---- time


def out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    real = part_module.search_part

    def late(*given: Any) -> Any:
        planner, result = real(*given)
        result.report.stop = StopReason.BUDGET
        return planner, result

    monkeypatch.setattr(part_module, "search_part", late)


def test_what_ran_out_of_time_is_searched_again_with_more(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = linear(128, 64).program()
    with monkeypatch.context() as m:
        out_of_time(m)
        optimize(program, replace(OPTIONS, budget=100.0))
    assert [e["late"] for e in (*entries("search").values(), *entries("program").values())] == [
        True, True,
    ]  # fmt: skip
    for budget in (100.0, 50.0):
        searches.clear()
        found = optimize(program, replace(OPTIONS, budget=budget))
        assert not searches
        assert "a budget of 100 s that ran out" in found.report.notes[-1]
    found = optimize(program, replace(OPTIONS, budget=200.0))
    assert searches
    assert "ran out" not in " ".join(found.report.notes)
    searches.clear()
    for budget in (1.0, 900.0):
        optimize(program, replace(OPTIONS, budget=budget))
    assert not searches  # there are no others


def test_what_ran_out_of_processors_is_searched_again(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets are seconds of work: an entry says how many there were, and another run of the same
    budget, for which there are processors, makes use of them."""
    program, options = linear(128, 64).program(), replace(OPTIONS, budget=100.0)
    with monkeypatch.context() as m:
        out_of_time(m)
        m.setattr(Deadline, "worked", 0.5)
        optimize(program, options)
        kept = (*entries("search").values(), *entries("program").values())
        assert [e["budget"] for e in kept] == [pytest.approx(50.0)] * 2
        searches.clear()
        optimize(program, replace(options, budget=40.0))
        assert not searches
        m.setattr(Deadline, "worked", 0.25)
        optimize(program, options)
        assert searches
        searches.clear()
        optimize(program, options)  # there may never be more of the processors
        assert not searches
        kept = (*entries("search").values(), *entries("program").values())
        assert [(e["late"], e["budget"]) for e in kept] == [(True, 100.0)] * 2


def test_what_had_processors_is_complete_afterwards(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, options = linear(128, 64).program(), replace(OPTIONS, budget=100.0)
    with monkeypatch.context() as m:
        out_of_time(m)
        m.setattr(Deadline, "worked", 0.5)
        optimize(program, options)
    found = optimize(program, options)
    assert "ran out" not in " ".join(found.report.notes)
    searches.clear()
    optimize(program, replace(options, budget=900.0))
    assert not searches


def test_what_is_complete_is_not_replaced_by_what_is_not(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = linear(128, 64).program()
    optimize(program, OPTIONS)
    with monkeypatch.context() as m:
        out_of_time(m)
        optimize(program, replace(OPTIONS, budget=1000.0, fresh=True))
    assert [e["late"] for e in entries("search").values()] == [False]


def test_what_the_user_has_interrupted_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(part_module, "search_part", interrupted)
    optimize(linear(128, 64).program(), OPTIONS)
    assert not entries("search")
    assert not entries("program")


# ---- damage


def changed(kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the entries of a kind; their hashes stay valid."""
    store = shared_store()
    for entry in list(store.entries(headers=True)):
        if entry.kind == kind and entry.header is not None:
            data = json.loads(unpacked(entry.path.read_bytes())[1])
            change(data)
            entry.path.write_bytes(packed(entry.header, json.dumps(data).encode()))


def graphs_in(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [c["graph"] for c in data.get("candidates", data.get("finalists"))]


def with_text(change: Callable[[str], str]) -> Callable[[dict[str, Any]], None]:
    def apply(data: dict[str, Any]) -> None:
        for graph in graphs_in(data):
            graph["text"] = change(graph["text"])

    return apply


DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "another program": lambda d: d.update(reference="%0:1x1xf16"),
    "a field more": lambda d: d.update(more=1),
    "a field less": lambda d: d.pop("late"),
    "of another type": lambda d: d.update(budget="much"),
    "no IR": with_text(lambda text: "module {}"),
    "broken IR": with_text(lambda text: text[:-20]),
    "IR that the verifier refuses": with_text(lambda text: text.replace("dims [1]", "dims [7]")),
    "other types": with_text(lambda text: text.replace("f16", "bf16")),
    "names of another graph": lambda d: [g["names"].append("x") for g in graphs_in(d)].clear(),
}


@pytest.mark.parametrize("name", some_of(DAMAGE, 4))
def test_what_is_not_as_it_should_be_is_made_again(
    searches: list[str], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    few = replace(OPTIONS, candidates=1, compile=False)
    program = linear(128, 64).program()
    first = optimize(program, few)
    for kind in ("search", "program"):
        changed(kind, DAMAGE[name])
    searches.clear()
    second = optimize(program, few)
    assert searches
    assert signature(second.graph) == signature(first.graph)
    assert 1 <= caplog.text.count("is damaged") <= 2
    searches.clear()
    optimize(program, few)
    assert not searches


def test_a_graph_with_a_broken_rule_is_refused(searches: list[str]) -> None:
    """A loop of fewer steps than its maps need: the types are correct, but a rule of µGraphs is
    violated."""
    few = replace(OPTIONS, candidates=1, compile=False)
    program = linear(4096, 64).program()
    optimize(program, few)

    def fewer(text: str) -> str:
        import re

        return re.sub(r"grid \[(\w+) = \d+\]", r"grid [\1 = 1]", text)

    before = [g["text"] for e in entries("program").values() for g in graphs_in(e)]
    for kind in ("search", "program"):
        changed(kind, with_text(fewer))
    after = [g["text"] for e in entries("program").values() for g in graphs_in(e)]
    assert before != after
    searches.clear()
    optimize(program, few)
    assert searches


def test_truncated_files(searches: list[str], folder: Path) -> None:
    program = linear(128, 64).program()
    optimize(program, OPTIONS)
    for entry in shared_store().entries():
        entry.path.write_bytes(entry.path.read_bytes()[:-7])
    searches.clear()
    optimize(program, OPTIONS)
    assert searches


def test_what_does_not_compile_any_more_is_searched_again(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part's candidates from a run that did not compile them."""
    program = linear(128, 64).program()
    optimize(program, replace(OPTIONS, compile=False))
    searches.clear()
    broken: list[KernelGraph] = []
    real = KernelBuilder.steps

    def steps(self: KernelBuilder, selected: KernelGraph) -> Any:
        if not searches:
            broken.append(selected)
            raise CompileError("no registers left")
        return real(self, selected)

    monkeypatch.setattr(KernelBuilder, "steps", steps)
    found = optimize(program, OPTIONS)
    assert broken
    assert searches
    assert found.artifacts


# ---- if nothing can be kept


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        found = optimize(linear(128, 64).program(), OPTIONS)
    assert found.artifacts
    assert len([r for r in caplog.records if r.name == "mirage.cache"]) <= 2


START = """
import sys
from example_programs.built import linear
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
found = optimize(linear(128, 64).program(), OptimizeOptions(
    chip="sm_90a", candidates=1, finalists=1, verify_seed=1, jobs=1, cubin=False))
print(found.artifact.manifest.modules[0].ptx_sha256)
"""


def test_two_processes_that_start_at_once(tmp_path: Path) -> None:
    path = os.pathsep.join(sys.path)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", START], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": path},
        )
        for _ in range(2)
    ]  # fmt: skip
    done = [process.communicate(timeout=300) for process in running]
    assert [p.returncode for p in running] == [0, 0], done
    assert done[0][0] == done[1][0]
    assert done[0][1] == done[1][1] == ""
    assert len(entries("program")) == 1


# ---- measurements, and other processes


def test_what_was_measured_is_kept(searches: list[str]) -> None:
    program = linear().program()
    first = optimize(program, OPTIONS)
    assert len(first.finalists) == 2
    best = first.with_finalist(1)
    times = tuple((f.place, 2.0 - i) for i, f in enumerate(first.finalists))
    keep_measured(best, Measurement("NVIDIA H200", times))
    second = optimize(program, OPTIONS)
    assert second.finalists[0].place == first.finalists[1].place
    assert "measured on NVIDIA H200" in second.report.notes[-1]
    assert second.report.measured == Measurement("NVIDIA H200", times)
    assert len(second.finalists) == 2
    third = optimize(program, OPTIONS)
    assert sum(n.startswith("found before") for n in third.report.notes) == 1


def test_a_compile_process_answers_with_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results are loaded if nothing is on disk."""
    program = linear(128, 64).program()
    options = {"chip": "sm_90a", "candidates": 1, "finalists": 1, "jobs": 1, "cubin": False}
    request = {"program": program, "options": {**options, "use_cache": False}}
    answered = compile_process.answer(request, lambda text: None)
    assert not list(shared_store().entries())
    assert {kind for kind, _ in answered["entries"]} >= {"program", "code"}
    chosen = OptimizeOptions.of(**options)
    assert not is_kept(program, chosen)
    shared_store().memory.update(answered["entries"])
    assert is_kept(program, chosen)
    monkeypatch.setattr(part_module, "search_part", lambda *_: pytest.fail("searched"))
    assert optimize(program, chosen).artifacts
    shared_store().memory.clear()


def test_a_compile_process_says_what_is_wrong() -> None:
    answered = compile_process.answer({"program": None, "options": {}}, lambda text: None)
    assert "expected a graph" in answered["error"]
    answered = compile_process.answer({"program": None, "options": {"x": 1}}, lambda text: None)
    assert "expected options among" in answered["error"]


def test_entries_are_small(folder: Path) -> None:
    optimize(linear().program(), OPTIONS)
    for entry in shared_store().entries():
        assert entry.bytes < 100_000, entry
