"""Runs passes for another process: `python -m mirage.passes.worker`.

The C++ half of a Python pass (lib/PythonPasses) starts one worker per process and talks to it over
a stream socket that is the worker's standard input. Standard output is free for prints.

Protocol, version 1. A message is one line of JSON, then as many bytes as its "length" says
(none where it has no "length"):

    worker -> {"protocol": 1}                                   once, when ready
    client -> {"pass": "mirage-foo{seed=1}", "length": n}       and the op as MLIR text
    worker -> {"status": s, "diagnostics": [d…], "statistics": {"name": count}, "length": n}

Status "changed" comes with the new text of the op, "unchanged" and "failed" with none. A
diagnostic is {"severity": "error" | "warning" | "remark", "location": "loc(…)", "message": "…",
"notes": [{"location": …, "message": …}…]}. The worker ends when the socket closes, also in the
middle of a pass.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
from collections.abc import Mapping
from importlib import import_module
from io import BufferedRWPair
from typing import TYPE_CHECKING, Any

from mirage.errors import MirageError
from mirage.passes import registry
from mirage.spare_memory import keep_spare_memory

if TYPE_CHECKING:
    from mirage import ir

PROTOCOL = 1


def main() -> None:
    """Serve requests until the client closes the connection."""
    # An interrupt ends the worker without a traceback; the client reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_spare_memory()
    channel = socket.socket(fileno=os.dup(0))
    # Nothing that a pass calls may read from the channel.
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    threading.Thread(target=_end_with_client, args=(channel,), daemon=True).start()

    import_module("mirage.ir")  # before the greeting: its cost belongs to starting up
    with channel, channel.makefile("rwb") as stream:
        _write(stream, {"protocol": PROTOCOL}, b"")
        while (line := stream.readline()).strip():
            request: dict[str, Any] = json.loads(line)
            text = stream.read(request["length"]).decode()
            header, payload = handle(request["pass"], text)
            _write(stream, header, payload.encode())


def _end_with_client(channel: socket.socket) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLRDHUP | select.POLLHUP)
    poll.poll()
    os._exit(0)


def _write(stream: BufferedRWPair, header: dict[str, Any], payload: bytes) -> None:
    stream.write(json.dumps({**header, "length": len(payload)}).encode() + b"\n" + payload)
    stream.flush()


def handle(element: str, text: str) -> tuple[dict[str, Any], str]:
    """Run the pass `element` on the op in `text`; return the reply's header and payload."""
    from mirage import ir

    diagnostics: list[dict[str, Any]] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        diagnostics.append(_describe(diagnostic))
        return True

    def reply(status: str, statistics: Mapping[str, int] | None = None) -> dict[str, Any]:
        return {
            "status": status,
            "diagnostics": diagnostics,
            "statistics": dict(statistics or {}),
        }

    try:
        python_pass, options = registry.parse_element(element)
    except (MirageError, ImportError) as error:
        diagnostics.append({"severity": "error", "message": str(error)})
        return reply("failed"), ""
    with ir.Context() as context, context.attach_diagnostic_handler(collect):
        try:
            op = ir.Operation.parse(text).operation
        except ir.MLIRError as error:
            diagnostics.extend(_describe(diagnostic) for diagnostic in error.error_diagnostics)
            diagnostics.append(
                {"severity": "error", "message": f"the python side cannot parse its input: {error}"}
            )
            return reply("failed"), ""
        counts = registry.run_pass(python_pass, op, options)
        if counts is None:
            return reply("failed"), ""
        answer = op.get_asm(enable_debug_info=True)
        if answer.rstrip() == text.rstrip():
            return reply("unchanged", counts), ""
        return reply("changed", counts), answer


def _describe(diagnostic: ir.Diagnostic | ir.DiagnosticInfo) -> dict[str, Any]:
    return {
        "severity": diagnostic.severity.name.lower(),
        "location": str(diagnostic.location),
        "message": diagnostic.message,
        "notes": [_describe(note) for note in diagnostic.notes],
    }


if __name__ == "__main__":
    main()
