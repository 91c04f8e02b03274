"""The worker's protocol, with messages written by hand."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import pytest


@contextmanager
def worker() -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO]]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-m", "mirage.passes.worker"], stdin=theirs)
    theirs.close()
    stream = cast(BinaryIO, ours.makefile("rwb"))
    try:
        assert json.loads(stream.readline())["protocol"] == 1
        yield process, stream
    finally:
        stream.close()
        ours.close()
        process.wait(timeout=10)


def ask(stream: BinaryIO, element: str, text: str) -> tuple[dict[str, Any], str]:
    payload = text.encode()
    stream.write(json.dumps({"pass": element, "length": len(payload)}).encode() + b"\n" + payload)
    stream.flush()
    header = json.loads(stream.readline())
    return header, stream.read(header["length"]).decode()


def test_requests_follow_one_another() -> None:
    with worker() as (process, stream):
        header, text = ask(stream, "mirage-test-bridge{action=annotate text=één}", "module {}")
        assert header["status"] == "changed"
        assert header["statistics"] == {"ops": 0}
        assert "bridge.text" in text
        header, again = ask(stream, "mirage-test-bridge", text)
        assert (header["status"], again) == ("unchanged", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("element", "text", "message"),
    [
        ("mirage-nothing", "module {}", "no python pass is named 'mirage-nothing'"),
        ("mirage-test-bridge{speed=1}", "module {}", "has no option 'speed'"),
        ("mirage-test-bridge", "module {", "expected operation name"),
    ],
)
def test_bad_requests_are_answered(element: str, text: str, message: str) -> None:
    with worker() as (_, stream):
        header, _ = ask(stream, element, text)
        assert header["status"] == "failed"
        assert any(message in diagnostic["message"] for diagnostic in header["diagnostics"])
        assert ask(stream, "mirage-test-bridge", "module {}")[0]["status"] != "failed"


def test_a_worker_ends_with_its_client_in_the_middle_of_a_pass() -> None:
    with worker() as (process, stream):
        payload = b"module {}"
        request = {"pass": "mirage-test-bridge{action=hang}", "length": len(payload)}
        stream.write(json.dumps(request).encode() + b"\n" + payload)
        stream.flush()
        time.sleep(0.3)
        assert process.poll() is None
    assert process.returncode == 0


def test_start_up_is_quick_and_without_torch() -> None:
    code = (
        "import sys, mirage.passes.worker; from mirage import ir;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'torch_mlir', 'ortools')))"
    )
    start = time.perf_counter()
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    # Seconds; about 0.2 on an idle machine.
    assert time.perf_counter() - start < 5
