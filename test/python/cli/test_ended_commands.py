"""``mirage optimize`` that is ended: by Ctrl-C with a result, by SIGTERM with all its workers; and
a folder that cannot be written, which is detected first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mirage.cli import main
from mirage.mlir_io import graph_to_text
from mirage.workloads import get
from mirage.workloads.layers import Layer, llama_layer

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True).half().eval()
example_inputs = (torch.randn(2, 16, 64).half(),)
"""
COMMAND = "import sys; from mirage.cli import main; sys.exit(main())"
needs_processes = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="Linux alone")


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return f"{file}:layer"


def workers_of(process: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return [int(n) for t in tasks for n in (t / "children").read_text().split()]
    except OSError:
        return []


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_working(process: int) -> bool:
    """Return whether a process has used a fifth of a second of processor time."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return sum(map(int, fields[11:13])) > os.sysconf("SC_CLK_TCK") / 5


@needs_processes
@pytest.mark.parametrize(
    ("number", "code", "kept"), [(signal.SIGINT, 0, True), (signal.SIGTERM, 143, False)]
)
def test_signals(number: signal.Signals, code: int, kept: bool, tmp_path: Path) -> None:
    target, file = tmp_path / "out.mirage", tmp_path / "program.mlir"
    # As text, because the import of PyTorch takes longer than everything else. The kernels of a
    # small layer, which are kept, are compiled soon.
    small = llama_layer("layer", 2, Layer(64, 4, 2, 16, 128, cached=48))
    layer = small if kept else get("llama3_8b_layer_bs1")
    file.write_text(graph_to_text(layer.graph()))
    words = [
        "optimize",
        str(file),
        "-o",
        str(target),
        "--budget",
        "300",
        "--jobs",
        "2",
        "--no-cache",
    ]
    run = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        until = time.monotonic() + 120.0
        # A search that has not begun has nothing to keep.
        while len(workers := workers_of(run.pid)) < 2 or not any(map(is_working, workers)):
            assert run.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        assert workers
        run.send_signal(number)
        said, _ = run.communicate(timeout=120.0)
    finally:
        run.kill()
    assert run.returncode == code, said
    assert (target / "manifest.json").exists() is kept
    while any(map(is_there, workers)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(is_there, workers))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="Linux alone")
@pytest.mark.parametrize("folder", ["/proc/nothing", "file/out.mirage"])
def test_a_folder_that_cannot_be_written_is_found_out_first(
    folder: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Also for a user with all permissions."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("mirage.cli.commands.optimize.optimize_shown", None)  # never called
    code = main(["optimize", program, "-o", str(tmp_path / folder)])
    assert code == 2
    assert "expected a folder that can be written" in capsys.readouterr().err


def test_sigterm_while_the_file_runs_is_no_fault_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["optimize", f"{file}:layer"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143
