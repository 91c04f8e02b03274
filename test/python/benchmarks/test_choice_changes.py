"""The commits that change choices are found between two commits; PTX is compared without the
numbers of registers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import choice_changes
from choice_of_tree import text_of

CHOICES = {"never": "aaaaaaaaa", "once": "aaaaaaabb", "twice": "abbbbbccc", "back": "abbbaaaaa"}
"""The choices for each program, commit by commit."""


class Given(choice_changes.History):
    """A history with these choices."""

    def __init__(self) -> None:
        self.commits = [f"{i:08}" + 32 * "0" for i in range(9)]
        self.likely = set()
        self.asked: set[tuple[int, str]] = set()

    def at(self, place: int, programs: Sequence[str]) -> dict[str, choice_changes.Row]:
        self.asked.update((place, name) for name in programs)
        return {name: {"graph": CHOICES[name][place]} for name in programs}

    def title(self, place: int) -> str:
        return f"Title {place}"


def test_every_commit_that_changes_a_choice_is_found() -> None:
    found = Given().changes(list(CHOICES))
    assert found == {"never": [], "once": [7], "twice": [1, 6], "back": []}


def test_a_choice_that_did_not_change_is_asked_for_at_both_ends_only() -> None:
    history = Given()
    history.changes(["never"])
    assert history.asked == {(0, "never"), (8, "never")}


def test_a_likely_commit_is_looked_beside_first() -> None:
    history = Given()
    history.likely = {6, 7}
    assert history.changes(["once"]) == {"once": [7]}
    assert history.asked == {(place, "once") for place in (0, 6, 7, 8)}


def test_a_commit_that_is_not_likely_is_found_all_the_same() -> None:
    history = Given()
    history.likely = {4, 5}
    assert history.changes(["twice"]) == {"twice": [1, 6]}


def test_an_update_keeps_the_rows_of_other_programs_and_counts_all() -> None:
    history = Given()

    def row(*commits: str) -> choice_changes.Row:
        return {"graph": "differs" if commits else "same", "commits": list(commits)}

    whole = {"once": row("00000007"), "twice": row(), "never": row()}
    earlier = choice_changes.result_of(whole, history, "first")
    later = choice_changes.result_of({"twice": row("00000001", "00000007")}, history, "second")
    found = choice_changes.updated(earlier, later, history)
    assert list(found["rows"]) == ["once", "twice", "never"]
    assert (found["programs"], found["same_graph"]) == (3, 1)
    assert found["changed_by"] == {
        "00000001": {"programs": 1, "title": "Title 1"},
        "00000007": {"programs": 2, "title": "Title 7"},
    }
    assert found["command"] == "first && second"


def test_an_update_between_other_commits_is_refused() -> None:
    history, longer = Given(), Given()
    longer.commits.append("9" * 40)
    earlier = choice_changes.result_of({}, history, "first")
    later = choice_changes.result_of({}, longer, "second")
    with pytest.raises(ValueError, match="expected choices between"):
        choice_changes.updated(earlier, later, longer)


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        ("add.f32 %f7, %f8, %f9;\n@%p4 bra $L__BB0_7;\n", None),
        ("@%p1 bra $L__BB0_1;\nadd.f32 %f1, %f2, %f3;\n", {}),
        ("add.f32 %f1, %f2, %f3;\nadd.f32 %f1, %f2, %f3;\n", {"add.f32": 1, "bra": -1}),
    ],
    ids=["registers", "order", "instructions"],
)
def test_instructions_of_ptx_are_counted(
    now: str, difference: dict[str, int] | None, tmp_path: Path
) -> None:
    folders = tmp_path / "old", tmp_path / "now"
    old = "// a comment\nadd.f32 %f1, %f2, %f3;\n@%p1 bra $L__BB0_1;\n"
    for folder, text in zip(folders, (old, now), strict=True):
        folder.mkdir()
        (folder / "kernels.ptx").write_text(text)
    assert choice_changes.ptx_difference(*folders) == difference


def test_graphs_are_the_same_whatever_the_names_of_their_values() -> None:
    def graph(name: str, fn: UnaryFn) -> KernelGraph:
        x, b = Value(TensorType((4, 8), DType.F32), name), Builder()
        y = b.unary(fn, x)
        return KernelGraph(name, (x,), tuple(b.ops), (y,))

    assert text_of(graph("x", UnaryFn.EXP)) == text_of(graph("y", UnaryFn.EXP))
    assert text_of(graph("x", UnaryFn.EXP)) != text_of(graph("x", UnaryFn.SILU))
