"""The benchmark of layers: processes that end, runs that continue, and the contents of the
table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

pytest.importorskip("transformers")
pytest.importorskip("diffusers")

import layers
import torch
import usage
from layer_run import mapped
from layer_table import error_ratio, markdown, summary

ROW = {
    "case": "swiglu",
    "width": "real",
    "total_s": 21.0,
    "kernels": 2,
    "own_ops": 1,
    "by": "emulator",
    "verdicts": {"proved": 2},
    "right": True,
    "error_ours": [3e-4, 1e-3],
    "error_torch": [2e-4, 1e-3],
    "fell_back": ["part 1 keeps its own ops: the budget of 20 s is used up"],
    "peak_mib": 700.0,
}


def test_work_is_done_in_a_process_of_its_own() -> None:
    found = layers.apart(lambda show: {"process": os.getpid(), "x": 1 / 3}, 60.0)
    assert found["process"] != os.getpid()
    assert found["x"] == 0.3333


def slow(show: Any) -> dict[str, Any]:
    show("verify: candidate 0")
    time.sleep(60.0)
    return {}


def dies(show: Any) -> dict[str, Any]:
    show("compile")
    os._exit(3)


def test_work_that_does_not_end_is_ended() -> None:
    start = time.perf_counter()
    assert layers.apart(slow, 1.0)["error"] == "verify: took more than 1 s in all"
    assert time.perf_counter() - start < 30.0
    assert layers.apart(dies, 60.0)["error"] == "compile: the process died with exit code 3"


def test_who_ends_a_run_ends_its_processes(tmp_path: Path) -> None:
    """They lead separate sessions."""

    def waits(show: Any) -> dict[str, Any]:
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(60.0)
        return {}

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            layers.apart(waits, 50.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "process").read_text()), 0)


def run_in(folder: Path) -> layers.Run:
    return layers.Run(argparse.Namespace(budget=20.0, jobs=1, limit=60.0), folder)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """It does not continue with the results of an older run that was complete."""
    older = run_in(tmp_path)
    older.rows = {("swiglu", "real"): ROW, ("mixer", "small"): {"case": "mixer", "width": "small"}}
    older.write(5.0)
    assert "kept" not in json.loads((tmp_path / "layers.json").read_text())["rows"][0]
    again = run_in(tmp_path)
    again.resume()
    assert again.rows == older.rows
    run_in(tmp_path)._add(("swiglu", "small"), {"total_s": 1.0})
    assert list((tmp_path).glob(layers.PARTIAL))
    again.resume()
    assert list(again.rows) == [("swiglu", "small")]


def test_the_table_says_what_is_late_and_what_fell_back() -> None:
    assert error_ratio(ROW) == pytest.approx(1.5)
    found = summary([ROW, {**ROW, "total_s": 20.2, "fell_back": []}], 20.0)
    assert (found["in_time"], found["fell_back"], found["right"]) == (1, 1, 2)
    text = markdown([ROW], "command", "machine", 20.0)
    assert "3.0e-04 / 2.0e-04 = 1.50 | emulator | ok" in text
    assert "- swiglu, real: part 1 keeps its own ops: the budget of 20 s is used up." in text


def test_what_processes_share_counts_once() -> None:
    """Also while they begin: 100 MiB of one process, and processes that share them."""
    held = b"\1" * (100 << 20)
    alone = usage.memory_of(os.getpid())
    assert alone > 100.0
    code = "import time; time.sleep(30)"
    child = subprocess.Popen([sys.executable, "-c", code])
    forked = os.fork()
    if not forked:
        time.sleep(30.0)
        os._exit(0)
    try:
        assert usage.memory_of(os.getpid()) < alone + 60.0
    finally:
        os.kill(forked, 9)
        os.waitpid(forked, 0)
        child.kill()
        child.wait()
    assert len(held) == 100 << 20


@pytest.mark.parametrize("shape", [(), (0, 3), (7, 5)])
def test_weights_that_nobody_has_written_to(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.ones(shape, dtype=dtype)
        like = mapped(x)
        assert (like.shape, like.dtype, like.stride()) == (x.shape, x.dtype, x.stride())
        assert not like.any()  # untouched memory is zero
