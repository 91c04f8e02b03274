"""Until kernels are available, PyTorch computes the results: another process finds the kernels, and
they are swapped in between two calls. If a process fails, only its graph is lost."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.call import sized_emulator
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import load_class
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.parts import part as part_module
from mirage.torch import background as background_module
from mirage.torch.background import RUN, load_program
from mirage.torch.graph_compiler import backend
from mirage.torch.sized_graph import SizedClass
from mirage.torch.workshop import COMMAND, Workshop
from stub_workshop import HANGS, Gate, idle, settled, stub, until
from thorough import some_of
from torch._dynamo.exc import BackendCompilerFailed
from torch_programs.op_by_op import op_by_op

OPTIONS = {
    "chip": "sm_90a", "candidates": 1, "finalists": 1, "jobs": 1, "cubin": False, "budget": 1000.0
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def emulated(program: Program, options: Mapping[str, Any]) -> Any:
    """The kernels that were found, run in the emulator."""
    return partial(emulate, load_program(program, options))


def swapped(program: Program, options: Mapping[str, Any]) -> Any:
    """In place of kernels: the program op by op, regardless of the result."""
    return op_by_op(program, options)


def host(workshop: Workshop, load: Any = swapped, **more: Any) -> Any:
    return partial(
        backend, devices=("cpu",), workshop=workshop, load=load, **{"options": OPTIONS, **more}
    )


def function(x: torch.Tensor) -> Any:
    y = torch.softmax(x * 2, dim=-1)
    return y.t(), x.t(), y[1:]


def as_eager(got: Any, want: Any, x: torch.Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    assert [y.stride() for y in got] == [y.stride() for y in want]
    storages = [[y.untyped_storage().data_ptr() for y in ys] for ys in (got, want)]
    for places in storages:
        assert places[0] == places[2] != places[1]
        assert places[1] == x.untyped_storage().data_ptr()


# ---- the swap


def test_kernels_come_between_two_calls(gate: Gate) -> None:
    """End to end, with a real compile process and real kernels."""
    x = torch.randn(4, 6)
    graphs: list[Any] = []
    code = f"{gate.code}; import runpy; runpy.run_module({COMMAND[2]!r}, run_name='__main__')"
    workshop = Workshop(1, (sys.executable, "-c", code))
    watched = host(workshop, emulated, watch=graphs.append)
    fast = torch.compile(function, backend=watched)
    as_eager(fast(x), function(x), x)
    (graph,) = graphs
    assert graph.compiled is None
    assert "PyTorch answers, being compiled for" in str(mirage.torch.explain())
    gate.open()
    settled(graph)
    assert not graph.reason
    as_eager(fast(x), function(x), x)
    said = str(mirage.torch.explain()).splitlines()
    assert said[-1] == "graph 0: 5 ops, compiled" or "compiled" in said[-1]
    until(lambda: not workshop._children)  # nothing is left to do


def test_a_second_start_has_kernels_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 6)
    blocking = {**OPTIONS, "blocking": True}
    torch.compile(function, backend=host(Workshop(1), emulated, options=blocking))(x)
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    for name in ("search_part", "verify_candidates"):
        monkeypatch.setattr(part_module, name, lambda *_: pytest.fail("searched again"))
    graphs: list[Any] = []
    none = Workshop(1, ("/bin/false",))
    fast = torch.compile(function, backend=host(none, emulated, watch=graphs.append))
    as_eager(fast(x), function(x), x)
    (graph,) = graphs
    assert graph.compiled is not None
    assert not none._workers


def test_classes_of_sizes_come_between_two_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a real compile process; a second start does not search."""

    def emulated_class(found: SizedClass, options: Mapping[str, Any]) -> Any:
        chosen = {k: v for k, v in options.items() if k != RUN}
        kept = load_class(found.source, OptimizeOptions.of(**chosen), run=False)
        assert kept is not None
        return found.runner(kept, sized_emulator)

    def started(workshop: Workshop) -> list[Any]:
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        graphs: list[Any] = []
        watched = host(workshop, load_class=emulated_class, watch=graphs.append)
        fast = torch.compile(lambda x: torch.softmax(x * 2, -1), backend=watched, dynamic=True)
        for n in (5, 7):
            x = torch.randn(n, 6)
            torch.testing.assert_close(fast(x), torch.softmax(x * 2, -1), rtol=1e-3, atol=1e-4)
            settled(graphs[-1])
        (graph,) = graphs
        assert not graph.reason
        assert graph.sizes.endswith("up to 8")
        return graphs

    started(Workshop(1))
    for name in ("search_part", "verify_candidates"):
        monkeypatch.setattr(part_module, name, lambda *_: pytest.fail("searched again"))
    started(Workshop(1, ("/bin/false",)))


def test_blocking_waits() -> None:
    x = torch.randn(4, 6)
    graphs: list[Any] = []
    fast = torch.compile(
        function,
        backend=host(stub(), watch=graphs.append, options={**OPTIONS, "blocking": True}),
    )
    as_eager(fast(x), function(x), x)
    assert graphs[0].compiled is not None


def test_calls_from_several_threads_while_kernels_come(gate: Gate) -> None:
    x = torch.randn(4, 6)
    graphs: list[Any] = []
    fast = torch.compile(function, backend=host(stub(gate.code), watch=graphs.append))
    want = function(x)
    fast(x)
    wrong: list[BaseException] = []
    stop = threading.Event()
    called = threading.Semaphore(0)

    def calls() -> None:
        try:
            while not stop.is_set():
                as_eager(fast(x), want, x)
                called.release()
        except BaseException as error:
            wrong.append(error)
            called.release()

    threads = [threading.Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert called.acquire(timeout=HANGS)  # a call before there are kernels
    gate.open()
    settled(graphs[0])
    for _ in range(2 * len(threads)):  # and calls after
        assert called.acquire(timeout=HANGS)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_inputs_that_are_written_to_before_and_after(gate: Gate) -> None:
    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y * 2)
        return x * y

    graphs: list[Any] = []
    fast = torch.compile(update, backend=host(stub(gate.code), watch=graphs.append))
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    mine, theirs = x.clone(), x.clone()
    for ready in (False, True):
        torch.testing.assert_close(fast(mine, y), update(theirs, y))
        torch.testing.assert_close(mine, theirs)
        assert (graphs[0].compiled is not None) == ready
        gate.open()
        settled(graphs[0])


# ---- failures


FAILURES = {
    "a crash": ("os._exit(3)", "the compile process ended (exit code 3)"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "the compile process ended (signal 9)"),
    "an error of Python": (
        "raise RuntimeError('no memory')",
        "the compile process ended (exit code 1: RuntimeError: no memory)",
    ),
    "half an answer": (
        "answers.write(b'\\0' * 12); answers.flush(); os._exit(0)",
        "stays with PyTorch",
    ),
    "no result": (
        "c.write_message(answers, {'error': 'nothing found'}); continue",
        "nothing found",
    ),
}


@pytest.mark.parametrize("name", some_of(FAILURES, every=2))
@pytest.mark.parametrize("blocking", some_of([False, True], 2))
def test_a_process_that_fails_leaves_the_graph_to_pytorch(
    name: str, blocking: bool, caplog: pytest.LogCaptureFixture
) -> None:
    what, message = FAILURES[name]
    x = torch.randn(4, 6)
    graphs: list[Any] = []
    options = {**OPTIONS, "blocking": blocking}
    fast = torch.compile(function, backend=host(stub(what), watch=graphs.append, options=options))
    as_eager(fast(x), function(x), x)
    settled(graphs[0])
    assert graphs[0].reason
    as_eager(fast(x), function(x), x)
    assert message in caplog.text
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert "stays with PyTorch" in caplog.text


def test_one_that_is_killed_costs_one_graph(caplog: pytest.LogCaptureFixture) -> None:
    """The next one gets a new process."""
    marks = "if os.environ.get('KILL') or request['options'].get('seed') == 7: os._exit(9)"
    workshop = stub(marks)
    graphs: list[Any] = []
    x = torch.randn(4, 6)
    first = host(workshop, watch=graphs.append, options={**OPTIONS, "seed": 7})
    second = host(workshop, watch=graphs.append)
    torch.compile(lambda t: t * 2, backend=first)(x)
    torch.compile(lambda t: t * 3, backend=second)(x)
    for graph in graphs:
        settled(graph)
    assert len(graphs) == 2
    assert graphs[0].reason
    assert graphs[1].compiled
    assert "exit code 9" in caplog.text


def test_a_command_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    graphs: list[Any] = []
    workshop = Workshop(1, ("/nowhere/python",))
    x = torch.randn(4, 6)
    torch.compile(function, backend=host(workshop, watch=graphs.append))(x)
    settled(graphs[0])
    assert graphs[0].reason
    assert "No such file" in caplog.text


def test_an_answer_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_module, "PATIENCE", 0.3)
    graphs: list[Any] = []
    options = {**OPTIONS, "budget": 0.01}
    x = torch.randn(4, 6)
    torch.compile(
        function, backend=host(stub("time.sleep(60)"), watch=graphs.append, options=options)
    )(x)
    settled(graphs[0])
    assert graphs[0].reason
    assert "gave no answer within" in caplog.text


def test_what_cannot_be_loaded_stays_with_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    graphs: list[Any] = []
    x = torch.randn(4, 6)
    torch.compile(function, backend=host(stub(), load_program, watch=graphs.append))(x)
    settled(graphs[0])
    assert graphs[0].reason
    assert "its kernels cannot be loaded" in caplog.text


def test_what_is_kept_and_cannot_be_loaded_is_searched_again() -> None:
    x = torch.randn(4, 6)
    blocking = {**OPTIONS, "blocking": True}
    torch.compile(function, backend=host(Workshop(1), emulated, options=blocking))(x)
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    loads: list[Any] = []

    def load(program: Program, options: Mapping[str, Any]) -> Any:
        loads.append(options)
        if len(loads) == 1:
            raise background_module.NotFoundError("it was there a moment ago")
        return op_by_op(program, options)

    graphs: list[Any] = []
    fast = torch.compile(function, backend=host(stub(), load, watch=graphs.append))
    as_eager(fast(x), function(x), x)
    settled(graphs[0])
    assert graphs[0].compiled is not None
    assert len(loads) == 2


# ---- processes


def test_there_are_few_processes(gate: Gate) -> None:
    workshop = stub(gate.code, processes=2)
    graphs: list[Any] = []
    x = torch.randn(4, 6)
    for factor in range(6):
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        torch.compile(lambda t, f=factor: t * f, backend=host(workshop, watch=graphs.append))(x)
    until(lambda: len(workshop._children) == 2)  # they wait, and there are no others
    assert len(workshop._workers) == 2
    gate.open()
    for graph in graphs:
        settled(graph)
        assert graph.compiled is not None
    idle()
    assert not workshop._children
    assert not workshop._workers


def test_their_number_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Workshop().processes == 1
    monkeypatch.setenv("MIRAGE_COMPILE_PROCESSES", "3")
    assert Workshop().processes == 3
    monkeypatch.setenv("MIRAGE_COMPILE_PROCESSES", "many")
    assert Workshop().processes == 1


EXIT = """
import sys, time
from mirage.torch.workshop import Job, Workshop
assert "torch" not in sys.modules
from mirage.frontend.program import Program
from mirage.semantics.ugraph import KernelGraph
workshop = Workshop(1, (sys.executable, "-c", "import time; time.sleep(600)"))
request = {"program": Program(KernelGraph("g", (), (), ())), "options": {}, "sized": None}
workshop.submit(Job(request, lambda job: None))
while not workshop._children:
    time.sleep(0.01)
(child,) = workshop._children
print(child.pid, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_processes_end_with_the_one_that_started_them(end: str) -> None:
    sleep = COMMAND[2] if end == "kill" else ""
    code = (
        EXIT
        if not sleep
        else EXIT.replace('(sys.executable, "-c", "import time; time.sleep(600)")', "()").replace(
            "Workshop(1, ())", "Workshop(1)"
        )
        + "\ntime.sleep(600)\n"
    )
    path = os.pathsep.join(sys.path)
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    if end == "kill":
        parent.send_signal(signal.SIGKILL)
    parent.wait(HANGS)
    until(lambda: not _alive(child))


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_compile_process_sees_no_gpu_and_imports_no_torch() -> None:
    code = "import os, sys; import mirage.pipeline.optimize as o; "
    code += "import mirage.pipeline.commands.compile_process; "
    code += "print(sorted({'torch', 'torch_mlir'} & set(sys.modules)), o.__name__)"
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.startswith("[]"), done.stderr
    from mirage.torch.workshop import environment

    assert environment()["CUDA_VISIBLE_DEVICES"] == ""


# ---- options and explanations


@pytest.mark.parametrize("value", [1, "yes", None])
def test_blocking_is_true_or_false(value: Any) -> None:
    with pytest.raises(BackendCompilerFailed, match="expected blocking to be True or False"):
        torch.compile(function, backend=host(stub(), options={"blocking": value}))(
            torch.randn(4, 6)
        )


def test_a_misspelled_option_names_blocking_too() -> None:
    with pytest.raises(BackendCompilerFailed, match="expected options among blocking, chip"):
        torch.compile(function, backend=host(stub(), options={"blocked": True}))(torch.randn(4, 6))


def test_explain_forgets_graphs_that_are_gone() -> None:
    workshop = stub()
    graphs: list[Any] = []
    fast = torch.compile(function, backend=host(workshop, watch=graphs.append))
    fast(torch.randn(4, 6))
    settled(graphs[0])
    idle()
    count = len(background_module.reports())
    assert count >= 1
    graphs.clear()
    del fast
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    gc.collect()
    assert len(background_module.reports()) < count


def test_options_that_no_process_can_have() -> None:
    said: list[str] = []
    graphs: list[Any] = []
    options = {**OPTIONS, "watch": said.append}
    fast = torch.compile(function, backend=host(stub(), watch=graphs.append, options=options))
    fast(torch.randn(4, 6))
    settled(graphs[0])
    assert graphs[0].compiled is not None
