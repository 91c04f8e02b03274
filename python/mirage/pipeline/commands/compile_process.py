"""A process that optimizes programs for another one:
``python -m mirage.pipeline.commands.compile_process``.

It reads requests from standard input and writes answers to its original standard output. Both are
pickles of plain data and µGraphs, each preceded by its length, exchanged between two processes of
one user that run the same code. A request is a program (without the tensors that it holds) and
options, and perhaps the class of sizes that it stands for; the answer has the entries of the cache
that the search read and wrote, so that the other process can load the result without a disk.
Meanwhile the process reports its progress. Warnings in its logs, such as that the cache cannot be
written, go with the answer.

The process sees no GPU: the model that waits for it may need all of its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from mirage.spare_memory import keep_spare_memory

_LENGTH = struct.Struct(">Q")
_PR_SET_PDEATHSIG = 1
NICE = 5
"""The increase of the niceness over that of the waiting process."""
PAUSE = 0.2
"""Seconds between two progress messages."""

Entries = dict[tuple[str, str], bytes]


def write_message(file: BinaryIO, message: object) -> None:
    """Sends one message."""
    data = pickle.dumps(message)
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def read_message(file: BinaryIO) -> Any:
    """Return the next message. Raises ``EOFError`` if there is none."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


class _Progress:
    """Sends progress messages, at a limited rate."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.last = file, 0.0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last >= PAUSE:
            self.last = now
            write_message(self.file, {"progress": text})


class _Said(logging.Handler):
    """Collects warnings, by the names of their logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append((record.name, record.getMessage()))

    def taken(self) -> list[tuple[str, str]]:
        """Return what was collected since the last call."""
        texts, self._texts = self._texts, []
        return texts


def answer(request: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Return the answer to a request: ``entries``, or an ``error`` in one line."""
    from mirage.cache import Store, shared_store
    from mirage.cache import store as store_module
    from mirage.errors import MirageError
    from mirage.pipeline.optimize import optimize, optimize_class
    from mirage.pipeline.options import OptimizeOptions

    options = dict(request["options"])
    store = shared_store()
    if not options.pop("use_cache", True):  # nothing may be on disk: keep it in memory
        store = Store(None, 1)
    entries: Entries = {}
    store.seen = entries
    try:
        with store_module.shared_as(store):
            chosen, sized = OptimizeOptions.of(**options, progress=progress), request.get("sized")
            if sized is None:
                optimize(request["program"], chosen)
            else:
                optimize_class(sized[0], chosen, sized[1])
    except MirageError as error:
        return {"error": error.message.partition("\n")[0]}
    except Exception as error:  # after an internal error, PyTorch runs the graph
        return {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    finally:
        store.seen = None
    return {"entries": entries}


def serve(answer: Callable[[dict[str, Any], Any], dict[str, Any]] = answer) -> None:
    """Answers requests until there are no more; ``answer`` takes a request and a function that is
    called with the current activity."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        os.nice(NICE)
    keep_spare_memory()
    said = _Said()
    logging.getLogger("mirage").addHandler(said)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not be read as a message
    while True:
        try:
            request = read_message(requests)
        except EOFError:
            return
        try:
            answered = answer(request, _Progress(answers))
            write_message(answers, {**answered, "said": said.taken()})
        except BrokenPipeError:
            return


if __name__ == "__main__":
    serve()
