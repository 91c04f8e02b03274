"""Programs with positions, masks and lookups, from PyTorch to PTX that the emulator executes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.frontend.torch_import.capture import folding
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.alternatives import parts_of
from mirage.semantics.bounds.idle_steps import leaves_out_steps
from mirage.semantics.positions import Lookup, TileGather, TileIota
from mirage.semantics.ugraph import External, Launch, Steps, all_ops, loops
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(candidates=2, budget=3600.0)
"""More time than any machine needs, so that the result does not depend on the load."""


@pytest.fixture(autouse=True)
def symbolic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks are computed from positions, even if they are small."""
    monkeypatch.setattr(folding, "SMALL_BYTES", 256)


def optimized(
    program: Callable[..., Any],
    *inputs: Tensor,
    fallback: bool = False,
    options: mi.OptimizeOptions = OPTIONS,
) -> mi.Optimized:
    imported = mi.from_torch(program, *inputs, allow_fallback=fallback)
    return mi.optimize(imported, options)


def kernels(found: mi.Optimized) -> list[Launch]:
    return [op for s in found.steps if s.graph is not None for op in s.graph.ops
            if isinstance(op, Launch)]  # fmt: skip


def check(
    program: Callable[..., Any],
    *inputs: Tensor,
    tolerance: float = 5e-3,
    fallback: bool = False,
    options: mi.OptimizeOptions = OPTIONS,
) -> mi.Optimized:
    """Run the result in the emulator, and compare with PyTorch in float64."""
    found = optimized(program, *inputs, fallback=fallback, options=options)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        expected = program(*wide)
    expected = expected if isinstance(expected, tuple) else (expected,)
    results = emulate(found, *inputs)
    for y, e in zip(results, expected, strict=True):
        assert y.shape == e.shape
        if not e.is_floating_point():
            assert torch.equal(y, e)
            continue
        scale = float(e[torch.isfinite(e)].abs().max())
        np.testing.assert_allclose(
            y.double().numpy(), e.double().numpy(), rtol=0, atol=tolerance * scale
        )
    return found


def rand(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).half()


QKV = (rand(2, 48, 32), rand(2, 48, 32) * 0.5, rand(2, 48, 32))


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sliding(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i = torch.arange(q.shape[-2])
    distance = i[:, None] - i[None, :]
    mask = (distance >= 0) & (distance < 9)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def given(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("program", some_of([causal, sliding], every=2))
def test_masks_are_made_of_positions(program: Callable[..., Any]) -> None:
    found = check(program, *QKV)
    (kernel,) = kernels(found)
    assert set(kernel.operands) == set(found.graph.inputs)  # nothing else is read
    assert any(isinstance(op, TileIota) for op in all_ops(kernel.body.ops))
    assert not any(step.external for step in found.steps)


def steps_of(found: mi.Optimized) -> list[Steps | None]:
    return [loop.steps for k in kernels(found) for loop in loops(k)]


def left_out_and_shown(found: mi.Optimized) -> list[tuple[bool, bool]]:
    """Return, for each candidate that was kept, whether it leaves out steps, and whether it is
    shown that these contribute nothing. (Kernels whose loops do not run along the keys leave out
    none.)"""
    _, graph = found.mlir.graphs["verified"]
    (part,) = parts_of(graph)
    pairs = zip(part.programs[1:], part.verdicts or (), strict=True)
    return [(leaves_out_steps(p), "steps left out: they" in (n.evidence or "")) for p, n in pairs]


LONGER = (rand(2, 576, 32), rand(2, 576, 32) * 0.5, rand(2, 576, 32))


@pytest.mark.parametrize(
    ("program", "chip"), some_of([(causal, "sm_80"), (sliding, "sm_90a")], every=2)
)
def test_what_a_mask_empties_is_not_computed(program: Callable[..., Any], chip: str) -> None:
    found = check(program, *LONGER, options=replace(OPTIONS, chip=chip))
    steps = [s for s in steps_of(found) if s is not None]
    assert steps
    assert any(s.first.terms for s in steps) == (program is sliding)
    verdicts = left_out_and_shown(found)
    assert any(left_out for left_out, _ in verdicts)
    assert all(left_out == shown for left_out, shown in verdicts)


def test_a_mask_of_truth_values_is_read_as_it_is() -> None:
    mask = torch.rand(48, 48, generator=torch.Generator().manual_seed(3)) < 0.7
    mask |= torch.eye(48, dtype=torch.bool)
    found = check(given, *QKV, mask)
    assert len(kernels(found)) == 1
    assert not any(step.external for step in found.steps)


def embedded(ids: Tensor, table: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(F.embedding(ids, table), (64,), gain) @ weight


IDS = torch.tensor([[3, 0, 17, 4, 4, 9, 1, 30], [2, 2, 31, 8, 5, 6, 7, 0]])


def test_embedding_and_norm_are_one_kernel() -> None:
    found = check(
        lambda ids, table, gain: F.rms_norm(F.embedding(ids, table), (64,), gain),
        IDS, rand(32, 64), rand(64),
    )  # fmt: skip
    (kernel,) = kernels(found)
    assert any(isinstance(op, TileGather) for op in all_ops(kernel.body.ops))
    assert not any(step.external for step in found.steps)


def test_embedding_norm_and_product() -> None:
    found = check(embedded, IDS, rand(32, 64), rand(64), rand(64, 48) / 8)
    assert any(isinstance(op, TileGather) for k in kernels(found) for op in all_ops(k.body.ops))
    calls = {s.external.target for s in found.steps if s.external}
    assert calls <= {"aten.reshape.default"}  # of the indices: nothing is computed
    assert not any(isinstance(op, Lookup) for s in found.steps if s.graph for op in s.graph.ops)


@pytest.mark.parametrize("dtype", some_of([torch.int32, torch.int64], every=2))
@pytest.mark.parametrize("shape", [(2, 8), (16,)])
def test_rows_by_index_count_from_the_end(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """One kernel that reads the index itself, for any shape of it."""
    ids = IDS.clone()
    ids[0, 1], ids[1, 2] = -1, -32
    found = check(
        lambda ids, table, gain: F.rms_norm(table[ids.view(shape)], (64,), gain),
        ids.to(dtype), rand(32, 64), rand(64),
    )  # fmt: skip
    assert len(kernels(found)) == 1
    assert not any(step.external for step in found.steps)


def test_a_table_of_biases_is_read_inside_of_attention() -> None:
    """Biases by relative positions, as in window attention: no index is computed outside of the
    kernel."""

    def attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor, ids: Tensor) -> Tensor:
        bias = table[ids.view(-1)].view(16, 16, 2).permute(2, 0, 1)
        return (q * 0.25 @ k.transpose(-1, -2) + bias).softmax(-1) @ v

    ids = torch.arange(256).view(16, 16) % 31
    given = (rand(3, 2, 16, 16), rand(3, 2, 16, 16) / 2, rand(3, 2, 16, 16) / 4, rand(31, 2), ids)
    found = check(attend, *given)
    assert len(kernels(found)) == 1
    assert not any(step.external for step in found.steps)


def test_rows_that_are_not_there_are_not_numbers() -> None:
    """No kernel reads outside of the table: the emulator would raise an error."""
    program = lambda ids, table: F.embedding(ids, table) * 2  # noqa: E731
    table = rand(32, 64)
    found = optimized(program, IDS, table)
    wrong = IDS.clone()
    wrong[0, 0], wrong[1, 3], wrong[1, 4] = 32, -1, 1 << 40
    (y,) = emulate(found, wrong, table)
    lost = torch.isnan(y).all(-1)
    assert lost.nonzero().tolist() == [[0, 0], [1, 3], [1, 4]]
    right = wrong.clamp(0, 31)
    np.testing.assert_allclose(y[~lost].numpy(), (table[right] * 2)[~lost].numpy())


def test_cross_entropy_is_one_kernel() -> None:
    """The element that a target names is picked while the row is loaded; some rows are ignored, and
    a target that is not a class gives NaN."""
    x = rand(6, 200)
    targets = torch.tensor([0, 199, -100, 17, 128, 3])
    program = lambda x, t: F.cross_entropy(x, t, reduction="none")  # noqa: E731
    found = check(program, x, targets)
    assert len(found.steps) == len(kernels(found)) == 1
    targets[1], targets[3] = 200, -1
    (y,) = emulate(found, x, targets)
    assert torch.isfinite(y).tolist() == [True, False, True, False, True, True]


def test_what_has_no_kernel_is_one_call() -> None:
    """Ops along a line stay with PyTorch; the ops around them do not."""

    def program(x: Tensor, w: Tensor) -> Tensor:
        seen = torch.special.i0e((x > -9).float())
        return torch.exp(x * 0.1) @ w + seen.half()[..., :16]

    found = check(program, rand(8, 32), rand(32, 16), fallback=True)
    targets = [s.external.target for s in found.steps if s.external]
    assert "aten.special_i0e" in targets
    assert kernels(found)


def test_integers_that_no_tile_of_floats_holds_are_exact() -> None:
    """Token ids are compared as integers in the kernel that reads the truth values."""

    def program(x: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        same = ids[:, None] == ids[None, :]
        return torch.where(same, x, x * 0.5) + 1, ids + 1

    ids = torch.tensor([1 << 40, 3, (1 << 40) + 1, 3, 5, 6, 7, 1 << 40])
    found = check(program, rand(8, 8), ids)
    assert not any(isinstance(s.external, External) for s in found.steps)


# ---- lookups and stores by index


def test_rows_by_several_indices() -> None:
    i, j = torch.tensor([5, 0, -1, 2]), torch.tensor([1, -3, 0, 4])
    found = check(lambda x, i, j: x[i, j] * 2 + 1, rand(6, 5, 64), i, j)
    assert any(isinstance(op, TileGather) for k in kernels(found) for op in all_ops(k.body.ops))


def test_a_step_writes_into_its_cache() -> None:
    """The new row is chosen where the scores are computed."""

    def step(cache: Tensor, at: Tensor, new: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        keys = cache.index_copy(1, at, new)
        return keys, q @ keys.mT

    check(step, rand(2, 32, 64), torch.tensor([17]), rand(2, 1, 64), rand(2, 16, 64))


def test_several_rows_are_stored() -> None:
    check(
        lambda x, i, v: x.index_copy(0, i, v) * 2,
        rand(24, 64), torch.tensor([3, 0, 20]), rand(3, 64),
    )  # fmt: skip
