"""Launches PTX on a GPU in a separate process, which is replaced if a kernel breaks it.

A kernel that faults leaves its process without a usable GPU, and no reset inside the process helps.
Therefore the process that compares results never touches the driver; it sends launches to a worker.

    python benchmarks/gpu_worker.py     # the worker: pickled requests in, pickled replies out
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from gpu_launcher import GpuModule, GpuTimeout, array_of, root_of
from mirage.emulator import Dependent, TensorMap, Uninitialised
from mirage.emulator.launch_arguments import memory_of
from mirage.emulator.ptx.syntax import Kernel

Array = np.ndarray[Any, Any]


class GpuError(Exception):
    """The error that the driver or the kernel reported."""


@dataclass(frozen=True)
class View:
    """An argument that uses one of a launch's memories, and the place of its elements there."""

    root: int
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    like: dict[str, Any] | type | None


@dataclass(frozen=True)
class Launch:
    """One launch as data: memories, which arguments may share, and arguments that are views or
    values."""

    ptx: str
    kernel: Kernel
    roots: tuple[Array, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def snapshot(arguments: Sequence[Any]) -> tuple[list[Array], tuple[Any, ...]]:
    """Return the arrays that own the arguments' memory, and the arguments as views of copies of
    them."""
    roots: list[Array] = []
    views: list[Any] = []
    known: dict[int, int] = {}
    for argument in arguments:
        array = array_of(argument)
        if array is None:
            views.append(argument)
            continue
        root = root_of(array)
        if id(root) not in known:
            known[id(root)] = len(roots)
            roots.append(root)
        like: Any = None
        if isinstance(argument, TensorMap):
            like = {"box": argument.box, "swizzle": argument.swizzle,
                    "oob_fill": argument.oob_fill,
                    "element_strides": argument.element_strides}  # fmt: skip
        elif isinstance(argument, Dependent):
            like = Dependent
        elif isinstance(argument, Uninitialised) and argument.written is None:
            like = Uninitialised
        offset = array.ctypes.data - memory_of(root).ctypes.data
        views.append(View(known[id(root)], offset, array.dtype, array.shape, array.strides, like))
    return roots, tuple(views)


def request_of(
    ptx: str, kernel: Kernel, arguments: Sequence[Any], options: dict[str, Any]
) -> tuple[list[Array], Launch]:
    """Return the memories of the arguments, and a call of `Emulator.launch` as data."""
    roots, views = snapshot(arguments)
    defaults: dict[str, Any] = {"cluster": (1, 1, 1), "shared_bytes": 0}
    shape = {k: options.get(k, defaults.get(k)) for k in ("grid", "block", *defaults)}
    copies = tuple(np.array(memory_of(r)) for r in roots)
    return roots, Launch(ptx, _signature(kernel), copies, views, shape)


def _argument(view: Any, roots: Sequence[Array]) -> Any:
    if not isinstance(view, View):
        return view
    array = np.ndarray(view.shape, view.dtype, roots[view.root], view.offset, view.strides)
    if isinstance(view.like, dict):
        return TensorMap(array, **view.like)
    return array if view.like is None else view.like(array)


def _signature(kernel: Kernel) -> Kernel:
    """Return the kernel without its body."""
    return replace(kernel, registers=[], variables=[], body=[], labels={})


class GpuProcess:
    """A worker; started when first needed and again after it broke."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self, request: Launch) -> list[Array]:
        """Return the memories after the launch. Raises GpuError."""
        if self.process is None:
            command = [sys.executable, __file__]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            reply = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            self.close()
            raise GpuError(f"the GPU's process ended with status {process.returncode}") from error
        if isinstance(reply, str):
            self.close()
            raise GpuError(reply)
        return reply

    def close(self) -> None:
        """End the worker."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def serve() -> None:
    """Answer requests until the input ends, with memories or the text of an error."""
    modules: dict[str, GpuModule] = {}
    output = sys.stdout.buffer
    while True:
        try:
            request: Launch = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        roots = [np.array(r) for r in request.roots]
        arguments = [_argument(v, roots) for v in request.arguments]
        reply: Any = roots
        try:
            if request.ptx not in modules:
                modules[request.ptx] = GpuModule(request.ptx)
            modules[request.ptx].launch(request.kernel, arguments, **request.options)
        except (GpuTimeout, RuntimeError, ValueError, TypeError) as error:
            reply = f"{error}"
        pickle.dump(reply, output)
        output.flush()


if __name__ == "__main__":
    import gpu_worker  # requests name the classes of this module, not of __main__

    gpu_worker.serve()
