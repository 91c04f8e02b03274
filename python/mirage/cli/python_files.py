"""The programs in a Python file of the user's: modules, functions and graphs, by their names."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mirage.cli.ended import Ended
from mirage.errors import MirageError, SourceLocation
from mirage.frontend.program import Program


class BadProgramError(MirageError, ValueError):
    """The program does not exist, or it cannot be read."""


def read_text(path: Path) -> str:
    """Return the contents of a text file. Raises :class:`BadProgramError`."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise BadProgramError(f"{path}: cannot be read: {reason}") from None


def object_of(file: ModuleType, path: Path, name: str) -> Any:
    """Return the object with that name or, without a name, the only program of a file. Raises
    :class:`BadProgramError`."""
    item = getattr(file, name, None) if name else _only_program(file, path)
    if item is None:
        raise BadProgramError(
            f"{path}: expected an object called {name!r}, got none; there are "
            f"{_programs(file) or 'none'}"
        )
    return item


def check_no_class(item: Any, path: Path) -> None:
    """Raise :class:`BadProgramError` if a class is named instead of an object of it."""
    import torch

    if isinstance(item, type) and issubclass(item, torch.nn.Module):
        raise BadProgramError(
            f"{path}: expected a module, got the class {item.__name__}; name an instance of it"
        )


def example_inputs_of(file: ModuleType, item: Any) -> Any:
    """Return the example inputs that a file has for one of its programs: several tensors as a
    tuple, or any other object."""
    import torch

    example: Any = getattr(file, "example_inputs", None)
    if isinstance(example, dict):  # for several programs: by their names
        names = [n for n, there in vars(file).items() if there is item]
        example = next((example[n] for n in names if n in example), example)  # pyright: ignore
    if callable(example):
        example = example()
    return (example,) if isinstance(example, torch.Tensor) else example


def run_file(path: Path) -> ModuleType:
    """Return the module in ``path``. Raises :class:`BadProgramError`, with the place in the user's
    file where it fails."""
    read_text(path)
    name = f"mirage_program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadProgramError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look modules up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (MirageError, Ended):
        raise
    except (Exception, SystemExit) as e:
        frames = [
            f
            for f in traceback.extract_tb(e.__traceback__)
            if Path(f.filename).resolve() == path.resolve()
        ]
        line = e.lineno if isinstance(e, SyntaxError) else (frames[-1].lineno if frames else None)
        location = SourceLocation(str(path), line or 1)
        raise BadProgramError(f"the file fails: {type(e).__name__}: {e}", location) from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _is_program(item: object) -> bool:
    kinds: list[type] = []
    from mirage.frontend.kernel_graph import GraphBuilder

    kinds.extend((GraphBuilder, Program))
    if "torch" in sys.modules:
        import torch

        kinds.append(torch.nn.Module)
    return isinstance(item, tuple(kinds))


def _programs(file: ModuleType) -> str:
    return ", ".join(name for name, item in vars(file).items() if _is_program(item))


def _only_program(file: ModuleType, path: Path) -> object:
    found: dict[str, Any] = {
        name: item
        for name, item in vars(file).items()
        if not name.startswith("_") and _is_program(item)
    }
    distinct = {id(item): name for name, item in found.items()}
    for item in tuple(found.values()):
        for part in list(item.modules())[1:] if hasattr(item, "modules") else ():
            distinct.pop(id(part), None)  # a part of another one
    if len(distinct) != 1:
        there = ", ".join(found) or "none"
        raise BadProgramError(
            f"{path}: expected one module or graph in the file, got {there}; name one as "
            f"{path.name}:NAME{_besides(file)}"
        )
    return found[next(iter(distinct.values()))]


def _besides(file: ModuleType) -> str:
    """Return what else a user may have meant: functions, and classes without an object, of the
    file's own."""
    own = [
        (name, item)
        for name, item in vars(file).items()
        if not name.startswith("_") and getattr(item, "__module__", "") == file.__name__
    ]
    functions = [name for name, item in own if isinstance(item, FunctionType)]
    classes = [name for name, item in own if isinstance(item, type) and hasattr(item, "forward")]
    said = [f"a function ({', '.join(functions)})"] if functions else []
    said += [f"an object of a class ({', '.join(classes)})"] if classes else []
    return f", which may be {' or '.join(said)}" if said else ""
