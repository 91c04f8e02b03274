"""Peers that are compiled in parallel: their machine code is kept, and no choice among them."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import compile_peers
import pytest
from compile_peers import forget_choices


def test_machine_code_is_kept_and_choices_are_not(tmp_path: Path) -> None:
    kept = {"triton/0/kernel.cubin", "ab/kernel.py"}
    choices = {"cache/x", "fxgraph/a/b", "aotautograd/c", "ab/kernel.best_config"}
    for name in kept | choices:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    forget_choices(tmp_path)
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert left == kept


BROKEN = """
import os
import compile_peers

def compile_part(task):
    name, part, *_ = task
    if part == 0 and name == "ends":
        (compile_peers._lost / f"{name}.{part}").write_text("illegal access")
        os._exit(1)
    return name, "an error" if part == 1 and name == "fails" else ""
"""
"""A stand-in for the work: one part fails, and the process of another one ends."""


def test_a_process_that_ends_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_peers.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    lost = tmp_path / "lost"
    lost.mkdir()
    names = ("ends", "fails", "runs")
    tasks = [task for name in names for task in compile_peers.tasks_of(name, autotune=False)]
    arguments = argparse.Namespace(processes=1, seconds=30.0)
    do = importlib.import_module("broken_peers").compile_part
    left = compile_peers.work(tasks, lost, arguments, do)
    assert {name: left[name] for name in names} == {"ends": 1, "fails": 1, "runs": 0}


def test_only_named_programs_are_autotuned() -> None:
    assert compile_peers.is_autotuned("a", [])
    assert compile_peers.is_autotuned("a", ["a", "b"])
    assert not compile_peers.is_autotuned("c", ["a", "b"])
    assert not compile_peers.is_autotuned("a", None)
