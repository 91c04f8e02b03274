"""Programs compiled by a worker before it is known whether they are what is handed out.

While the search looks for something better, the first answer is compiled. Where nothing better is
verified it is there at once; where the time is up, or what is better does not compile, too.
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
"""A module as text, and the names of its inputs and outputs."""
Made = tuple["Compiled | CompileError", float]
"""What was compiled, or why it was not; and the seconds that it took."""


def key_of(text: str, names: Names) -> Key:
    """Equal for what is compiled to the same."""
    return text, repr(names)


def made(text: str, options: CompileOptions, names: Names) -> Made:
    """Runs in a worker."""
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
    """What workers compile."""

    executor: Executor
    futures: dict[Key, Future[Made]] = field(default_factory=dict[Key, "Future[Made]"])

    def start(self, text: str, options: CompileOptions, names: Names) -> None:
        """Has a module compiled; see :func:`mirage.compiler.compile_text`."""
        with contextlib.suppress(BrokenExecutor):
            self.futures[key_of(text, names)] = self.executor.submit(made, text, options, names)

    def take(self, text: str, names: Names) -> Compiled | None:
        """What a module was compiled to; None where no worker has it. Waits
        for one that has. Raises :class:`mirage.compiler.CompileError`."""
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
        """Whether all was compiled, or could not be, within so many seconds."""
        return not wait(self.futures.values(), timeout=seconds).not_done

    @property
    def done(self) -> bool:
        """Whether all was compiled, or could not be."""
        return all(f.done() for f in self.futures.values())

    @property
    def seconds(self) -> float:
        """How long it took, as far as it is done."""
        found = 0.0
        for future in self.futures.values():
            if future.done():
                with contextlib.suppress(BrokenExecutor):
                    found += future.result()[1]
        return found
