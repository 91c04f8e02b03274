"""The stages on data: the candidates that they keep, refuse and choose."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import mirage as mi
import numpy as np
import pytest
from graph_equality import assert_same
from mirage.cost import H200
from mirage.cost.predict import predict
from mirage.cost.target import UnknownTargetError, target_for
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.pipeline.errors import StageError
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import select_cheapest
from mirage.pipeline.skip_steps import skip_steps_of_candidates
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.pipeline.verify import Checked, note_of, verify_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives, VerdictNote, inlined
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Binary, External, KernelGraph, Launch, TensorType, Value
from mirage.transforms import Exponential, Stabilized, stabilize
from mirage.transforms.partition.partition import Part, partition
from mirage.verify import Evidence, Kind, Verdict, VerifyOptions
from mirage.workloads import get
from mirage.workloads.linear import softmax_rows

TARGET = target_for("sm_90a")
LIMITS = SearchLimits(candidates=3)


def linear() -> KernelGraph:
    graph = mi.new_kernel_graph("linear")
    x, w = graph.new_input((16, 256)), graph.new_input((256, 128))
    graph.mark_output(graph.silu(graph.rms_norm(x) @ w))
    return graph.build()


@pytest.fixture(scope="module")
def candidates() -> KernelGraph:
    return add_candidates(linear(), TARGET, LIMITS)[0]


def alternatives(graph: KernelGraph) -> Alternatives:
    (op,) = graph.ops
    assert isinstance(op, Alternatives)
    return op


def wrong(op: Alternatives) -> Alternatives:
    """Candidate 0 replaced by one that computes something else."""
    reference = op.programs[0]
    b = Builder()
    y = b.binary(BinaryFn.ADD, reference.outputs[0], b.constant(0.01, DType.F16))
    program = KernelGraph("wrong", reference.inputs, (*reference.ops, *b.ops), (y,))
    return replace(op, programs=(reference, program, *op.programs[2:]))


def test_search_puts_candidates_beside_the_reference(candidates: KernelGraph) -> None:
    op = alternatives(candidates)
    assert_same(op.programs[0], linear())
    assert len(op.programs) == 4
    assert op.costs is not None
    assert op.costs[0] is None
    assert list(op.costs[1:]) == sorted(c for c in op.costs[1:] if c is not None)
    assert all(isinstance(o, Launch) for p in op.programs[1:] for o in p.ops)
    assert_same(inlined(candidates, lambda op: 0), linear())


def test_the_whole_way(candidates: KernelGraph) -> None:
    stable, _ = stabilize_candidates(candidates)
    verified, checked = verify_candidates(stable, VerifyOptions(seed=1))
    assert [c.verdict.equivalent for c in checked] == [True] * 3
    assert all(c.kept for c in checked)
    selected, without = select_cheapest(verified, TARGET)
    assert without == 0
    check_graph(selected)
    assert selected.ops
    assert all(isinstance(op, Launch) for op in selected.ops)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=v.shape) for v in selected.inputs]
    (ours,), (expected,) = evaluate_floats(selected, inputs), evaluate_floats(linear(), inputs)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
    text = graph_to_text(verified, form="verified")
    assert_same(
        graph_from_text(text).graph,
        graph_from_text(graph_to_text(graph_from_text(text).graph)).graph,
    )


def test_a_wrong_candidate_does_not_survive(candidates: KernelGraph) -> None:
    op = wrong(alternatives(candidates))
    graph = replace(candidates, ops=(op,))
    verified, checked = verify_candidates(graph, VerifyOptions(seed=1))
    assert [c.verdict.kind is Kind.REFUTED for c in checked] == [True, False, False]
    kept = alternatives(verified)
    assert len(kept.programs) == 3
    assert kept.verdicts is not None
    assert len(kept.verdicts) == 2
    assert kept.costs is not None
    assert op.costs is not None
    assert kept.costs == (None, *op.costs[2:])
    assert all("wrong" not in p.name for p in kept.programs)


def test_nothing_is_selected_without_a_verdict(candidates: KernelGraph) -> None:
    with pytest.raises(StageError, match="without verdicts"):
        select_cheapest(candidates, TARGET)


def test_nothing_is_rewritten_after_its_verdict(candidates: KernelGraph) -> None:
    op = replace(alternatives(candidates), verdicts=(VerdictNote("proved"),) * 3)
    for stage in (stabilize_candidates, skip_steps_of_candidates):
        with pytest.raises(StageError, match="it comes before verify"):
            stage(replace(candidates, ops=(op,)))


def test_without_candidates_the_reference_stays(candidates: KernelGraph) -> None:
    op = alternatives(candidates)
    bare = replace(op, programs=op.programs[:1], verdicts=(), costs=None)
    selected, without = select_cheapest(replace(candidates, ops=(bare,)), TARGET)
    assert without == 1
    assert_same(selected, linear())


def test_search_refuses_chosen_kernels(candidates: KernelGraph) -> None:
    with pytest.raises(StageError, match="predefined ops only, got alternatives"):
        add_candidates(candidates, TARGET)


def test_unknown_chip() -> None:
    with pytest.raises(UnknownTargetError, match="got 'sm_70'"):
        target_for("sm_70")


def test_a_kernel_beyond_the_limits_has_no_prediction(candidates: KernelGraph) -> None:
    program = alternatives(candidates).programs[1]
    assert predict(program, TARGET) is not None
    small = replace(TARGET, shared_block=16)
    assert predict(program, small) is None
    own = predict(linear(), TARGET)
    assert own is not None
    assert own.time > 0.0, "each op is a kernel of its own"


def test_tests_without_a_bound_are_not_enough() -> None:
    assert Checked(0, 0, Verdict(Kind.PROBABLE, -61.0, (), 0)).kept
    assert Checked(0, 0, Verdict(Kind.PROVED, None, (), 0)).kept
    assert not Checked(0, 0, Verdict(Kind.PROBABLE, None, (), 0)).kept
    assert not Checked(0, 0, Verdict(Kind.UNKNOWN, None, (), 0)).kept
    assert not Checked(0, 0, Verdict(Kind.PROVED, None, (), 0, numerics_hold=False)).kept


def test_verdicts_round_up() -> None:
    evidence = (Evidence("test", True, "3 draws"), Evidence("proof", None, "none"))
    note = note_of(Verdict(Kind.PROBABLE, -67.9, evidence, 0))
    assert note == VerdictNote("probable", -67, "test: 3 draws; proof: none")
    assert note_of(Verdict(Kind.PROBABLE, None, (), 0)) == VerdictNote("probable", 0, None)
    assert note_of(Verdict(Kind.PROVED, None, (), 0)) == VerdictNote("proved", 0, None)


# ---- programs with calls that stay with torch


def with_calls() -> KernelGraph:
    """exp -> torch -> silu, and a separate part; a constant is used on both sides."""
    b = Builder()
    x = Value(TensorType((4, 8), DType.F32), "x")
    two = b.constant(2.0)
    e = b.binary(BinaryFn.MUL, b.unary(UnaryFn.EXP, x), two)
    call = External((e,), (Value(e.type),), "aten.cumsum", (("dim", 1), ("dtype", None)))
    b.ops.append(call)
    s = b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, call.result), two), e)
    t = b.unary(UnaryFn.TANH, x)
    return KernelGraph("calls", (x,), tuple(b.ops), (s, t))


def test_partition() -> None:
    graph = with_calls()
    first, call, second = partition(graph)
    assert isinstance(first, Part)
    assert isinstance(call, External)
    assert isinstance(second, Part)
    for part in (first, second):
        check_graph(part.graph)
    assert first.graph.inputs == graph.inputs
    assert set(call.operands) <= set(first.graph.outputs)
    assert set(graph.outputs) <= {*first.graph.outputs, *second.graph.outputs}
    assert graph.outputs[1] in second.graph.outputs, "what the call does not need waits"
    assert set(second.graph.inputs) == {call.result, call.operands[0], *graph.inputs}
    constants = [len([op for op in p.graph.ops if not op.operands]) for p in (first, second)]
    assert constants == [1, 1], "a constant is repeated, not passed"


def test_partition_with_a_constant_as_result() -> None:
    graph = with_calls()
    two = next(op.result for op in graph.ops if not op.operands)
    steps = partition(replace(graph, outputs=(*graph.outputs, two)))
    first, second = (s for s in steps if isinstance(s, Part))
    calls = [s for s in steps if not isinstance(s, Part)]
    check_graph(first.graph)
    (made,) = [c for c in calls if isinstance(c, External) and two in c.results]
    assert made.target == "aten.new_full.default"
    assert two not in (*first.graph.outputs, *second.graph.inputs)


def test_partition_of_a_whole_program() -> None:
    graph = linear()
    (part,) = partition(graph)
    assert isinstance(part, Part)
    assert part.graph is graph


def test_each_part_is_optimized_by_itself() -> None:
    graph, results = add_candidates(with_calls(), TARGET, LIMITS)
    assert [type(op) for op in graph.ops] == [Alternatives, External, Alternatives]
    assert len(results) == 2
    verified, checked = verify_candidates(stabilize_candidates(graph)[0], VerifyOptions(seed=2))
    assert {c.part for c in checked} == {0, 1}
    selected, without = select_cheapest(verified, TARGET)
    assert without == 0
    assert [type(op) for op in selected.ops if not isinstance(op, Launch)] == [External]
    text = graph_to_text(selected, form="selected")
    assert graph_to_text(graph_from_text(text).graph, form="selected") == text
    steps = partition(selected)
    assert [isinstance(s, Part) for s in steps] == [True, False, True]
    assert not any(isinstance(op, Binary) for op in selected.ops)


def test_searched_with_the_maximum_where_no_rewrite_is_legal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(graph: KernelGraph) -> Stabilized:
        return Stabilized(graph, (Exponential(0, 0, "no rule"),))

    program = softmax_rows("rows", 4, 96).graph()
    with monkeypatch.context() as patched:
        patched.setattr("mirage.pipeline.search.stabilize", refused)
        graph, (result,) = add_candidates(program, TARGET, SearchLimits(candidates=2))
    assert any("searched with their maximum" in note for note in result.report.notes)
    for candidate in alternatives(graph).programs[1:]:
        assert all(e.stable for e in stabilize(candidate).exponentials)
        assert stabilize(candidate).graph is candidate


def test_rows_that_no_block_can_hold_do_not_overflow() -> None:
    """Their exponentials are in two kernels, which share the maximum of the first."""
    program = softmax_rows("long", 2, 100_000).graph()
    graph, (result,) = add_candidates(program, target_for("sm_90a"), SearchLimits(candidates=2))
    assert not any("searched with their maximum" in note for note in result.report.notes)
    x = np.random.default_rng(0).standard_normal((2, 100_000)) * 1e4
    (want,) = evaluate_floats(program, [x])
    stable, _ = stabilize_candidates(graph)
    (alternatives,) = (op for op in stable.ops if isinstance(op, Alternatives))
    assert len(alternatives.programs) == 3
    for candidate in alternatives.programs[1:]:
        (got,) = evaluate_floats(candidate, [x], TypedFloat())
        np.testing.assert_allclose(got, want, atol=1e-3)


def test_candidates_that_were_written_down_are_verified_kernel_by_kernel() -> None:
    """The text states the values that tensors hold, so that the verdict does not depend on the
    process that verifies."""
    b = mi.new_kernel_graph("two")
    x = b.new_input((24, 32))
    u, v = b.new_input((32, 48)), b.new_input((48, 16))
    b.mark_output(b.silu(x @ u) @ v)
    limits = SearchLimits(candidates=2, matmuls=1, columns=300, plans=10)
    graph, _ = add_candidates(b.build(), TARGET, limits)
    text = graph_to_text(graph, form="candidates")
    assert "kernel.holds" in text
    stable, _ = stabilize_candidates(graph_from_text(text).graph)
    _, checked = verify_candidates(stable, VerifyOptions(seed=1))
    for c in checked:
        assert c.verdict.kind is Kind.PROVED
        assert any(e.name == "kernel by kernel" for e in c.verdict.evidence)


class _Dying(Executor):
    """An executor whose workers die after the first result."""

    done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.done:
            raise BrokenExecutor("a worker died")
        self.done += 1
        future = Future[Any]()
        future.set_result(fn(*args, **kwargs))
        return future


def test_workers_verify_as_the_caller_does() -> None:
    graph, _ = add_candidates(get("lora_m1").program().graph, H200, SearchLimits(candidates=3))
    _, alone = verify_candidates(graph, VerifyOptions(seed=1))
    assert len(alone) > 1
    seen: list[int] = []
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        _, together = verify_candidates(
            graph, VerifyOptions(seed=1), lambda c: seen.append(c.index), pool
        )
    assert seen == list(range(len(alone)))
    assert [str(c.verdict) for c in together] == [str(c.verdict) for c in alone]
    _, rest = verify_candidates(graph, VerifyOptions(seed=1), executor=_Dying())
    assert [str(c.verdict) for c in rest] == [str(c.verdict) for c in alone]
