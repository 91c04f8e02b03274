"""The definition of passes written in Python, their lookup, and their execution in a `PassManager`.

A pass `mirage-foo-bar` is the module `mirage.passes.foo_bar` with an object `PASS`:

    @dataclass(frozen=True)
    class FooBarOptions:
        seed: int = 0
        limit: float = 10.0

    def run(op: ir.Operation, options: FooBarOptions) -> Mapping[str, int] | None:
        ...

    PASS = PythonPass("mirage-foo-bar", "do foo to the bar", FooBarOptions, run)

`run` changes `op` (a `builtin.module`) in place and may return counts by name (statistics). It
raises `PassError` to report an error at an operation, and calls `warn` and `remark` for the rest.
The same pass runs

- in this process, mixed with C++ passes: `add_to(pass_manager, "mirage-foo-bar", seed=1)`;
- from `mirage-opt --mirage-foo-bar=seed=1` and textual pipelines, in a worker process
  (`mirage.passes.worker`), once include/mirage/PythonPasses/Passes.td declares it.

Nothing here imports the compiled bindings or a pass before it is needed. Modules of this package
that are not passes start with an underscore or are packages.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mirage.errors import MirageError, OperationError
from mirage.passes.option_text import NoOptions as NoOptions
from mirage.passes.option_text import PassOptionError, make_options

if TYPE_CHECKING:
    from mirage import ir
    from mirage.passmanager import PassManager

Options = TypeVar("Options")

_PREFIX = "mirage-"
_NOT_PASSES = frozenset({"option_text", "registry", "worker"})


class PassError(OperationError):
    """A pass cannot do its work; reported at `op`, or at the op that the pass ran on."""


@dataclass(frozen=True)
class PythonPass(Generic[Options]):
    """A pass: its flag, one line about it, the type of its options, and what it does."""

    name: str
    summary: str
    options: type[Options]
    """A frozen dataclass, every field with a default; `max_blocks` is the option `max-blocks`."""
    run: Callable[[ir.Operation, Options], Mapping[str, int] | None]


def names() -> tuple[str, ...]:
    """Return the names of the available passes, sorted."""
    import mirage.passes

    modules = iter_modules(mirage.passes.__path__)
    return tuple(
        sorted(
            _PREFIX + module.name.replace("_", "-")
            for module in modules
            if not module.ispkg
            and module.name not in _NOT_PASSES
            and not module.name.startswith("_")
        )
    )


def load(name: str) -> PythonPass[Any]:
    """Import and return the pass `name`. Raises PassError if there is none."""
    if name not in names():
        raise PassError(f"no python pass is named '{name}'; there are {', '.join(names())}")
    return import_module("mirage.passes." + name.removeprefix(_PREFIX).replace("-", "_")).PASS


def remark(op: ir.Operation, message: str) -> None:
    """Report a fact about `op` that is worth knowing, as a diagnostic."""
    from mirage._mlir_libs import _mirage

    _mirage.emit_remark(op.location, message)


def warn(op: ir.Operation, message: str) -> None:
    """Report a doubt about `op` that does not stop the pass, as a diagnostic."""
    from mirage._mlir_libs import _mirage

    _mirage.emit_warning(op.location, message)


def run_pass(
    python_pass: PythonPass[Options], op: ir.Operation, options: Options
) -> Mapping[str, int] | None:
    """Run a pass and check its result. Return its counts, or None if it failed.

    Errors of every kind have been emitted as diagnostics at their operation by then: a pass's own
    (`MirageError`), the verifier's, and bugs, which name the exception; `MIRAGE_DEBUG=1` prints
    their traceback.
    """
    from mirage import ir

    try:
        counts = python_pass.run(op, options) or {}
        op.verify()
    except OperationError as error:
        (error.op or op).location.emit_error(str(error))
    except MirageError as error:
        op.location.emit_error(str(error))
    except ir.MLIRError as error:
        for diagnostic in error.error_diagnostics:
            diagnostic.location.emit_error(diagnostic.message)
        op.location.emit_error(f"pass '{python_pass.name}' failed: {error.message}")
    except (Exception, SystemExit) as error:
        if os.environ.get("MIRAGE_DEBUG"):
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        op.location.emit_error(
            f"internal error in pass '{python_pass.name}': {what} "
            "(MIRAGE_DEBUG=1 shows the traceback)"
        )
    else:
        return counts
    return None


def add_to(pass_manager: PassManager, name: str, **options: object) -> None:
    """Append the pass `name` to `pass_manager`, to run in this process on its op (a module).

    `options` are fields of the pass's options dataclass. Raises PassError when there is no such
    pass, PassOptionError when it has no such option. The pass reports failure like a C++ pass: the
    manager's `run` raises `MLIRError` with the diagnostics.
    """
    python_pass = load(name)
    try:
        chosen = python_pass.options(**options)
    except TypeError as error:
        raise PassOptionError(f"pass '{name}': {error}") from None

    def run(op: ir.Operation, handle: Any) -> None:
        if run_pass(python_pass, op, chosen) is None:
            handle.signal_pass_failure()

    # Not restricted to modules with `op_name`: MLIR 22 keeps a pointer into that string.
    pass_manager.add(run, name=name, argument=name)


def parse_element(element: str) -> tuple[PythonPass[Any], Any]:
    """Return the pass and the options that a pipeline element `name{option=value …}` specifies."""
    name, brace, rest = element.partition("{")
    python_pass = load(name.strip())
    text = rest.rstrip().removesuffix("}") if brace else ""
    return python_pass, make_options(python_pass.name, python_pass.options, text)
