"""`mirage-test-bridge`: does on request what a pass may do, and what it should not do. The tests of
the connection between `mirage-opt` and its Python worker use it. Its C++ part is in
`mirage-test-opt` (`test/PythonPasses/Bridge`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirage import ir
from mirage.passes.registry import PassError, PythonPass, remark, warn


@dataclass(frozen=True)
class TestBridgeOptions:
    """The action, and its text and numbers."""

    action: str = field(
        default="nothing",
        metadata={
            "help": "nothing, annotate, print, remark, warn, fail, fail-at-op, raise, invalid, "
            "exit, crash or hang"
        },
    )
    text: str = field(default="", metadata={"help": "what annotate or remark says"})
    values: tuple[int, ...] = field(default=(), metadata={"help": "integers that annotate records"})


def _first(op: ir.Operation) -> ir.Operation:
    return op.regions[0].blocks[0].operations[0].operation


def _annotate(op: ir.Operation, options: TestBridgeOptions) -> None:
    op.attributes["bridge.text"] = ir.StringAttr.get(options.text)
    op.attributes["bridge.values"] = ir.DenseI64ArrayAttr.get(options.values)


def _print(op: ir.Operation, options: TestBridgeOptions) -> None:
    sys.stdout.write(f"printed: {options.text}\n")
    sys.stdout.flush()


def _remark(op: ir.Operation, options: TestBridgeOptions) -> None:
    remark(_first(op), options.text)


def _warn(op: ir.Operation, options: TestBridgeOptions) -> None:
    warn(_first(op), options.text)


def _fail(op: ir.Operation, options: TestBridgeOptions) -> None:
    raise PassError(options.text)


def _fail_at_op(op: ir.Operation, options: TestBridgeOptions) -> None:
    raise PassError(options.text, _first(op))


def _raise(op: ir.Operation, options: TestBridgeOptions) -> None:
    raise KeyError(options.text)


def _invalid(op: ir.Operation, options: TestBridgeOptions) -> None:
    _first(op).attributes["function_type"] = ir.StringAttr.get("not a type")


def _exit(op: ir.Operation, options: TestBridgeOptions) -> None:
    os._exit(3)


def _crash(op: ir.Operation, options: TestBridgeOptions) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(op: ir.Operation, options: TestBridgeOptions) -> None:
    while True:
        time.sleep(1)


_ACTIONS: dict[str, Callable[[ir.Operation, TestBridgeOptions], None]] = {
    "nothing": lambda op, options: None,
    "annotate": _annotate,
    "print": _print,
    "remark": _remark,
    "warn": _warn,
    "fail": _fail,
    "fail-at-op": _fail_at_op,
    "raise": _raise,
    "invalid": _invalid,
    "exit": _exit,
    "crash": _crash,
    "hang": _hang,
}


def run(op: ir.Operation, options: TestBridgeOptions) -> Mapping[str, int]:
    """Perform `options.action`."""
    action = _ACTIONS.get(options.action)
    if action is None:
        raise PassError(f"unknown action '{options.action}' (expected {', '.join(_ACTIONS)})")
    action(op, options)
    return {"ops": sum(len(list(block.operations)) for block in op.regions[0].blocks)}


PASS = PythonPass(
    "mirage-test-bridge",
    "exercise the connection to the Python worker",
    TestBridgeOptions,
    run,
)
