"""A sum that a block needs under two names of an axis is computed once."""

from __future__ import annotations

import torch
from mirage.cost import H200
from mirage.frontend.torch_import import from_torch
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.atoms import FnAtom, InAtom
from mirage.search.algebra.normal_form import NormalForms
from mirage.search.kernel.derivations.derive import Derivations
from mirage.search.kernel.derivations.other_names import Rename, add_other_names
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import Reduce, all_ops, launches
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind

LIMITS = SearchLimits(candidates=2)
HEADS, HALF, WIDTH = 8, 64, 4096


def rotary_product(
    x: torch.Tensor, w: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    y = (x @ w.t()).view(HEADS, 2 * HALF)
    return y * cos + torch.cat((-y[:, HALF:], y[:, :HALF]), 1) * sin


def test_one_kernel_sums_each_row_once() -> None:
    shapes = (1, WIDTH), (HEADS * 2 * HALF, WIDTH), (2 * HALF,), (2 * HALF,)
    inputs = (torch.zeros(shape, dtype=torch.float16) for shape in shapes)
    program = from_torch(rotary_product, *inputs).graph
    best = superoptimize(program, H200, LIMITS).candidates[0].graph
    (launch,) = launches(best.ops)
    sums = (op for op in all_ops(launch.body.ops) if isinstance(op, Reduce))
    assert len([op for op in sums if op.operands[0].shape[-1] > 2]) == 1  # not that of the rotation
    assert verify(program, best, VerifyOptions()).kind is Kind.PROVED


def renames(extents: dict[str, int], loop: str) -> list[Rename]:
    """Return the moves between the sums over k of x[n, k] and x[m, k], whose functions are
    multiplied."""
    kind = FrameType(loop, None)
    algebra = NormalForms(kind.levels, extents)

    def total(row: str) -> int:
        x = algebra.single(algebra.atom(InAtom(0, ((row,), ("k",)))))
        return algebra.sum(x, ["k"])

    one, other = (algebra.single(algebra.atom(FnAtom(UnaryFn.TANH, total(a)))) for a in "nm")
    derivations = Derivations(algebra, kind)
    assert derivations.solve((algebra.mul(one, other), 1))
    add_other_names(derivations)
    return [e for own in derivations.edges.values() for e in own if isinstance(e, Rename)]


def test_a_sum_exists_under_the_name_of_another_axis() -> None:
    moves = renames({"n": 2, "m": 2, "k": 64}, "k")
    assert {(move.old, move.new, move.extent) for move in moves} in (
        {("n", "m", 2)},
        {("m", "n", 2)},
    )


def test_axes_of_other_extents_or_in_steps_are_other_axes() -> None:
    assert not renames({"n": 2, "m": 4, "k": 64}, "k")
    assert not renames({"n": 2, "m": 2, "k": 64}, "m")
