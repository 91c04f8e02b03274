"""Errors for indices that are outside, if the check is requested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mirage
import mirage.runtime
import pytest
import torch
import torch.nn.functional as F
from mirage.runtime.arguments.index_check import IndexCheck, check_indices
from mirage.runtime.errors import ArgumentIndexError, CallError
from mirage.runtime.launching.by_size import SizedExecutable, SizeTable
from mirage.runtime.serialization.manifest import IndexBound
from small_artifacts.sized_artifact import sized_artifact
from thorough import some_of

OPTIONS: dict[str, Any] = {"candidates": 1, "cubin": False}


def norm(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(torch.nn.functional.embedding(ids, table), (16,))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_what_is_inside(dtype: torch.dtype) -> None:
    check_indices(torch.tensor([[0, 6], [3, 1]], dtype=dtype), "ids", 7)
    check_indices(torch.empty(0, 3, dtype=dtype), "ids", 7)  # none is outside


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([[0, 7], [3, 9]], r"ids: expected indices from 0 to 6, got 7 at \[0, 1\]"),
        ([[0, 2], [-1, 9]], r"ids: expected indices from 0 to 6, got -1 at \[1, 0\]"),
        ([[0, 2**62], [1, 2]], r"got 4611686018427387904 at \[0, 1\]"),
        ([[0, -(2**63)], [1, 2]], r"got -9223372036854775808 at \[0, 1\]"),
    ],
)
def test_what_is_outside(indices: list[list[int]], said: str) -> None:
    with pytest.raises(ArgumentIndexError, match=said) as caught:
        check_indices(torch.tensor(indices), "ids", 7)
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, CallError)


def test_indices_from_the_end() -> None:
    check_indices(torch.tensor([-7, 6]), "ids", 7, from_end=True)
    with pytest.raises(ArgumentIndexError, match=r"expected indices from -7 to 6, got -8 at \[1\]"):
        check_indices(torch.tensor([0, -8]), "ids", 7, from_end=True)


def test_the_manifest_says_where_indices_count_from(tmp_path: Path) -> None:
    def rows(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(table[ids], (16,))

    table, ids = torch.randn(37, 16), torch.tensor([3, -37, 36])
    path = tmp_path / "rows.mirage"
    mirage.export(rows, table, ids, path=path, options=OPTIONS)
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    torch.testing.assert_close(checked(table, ids), rows(table, ids))
    with pytest.raises(IndexError, match=r"expected indices from -37 to 36, got -38 at \[0\]"):
        checked(table, torch.tensor([-38, 0, 0]))


def test_a_model_that_looks_at_its_indices(tmp_path: Path) -> None:
    table, ids = torch.randn(37, 16), torch.tensor([3, 0, 36])
    path = tmp_path / "norm.mirage"
    mirage.export(norm, table, ids, path=path, options=OPTIONS)
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    unchecked = mirage.runtime.load(path, device="cpu")
    torch.testing.assert_close(checked(table, ids), norm(table, ids))
    beyond = torch.tensor([3, 37, 0])
    assert unchecked(table, beyond)[1].isnan().all()
    with pytest.raises(IndexError, match=r"expected indices from 0 to 36, got 37 at \[1\]"):
        checked(table, beyond)
    with pytest.raises(IndexError, match=r"got -1 at \[2\]"):
        checked(table, torch.tensor([3, 0, -1]))


def test_the_manifest_says_which_inputs_are_indices(tmp_path: Path) -> None:
    table, ids = torch.randn(37, 16), torch.tensor([3, 0, 36])
    found = mirage.optimize(mirage.from_torch(norm, table, ids), mirage.OptimizeOptions(**OPTIONS))
    found.save(tmp_path / "one.mirage")
    program = mirage.runtime.load(tmp_path / "one.mirage")
    assert isinstance(program, mirage.runtime.Executable)
    manifest = program.manifest
    assert manifest.bounds == (IndexBound(1, 37),)
    with pytest.raises(ArgumentIndexError, match=r"input 1 \(.*\): .* got 40 at \[0\]"):
        IndexCheck(manifest.bounds, manifest.inputs)([table, torch.tensor([40, 0, 0])])


def test_an_index_that_kernels_compare(tmp_path: Path) -> None:
    """Stores to few rows and lookups among few classes are comparisons with positions; a target
    that is ignored is none of the classes."""

    def stored(
        cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return cache.index_copy(0, at, new), F.nll_loss(new, targets, reduction="none")

    given = torch.randn(7, 4), torch.tensor([6, 0]), torch.randn(2, 4), torch.tensor([-100, 3])
    path = tmp_path / "stored.mirage"
    mirage.export(stored, *given, path=path, options=OPTIONS)
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    unchecked = mirage.runtime.load(path, device="cpu")
    torch.testing.assert_close(checked(*given), stored(*given))
    for place, wrong in ((1, [7, 0]), (1, [0, -1]), (3, [-100, 4]), (3, [-1, 0])):
        others = [*given[:place], torch.tensor(wrong), *given[place + 1 :]]
        unchecked(*others)
        with pytest.raises(ArgumentIndexError, match="expected indices from 0"):
            checked(*others)


COMPUTED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "one further": lambda table, ids: F.embedding(ids + 1, table) * 2,
    "a column": lambda table, ids: F.embedding(ids[:, 1], table) * 2,
    "turned around": lambda table, ids: F.embedding(ids.t(), table) * 2,
    "from the end": lambda table, ids: table[ids] * 2,
    "twice": lambda table, ids: F.embedding(ids // 2, F.embedding(ids[0], table)) * 2,
    "one of each line": lambda table, ids: table.log_softmax(1).gather(1, ids) * 2,
    "a running sum": lambda table, ids: F.embedding(ids.cumsum(0)[:2], table) * 2,
    "stores": lambda table, ids: table.index_add(0, ids[:2, 1] + 1, table[:2]) * 2,
    "places in lines": lambda table, ids: table.scatter(1, ids + 3 * torch.arange(2), 1.0) * 2,
    "targets further on": lambda table, ids: F.cross_entropy(table[1:], ids[:-1, 1]),
    "of two dimensions": lambda table, ids: table.view(2, 2, 16)[ids[:, 0] % 2, ids[:, 1] - 1] * 2,
}


@pytest.mark.parametrize("name", some_of(COMPUTED, 4))
def test_indices_that_the_program_computes(tmp_path: Path, name: str) -> None:
    program = COMPUTED[name]
    table, ids = torch.randn(4, 16), torch.tensor([[0, 2], [1, 1], [2, 0], [2, 2]])
    path = tmp_path / "rows.mirage"
    mirage.export(program, table, ids, path=path, options=OPTIONS)
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    torch.testing.assert_close(checked(table, ids), program(table, ids))
    for beyond in (50, -50):
        wrong = ids.clone()
        wrong[0, 1] = beyond
        with pytest.raises((IndexError, RuntimeError)):
            program(table, wrong)
        with pytest.raises((IndexError, RuntimeError)):
            checked(table, wrong)


def test_starts_of_bags(tmp_path: Path) -> None:
    table, ids, starts = torch.randn(37, 8), torch.tensor([3, 0, 36, 5]), torch.tensor([0, 3, 4])
    path = tmp_path / "bags.mirage"
    mirage.export(
        lambda w, i, o: F.embedding_bag(i, w, o), table, ids, starts, path=path, options=OPTIONS
    )
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    torch.testing.assert_close(checked(table, ids, starts), F.embedding_bag(ids, table, starts))
    for wrong, text in (([0, 5, 4], "from 0 to 4, got 5"), ([1, 3, 4], "from 0 to 0, got 1")):
        with pytest.raises(ArgumentIndexError, match=rf"input 2 \(.*\): .* {text}"):
            checked(table, ids, torch.tensor(wrong))


def test_a_program_for_several_sizes_hands_it_on() -> None:
    asked: list[bool] = []

    class Launched:
        def __init__(self, artifact: Any, shares: Any, *, check_indices: bool = False) -> None:
            asked.append(check_indices)

        def __call__(self, *, inputs: Any, out: Any) -> tuple[Any, ...]:
            return ()

    sizes = SizeTable([sized_artifact(4), sized_artifact(16)], 1, 13)
    for check in (False, True):
        program = SizedExecutable(sizes, Launched, check_indices=check)  # type: ignore[arg-type]
        program(torch.zeros(6, 4))
    assert asked == [False, True]


def test_a_model_for_several_sizes_looks_at_its_indices(tmp_path: Path) -> None:
    table, ids = torch.randn(37, 16), torch.tensor([3, 0, 36, 4])
    path = tmp_path / "sized.mirage"
    size = torch.export.Dim("n", min=1, max=4)
    mirage.export(
        norm, table, ids, path=path, options=OPTIONS, dynamic_shapes=({}, {0: size})
    )  # fmt: skip
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    for n in (2, 4):
        torch.testing.assert_close(checked(table, ids[:n]), norm(table, ids[:n]))
        with pytest.raises(IndexError):
            checked(table, torch.full((n,), 37))


def test_compared_indices_of_a_model_for_several_sizes(tmp_path: Path) -> None:
    """The number of rows that are stored to grows with the size."""

    def stored(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.index_copy(0, at - 1, y) * 2.0

    x, at, y = torch.randn(4, 16), torch.tensor([1]), torch.randn(1, 16)
    path = tmp_path / "sized.mirage"
    rows = torch.export.Dim("n", min=2, max=8)
    shapes = ({0: rows}, {}, {})
    mirage.export(stored, x, at, y, path=path, options=OPTIONS, dynamic_shapes=shapes)
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    for n in (3, 8):
        x = torch.ones(n, 16)
        torch.testing.assert_close(checked(x, at, y), stored(x, at, y))
        with pytest.raises(ArgumentIndexError, match=rf"from 0 to {n - 1}, got {n} at \[0\]"):
            checked(x, torch.tensor([n + 1]), y)


def test_an_index_that_kernels_count(tmp_path: Path) -> None:
    """A kernel must not write an index that may be beyond the table for another kernel: the check
    would not see it."""

    def counted(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return F.embedding((ids != 7).sum(-1) + 1, table) * 2.0

    ids, table = torch.tensor([[7, 7, 3, 4], [7, 7, 7, 7]]), torch.randn(4, 32)
    path = tmp_path / "counted.mirage"
    mirage.export(counted, ids, table, path=path, options=OPTIONS)
    model = mirage.runtime.load(path, device="cpu", check_indices=True)
    torch.testing.assert_close(model(ids, table), counted(ids, table))
    with pytest.raises(IndexError, match=r"expected indices from 0 to 3, got 5 at \[0\]"):
        model(torch.tensor([[1, 1, 3, 4], [7, 7, 7, 7]]), table)
