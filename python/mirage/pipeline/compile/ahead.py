"""Programs that workers compile before it is known whether they will be chosen.

While the search looks for a better program, the first answer is compiled. It is available at once
if nothing better is verified, if the time runs out, or if the better program does not compile.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.compiler import Compiled, CompileError, CompileOptions, Names

Key = tuple[str, str]
"""The key of a compilation: a module as text, and the names of its inputs and outputs."""
Made = tuple["Compiled | CompileError", float]
"""The result of a compilation or its error, and the seconds that it took."""


def key_of(text: str, names: Names) -> Key:
    """Return a key that is equal for modules that compile to the same artifact."""
    return text, repr(names)


def made(text: str, options: CompileOptions, names: Names) -> Made:
    """Compile a module; runs in a worker."""
    from mirage.compiler import CompileError, compile_text

    start = time.perf_counter()
    try:
        compiled: Compiled | CompileError = compile_text(text, options, names=names)
    except CompileError as error:
        compiled = error
    except MirageError as error:
        compiled = CompileError(error.message)
    return compiled, time.perf_counter() - start


@dataclass
class Ahead:
    """The modules that workers compile."""

    executor: Executor
    futures: dict[Key, Future[Made]] = field(default_factory=dict[Key, "Future[Made]"])

    def start(self, text: str, options: CompileOptions, names: Names) -> None:
        """Start compiling a module in a worker; see :func:`mirage.compiler.compile_text`."""
        with contextlib.suppress(BrokenExecutor):
            self.futures[key_of(text, names)] = self.executor.submit(made, text, options, names)

    def take(self, text: str, names: Names) -> Compiled | None:
        """Return a compiled module, waiting for the worker that compiles it; None if no worker
        does. Raises :class:`mirage.compiler.CompileError`."""
        from mirage.compiler import CompileError

        future = self.futures.get(key_of(text, names))
        if future is None:
            return None
        try:
            compiled, _ = future.result()
        except BrokenExecutor:
            return None
        if isinstance(compiled, CompileError):
            raise compiled
        return compiled

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` and return whether all compilations have ended, successfully or
        not."""
        return not wait(self.futures.values(), timeout=seconds).not_done

    @property
    def done(self) -> bool:
        """Whether all compilations have ended, successfully or not."""
        return all(f.done() for f in self.futures.values())

    @property
    def seconds(self) -> float:
        """The total seconds of the compilations that have ended."""
        found = 0.0
        for future in self.futures.values():
            if future.done():
                with contextlib.suppress(BrokenExecutor):
                    found += future.result()[1]
        return found
