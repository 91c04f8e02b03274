"""Candidates verified kernel by kernel: nothing rests on statements about their tensors."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest
from faults.programs import with_fault, with_lost_digits
from mirage.cache import Store
from mirage.cost import TARGETS
from mirage.search import Planner, SearchLimits
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.transforms import stabilize
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.candidates.together import Claim, Terms, verify_all
from mirage.verify.evidence.proofs.exact import accounts_of, show, summary
from mirage.verify.pieces.kernel_by_kernel import Hint, Piece, Shown, account_for
from mirage.verify.pieces.ledger import Ledger, from_json, to_json
from thorough import some_of

OPTIONS = VerifyOptions(seed=1, draws=1, numerics=False)


def tensor(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F16))


def two_layers() -> KernelGraph:
    """``silu(x u) v`` with 24 rows: two products."""
    b = Builder()
    x, u, v = tensor(24, 32), tensor(32, 48), tensor(48, 16)
    y = b.matmul(b.unary(UnaryFn.SILU, b.matmul(x, u)), v)
    return KernelGraph("two", (x, u, v), tuple(b.ops), (y,))


def unfused(graph: KernelGraph) -> tuple[KernelGraph, Hint]:
    """A candidate of the search in several kernels."""
    limits = SearchLimits(candidates=4, matmuls=1, columns=300, plans=10)
    planner = Planner(graph, TARGETS["sm_90a"], limits)
    result = planner.run()
    best = max(result.candidates, key=lambda c: sum(isinstance(op, Launch) for op in c.graph.ops))
    return stabilize(best.graph).graph, Hint(planner.source, planner.graph, best.stored)


@pytest.fixture(scope="module")
def case() -> tuple[KernelGraph, KernelGraph, Hint]:
    graph = two_layers()
    return graph, *unfused(graph)


def prove(piece: Piece) -> Shown:
    return show(piece, 7)


def test_each_kernel_is_shown(case: tuple[KernelGraph, KernelGraph, Hint]) -> None:
    reference, candidate, hint = case
    assert sum(isinstance(op, Launch) for op in candidate.ops) == 2
    verdict = verify(reference, candidate, OPTIONS, hint)
    assert verdict.kind is Kind.PROVED
    assert verdict.unshown == ()
    (evidence,) = (e for e in verdict.evidence if e.name == "kernel by kernel")
    assert [p["verdict"] for p in evidence.figures["pieces"]] == ["proved", "proved"]


@pytest.mark.parametrize("number", [0, 1])
def test_the_wrong_kernel_is_named(
    case: tuple[KernelGraph, KernelGraph, Hint], number: int
) -> None:
    reference, candidate, hint = case
    wrong = with_fault(candidate, number)
    account = summary(accounts_of(hint, wrong, prove))
    assert not account.proved
    assert account.agrees is not True
    verdict = verify(reference, wrong, OPTIONS, hint)
    assert verdict.kind is Kind.REFUTED  # by the tests of the whole program
    accounts = accounts_of(hint, wrong, prove)
    launches = [op for op in wrong.ops if isinstance(op, Launch)]
    assert any(launches[number] in piece.ops for a in accounts for piece, _ in a.failed)


def test_faults_that_undo_each_other_need_a_larger_piece() -> None:
    """``-x`` is stored in place of the stated ``x``, and read negated: the pair is dropped, and
    both kernels are shown together."""
    b = Builder()
    x, w = tensor(16, 16), tensor(16, 16)
    y = b.unary(UnaryFn.EXP, x)
    z = b.matmul(y, w)
    program = KernelGraph("p", (x, w), tuple(b.ops), (z,))
    c = Builder()
    x2, w2 = tensor(16, 16), tensor(16, 16)
    stored = c.unary(UnaryFn.NEG, c.unary(UnaryFn.EXP, x2))
    out = c.matmul(c.unary(UnaryFn.NEG, stored), w2)
    candidate = KernelGraph("c", (x2, w2), tuple(c.ops), (out,))
    account = account_for(program, candidate, ((y, stored),), prove)
    assert account.holds
    ((piece, shown),) = account.shown
    assert shown.holds
    assert piece.targets == (out,)
    assert len(piece.second.inputs) == 2  # not the tensor stored in between


def test_hints_that_lie_prove_nothing(case: tuple[KernelGraph, KernelGraph, Hint]) -> None:
    """All exchanges of statements about tensors, for a correct candidate and a wrong one."""
    reference, candidate, hint = case
    values = [p for p, _ in hint.stored]
    same = [v for op in hint.program.ops for v in op.results if v.type == values[0].type]
    for graph, right in ((candidate, True), (with_fault(candidate, 0), False)):
        for order in permutations(same, 1):
            pairs = tuple((order[0], c) for _, c in hint.stored[:1]) + hint.stored[1:]
            lie = replace(hint, stored=pairs)
            found = summary(accounts_of(lie, graph, prove))
            assert right or found.agrees is not True
            verdict = verify(reference, graph, OPTIONS, lie)
            assert right or not verdict.equivalent


def test_hints_that_make_no_sense_are_ignored(case: tuple[KernelGraph, KernelGraph, Hint]) -> None:
    """Statements with values of other programs, and of other sizes."""
    reference, candidate, hint = case
    stranger, inner = tensor(24, 48), hint.stored[0][0]
    sizes = [v for v in candidate.inputs if v.type.size != inner.type.size]
    for pairs in (((stranger, stranger),), ((inner, stranger),), ((inner, sizes[0]),)):
        lie = replace(hint, stored=pairs)
        assert verify(reference, candidate, OPTIONS, lie).kind is not Kind.REFUTED


def test_a_hint_of_another_program_is_ignored(
    case: tuple[KernelGraph, KernelGraph, Hint],
) -> None:
    reference, candidate, hint = case
    b = Builder()
    x, u, v = (Value(i.type) for i in reference.inputs)
    y = b.matmul(b.unary(UnaryFn.RELU, b.matmul(x, u)), v)
    other = KernelGraph("other", (x, u, v), tuple(b.ops), (y,))
    verdict = verify(other, candidate, OPTIONS, hint)
    assert verdict.kind is Kind.REFUTED
    assert not any(e.name == "kernel by kernel" for e in verdict.evidence)


def test_equal_kernels_are_shown_once() -> None:
    """A layer twice in a row."""
    b = Builder()
    x = tensor(16, 32)
    weights = [tensor(32, 32) for _ in range(4)]
    y = x
    for u, v in (weights[:2], weights[2:]):
        y = b.matmul(b.unary(UnaryFn.SILU, b.matmul(y, u)), v)
    graph = KernelGraph("twice", (x, *weights), tuple(b.ops), (y,))
    candidate, hint = unfused(graph)
    ledger = Ledger()
    terms = Terms(OPTIONS, ledger)
    (verdict,) = verify_all(graph, [Claim(candidate, hint)], terms)
    assert verdict.kind is Kind.PROVED
    kernels = sum(isinstance(op, Launch) for op in candidate.ops)
    assert kernels >= 3
    assert len(ledger) < kernels
    asked: list[Piece] = []

    def ask(piece: Piece) -> Shown:
        asked.append(piece)
        return ledger[piece.key]

    accounts_of(hint, candidate, ask)
    assert len({p.key for p in asked}) == len(ledger)


def test_what_is_known_is_kept_on_disk(tmp_path, case) -> None:
    reference, candidate, hint = case
    store = Store(tmp_path, 1 << 20)
    first = Ledger(store)
    list(verify_all(reference, [Claim(candidate, hint)], Terms(OPTIONS, first)))
    files = [e.path for e in store.entries()]
    assert len(files) == len(first) == 2
    again = Ledger(store)
    for key, shown in first.items():
        assert again[key] == shown
        assert from_json(to_json(shown)) == shown
    files[0].write_text("{")  # one that cannot be read counts as absent
    assert sum(key in Ledger(store) for key in first) == 1


def test_what_is_not_shown_is_not_kept(tmp_path, case) -> None:
    reference, candidate, hint = case
    store = Store(tmp_path, 1 << 20)
    ledger = Ledger(store)
    wrong = with_fault(candidate, 1)
    (verdict,) = verify_all(reference, [Claim(wrong, hint)], Terms(OPTIONS, ledger))
    assert not verdict.equivalent
    assert any(not shown.holds for shown in ledger.values())
    assert all(shown.holds for shown in (Ledger(store).get(k) for k in ledger) if shown)


def test_at_the_deadline_nothing_is_shown(case) -> None:
    reference, candidate, hint = case
    terms = Terms(OPTIONS, Ledger(), deadline=0.0)
    (verdict,) = verify_all(reference, [Claim(candidate, hint)], terms)
    assert verdict.kind is Kind.UNKNOWN


def test_random_programs_and_hints() -> None:
    """Chains of elementwise ops with random wrong statements about values: only true ones are
    shown."""
    for seed in range(60):
        rng = random.Random(seed)
        fns = [rng.choice((UnaryFn.NEG, UnaryFn.SQUARE, UnaryFn.EXP)) for _ in range(4)]
        changed = [
            rng.choice((UnaryFn.NEG, UnaryFn.SQUARE)) if rng.random() < 0.3 else f for f in fns
        ]
        graphs: list[KernelGraph] = []
        values: list[list[Value]] = []
        for chain in (fns, changed):
            b, x = Builder(), tensor(4, 4)
            steps = [x]
            for fn in chain:
                steps.append(b.unary(fn, steps[-1]))
            steps.append(b.binary(BinaryFn.ADD, steps[-1], x))
            graphs.append(KernelGraph("chain", (x,), tuple(b.ops), (steps[-1],)))
            values.append(steps[1:-1])
        pairs = tuple((rng.choice(values[0]), c) for c in values[1] if rng.random() < 0.7)
        account = account_for(graphs[0], graphs[1], pairs, prove)
        if account.holds:
            assert verify(graphs[0], graphs[1], OPTIONS).equivalent


@pytest.mark.parametrize("work", [1e6, 1e3], ids=["whole", "piece by piece"])
@pytest.mark.parametrize("number", some_of(range(3), every=4))
def test_the_kernel_that_loses_digits_is_named(work: float, number: int) -> None:
    """Only the faulty kernel is refused, whether the whole or its pieces were run."""
    b = Builder()
    x, *weights = (tensor(64, 96), *(tensor(96, 96) for _ in range(3)))
    y = x
    for w in weights:
        y = b.unary(UnaryFn.SILU, b.matmul(y, w))
    graph = KernelGraph("chain", (x, *weights), tuple(b.ops), (y,))
    candidate, hint = unfused(graph)
    places = [i for i, op in enumerate(candidate.ops) if isinstance(op, Launch)]
    assert len(places) == 3
    options = VerifyOptions(seed=1, work=work)
    (right,) = verify_all(graph, [Claim(candidate, hint)], Terms(options, Ledger()))
    assert right.accepted
    assert right.rough == ()
    assert any("each on its own" in e.text for e in right.evidence) == (work < 1e6)
    rough = with_lost_digits(candidate, number)
    (verdict,) = verify_all(graph, [Claim(rough, hint)], Terms(options, Ledger()))
    assert verdict.equivalent
    assert not verdict.accepted
    assert verdict.rough == (places[number],)
    assert verdict.unshown == ()


def rotations() -> tuple[KernelGraph, KernelGraph]:
    """Rotated pairs of neighbours: joined before they are multiplied, and after; both programs have
    the same parts of a tensor, but only one of them reads the tensor itself."""
    x, c, s = tensor(3, 8), tensor(3, 8), tensor(3, 8)
    b = Builder()
    pairs = b.reshape(x, (3, 4, 2))
    even, odd = (b.slice(pairs, (0, 0, i), (3, 4, 1)) for i in (0, 1))
    back = b.unary(UnaryFn.NEG, odd)
    shared = tuple(b.ops)
    turned = b.reshape(b.concat((back, even), 2), (3, 8))
    first, second = b.binary(BinaryFn.MUL, x, c), b.binary(BinaryFn.MUL, turned, s)
    early = KernelGraph("early", (x, c, s), tuple(b.ops), (b.binary(BinaryFn.ADD, first, second),))
    early = replace(early, ops=tuple(b.ops))
    late = Builder()
    halves = [[late.slice(late.reshape(t, (3, 4, 2)), (0, 0, i), (3, 4, 1)) for i in (0, 1)]
              for t in (c, s)]  # fmt: skip
    parts = [
        late.binary(
            BinaryFn.ADD,
            late.binary(BinaryFn.MUL, own, halves[0][i]),
            late.binary(BinaryFn.MUL, other, halves[1][i]),
        )
        for i, (own, other) in enumerate(((even, back), (odd, even)))
    ]
    out = late.reshape(late.concat(tuple(parts), 2), (3, 8))
    return early, KernelGraph("late", (x, c, s), (*shared, *late.ops), (out,))


def test_parts_that_both_have_are_seen_through() -> None:
    early, late = rotations()
    same = tuple((v, v) for op in early.ops for v in op.results if op in late.ops)
    assert same
    assert account_for(early, late, same, prove).holds


def test_parts_that_are_seen_through_must_be_right() -> None:
    early, late = rotations()
    even, odd = (op.results[0] for op in late.ops[1:3])
    wrong = tuple(
        replace(op, operands=tuple(even if v is odd else v for v in op.operands))
        if op is late.ops[-5]
        else op
        for op in late.ops
    )
    changed = replace(late, ops=wrong)
    same = tuple((v, v) for op in early.ops for v in op.results if op in changed.ops)
    assert odd in late.ops[-5].operands
    assert not account_for(early, changed, same, prove).holds
