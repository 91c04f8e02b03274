"""The benchmark script from end to end with a simulated GPU: the numbers are fake, the rest is
real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_artifacts.small_artifact import small_artifact

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import run as script
from mirage.runtime import write_artifact
from mirage.workloads import get
from mirage.workloads.linear import lora

WORKLOAD = lora("tiny", 2, 16, 4, 8)


class FakeGraph:
    """Remembers nothing: replay runs the captured calls again."""

    recording: FakeGraph | None = None

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def replay(self) -> None:
        for call in self.calls:
            call()


class FakeEvent:
    def __init__(self, **_: object) -> None:
        self.time = 0.0

    def record(self) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return (other.time - self.time) * 1e3


class FakeProgram:
    """Stands for an executable; ``error`` is added to its results."""

    def __init__(self, error: float) -> None:
        self.error = error
        self.manifest = small_artifact().manifest

    def __call__(self, *, inputs: Any, out: Any = None) -> tuple[torch.Tensor, ...]:
        result = WORKLOAD.module(*inputs) + self.error
        if out is None:
            return (result,)
        if FakeGraph.recording is not None:
            FakeGraph.recording.calls.append(lambda: out[0].copy_(result))
        out[0].copy_(result)
        return tuple(out)


class Drawn(script.PreparedInputs):
    """Draws inputs when they are requested, in this process."""

    def of(self, name: str) -> dict[int, script.Inputs]:
        return {seed: WORKLOAD.torch_inputs(seed) for seed in script.CHECKED_SEEDS}


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def capture(graph: FakeGraph) -> Iterator[None]:
        FakeGraph.recording = graph
        yield
        FakeGraph.recording = None

    @contextmanager
    def on_stream(_: object) -> Iterator[None]:
        yield

    stream = SimpleNamespace(wait_stream=lambda _: None)
    device = SimpleNamespace(name="pretended", multi_processor_count=1)
    fakes: dict[str, Any] = {
        "is_available": lambda: True,
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda _: device,
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": on_stream,
        "CUDAGraph": FakeGraph,
        "graph": capture,
        "Event": FakeEvent,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(script.timing, "COLD_BYTES", 4096)
    monkeypatch.setattr(script.timing, "FAR_SLOWER", float("inf"))  # these times mean nothing
    monkeypatch.setattr(script, "get", lambda name: WORKLOAD)
    monkeypatch.setattr(script, "PreparedInputs", Drawn)


def measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: float, *options: str
) -> tuple[int, dict[str, Any], str]:
    write_artifact(small_artifact(), tmp_path / "in" / "lora_m1.mirage")
    write_artifact(small_artifact(), tmp_path / "in" / "lora_m1@1.mirage")
    monkeypatch.setattr(script, "load", lambda path: FakeProgram(error))
    arguments = ["run.py", "--artifacts", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", [*arguments, "--rounds", "3", *options])
    code = script.main()
    data = json.loads((tmp_path / "out" / "h200.raw.json").read_text())
    return code, data, (tmp_path / "out" / "h200.md").read_text()


@pytest.mark.usefixtures("fake_gpu")
def test_right_results_are_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, data, table = measure(monkeypatch, tmp_path, 0.0, "--no-baselines")
    assert code == 0
    (row,) = data["results"]
    assert row["name"] == "lora_m1"
    assert set(row["candidates"]) == {"mirage", "mirage@1"}
    assert row["correct"]
    assert row["errors"]["mirage"] == row["errors"]["mirage@1"] == row["errors"]["eager"]
    for what in ("cold", "hot", "plain"):
        assert set(row[what]) == {"mirage", "mirage@1", "eager"}
        assert row[what]["mirage"]["median"] > 0
    assert row["cold"]["mirage"]["rounds"] == 3
    assert row["best"] in ("mirage", "mirage@1")
    assert "| lora_m1 |" in table
    assert (tmp_path / "out" / "h200.png").exists()


@pytest.mark.usefixtures("fake_gpu")
def test_wrong_results_are_not_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, data, table = measure(monkeypatch, tmp_path, 0.5, "--no-baselines")
    assert code == 1
    assert not data["results"][0]["correct"]
    assert "cold" not in data["results"][0]
    assert "**wrong**" in table


@pytest.mark.usefixtures("fake_gpu")
def test_time_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, data, _ = measure(monkeypatch, tmp_path, 0.0, "--no-baselines", "--seconds", "-1")
    assert code == 1
    assert all("not run" in row["error"] for row in data["results"])


def test_inputs_are_drawn_ahead() -> None:
    with script.PreparedInputs(["lora_m1", "softmax_n256"], [3], device="cpu") as prepared:
        (inputs,) = prepared.of("lora_m1").values()
    wanted = get("lora_m1").torch_inputs(3)
    assert all(torch.equal(x, y) for x, y in zip(inputs, wanted, strict=True))


def test_what_runs_on_the_gpus_machine_needs_no_compiler() -> None:
    scripts = "activations calibrate dynamic_sizes host_time large_models off_by_one run sanitize"
    code = "\n".join(
        (
            "import importlib, sys",
            "sys.modules['mirage._target'] = sys.modules['mirage.ir'] = None",
            f"for name in {scripts.split()}: importlib.import_module(name)",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path_of_scripts()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def path_of_scripts() -> str:
    return os.pathsep.join((str(script.HERE), os.environ["PYTHONPATH"]))


def test_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(
        sys, "argv", ["run.py", "--artifacts", str(tmp_path), "--out", str(tmp_path)]
    )
    assert script.main() == 2


def test_peers_keep_their_results() -> None:
    """The memory of a freed result, which is in L2, goes to the next call."""
    made: list[weakref.ref[torch.Tensor]] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        result = x + 1
        made.append(weakref.ref(result))
        return result

    call = script.keeping(program, [(torch.zeros(4),), (torch.ones(4),)])
    for i in (0, 1, 0):
        call(i)
    assert [ref() is not None for ref in made] == [False, True, True]


def test_programs_are_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    for name in ("mm_1024", "mm_2048", "gqa_bs1_kv4096", "mm_2048@1"):
        (tmp_path / f"{name}.mirage").mkdir()
    assert list(script.find(tmp_path, ())) == ["gqa_bs1_kv4096", "mm_1024", "mm_2048"]
    found = script.find(tmp_path, ("mm_2048", "gqa"))
    assert list(found) == ["mm_2048", "gqa_bs1_kv4096"]
    assert list(found["mm_2048"]) == ["mirage", "mirage@1"]
