#!/usr/bin/env python3
"""Writes type stubs of the compiled bindings for type checkers and editors.

usage: generate-stubs.py FOLDER      (FOLDER/mirage-stubs is written; run it with .venv/bin/python)

They form a partial stub package: a checker reads the rest of `mirage` from its sources. Operation
classes of the dialects are not typed; types, attributes and enums of our own dialects are.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import mirage._mlir_libs as bindings

PACKAGE = Path(bindings.__file__).parents[1]
OWN_DIALECTS = ("kernel", "block", "thread")

MLIR_ERROR = '''

class MLIRError(Exception):
    """An error of MLIR with its diagnostics."""

    message: str
    error_diagnostics: list[DiagnosticInfo]
'''

UNTYPED = """from typing import Any

def __getattr__(name: str) -> Any: ...
"""


# Where nanobind's types are too general: pattern and replacement in its stubs.
REFINEMENTS = (
    (r"def notes\(self\) -> tuple:", "def notes(self) -> tuple[Diagnostic, ...]:"),
    (r"def __enter__\(self\) -> object:", "def __enter__(self) -> Self:"),
    (r"(def attach_diagnostic_handler\(.*\)) -> object:", r"\1 -> DiagnosticHandler:"),
    # Generated subclasses have properties for their operands and attributes.
    (
        r"(?m)^class OpView\(_OperationBase\):$",
        "class OpView(_OperationBase):\n    def __getattr__(self, name: str) -> Any: ...\n",
    ),
    # The constructor of the subclass that replaces it.
    (
        r"(?m)(^class Context:\n    def __init__\(self)\)",
        r"\1, load_on_create_dialects: Sequence[str] | None = None)",
    ),
    (r'TypeVar\("_T", bound=Type\)', 'TypeVar("_T", bound=Type, default=Type)'),
    (r"(def get_asm\(.*\)) -> object:", r"\1 -> str:"),
    (r"\btuple(?=[:,)=\s])", "tuple[Any, ...]"),
    (r"\b(dict)(?=[:,)=\s])", r"\1[str, Any]"),
    (r"\b(list|Sequence|Iterator)(?=[:,)=\s])", r"\1[Any]"),
    (r"\bCallable(?=[:,)=\s])", "Callable[..., Any]"),
)


def stubgen(module: str, folder: Path) -> None:
    """Write the stubs of an extension module of the bindings and of its submodules."""
    subprocess.run(
        [
            sys.executable,
            *("-m", "nanobind.stubgen", "--quiet", "--recursive", "--include-private"),
            *("--module", module, "--output-dir", folder, "-i", PACKAGE / "_mlir_libs"),
        ],
        check=True,
    )
    for path in (folder / module.split(".")[-1]).glob("*.pyi"):
        header, _, text = path.read_text().partition("\n\n\n")
        for pattern, replacement in REFINEMENTS:
            text = re.sub(pattern, replacement, text)
        imports = "from typing import Any, Generic\nfrom typing_extensions import Self, TypeVar"
        if module != "_mlir":
            imports += "\nfrom mirage._mlir_libs._mlir.ir import Location, TypeID"
        path.write_text(f"{header}\n{imports}\n\n\n{text}")


def own_dialect(name: str) -> str:
    """Return the stub of one of our dialects: typed members, then all others."""
    lines = [f"from .._mlir_libs._mirage.{name} import *"]
    enums = PACKAGE / "dialects" / f"_{name}_enum_gen.py"
    names = [
        line.split()[1].partition("(")[0]
        for line in enums.read_text().splitlines()
        if line.startswith("class ")
    ]
    if names:
        aliases = ", ".join(f"{name} as {name}" for name in names)
        lines.append(f"from ._{name}_enum_gen import {aliases}")
    lines.append("from .scalar import BinaryFn as BinaryFn, ReduceFn as ReduceFn")
    lines.append("from .scalar import UnaryFn as UnaryFn")
    return "\n".join(lines) + "\n" + UNTYPED


def main() -> None:
    root = Path(sys.argv[1]) / "mirage-stubs"
    shutil.rmtree(root, ignore_errors=True)
    (root / "dialects").mkdir(parents=True)
    (root / "_mlir_libs").mkdir()
    (root / "py.typed").write_text("partial\n")
    # Separately, before the package's initialisation replaces `Context` by a subclass.
    stubgen("_mlir", root / "_mlir_libs")
    stubgen("mirage._mlir_libs._mirage", root / "_mlir_libs")
    (root / "_mlir_libs" / "__init__.pyi").write_text("")
    (root / "dialects" / "__init__.pyi").write_text("")
    for module in ("ir", "passmanager", "rewrite"):
        source = (PACKAGE / f"{module}.py").read_text()
        (root / f"{module}.pyi").write_text(source + (MLIR_ERROR if module == "ir" else ""))
    for path in (PACKAGE / "dialects").glob("[!_]*.py"):
        text = own_dialect(path.stem) if path.stem in OWN_DIALECTS else UNTYPED
        (root / "dialects" / f"{path.stem}.pyi").write_text(text)
    for path in (PACKAGE / "dialects").glob("_*_enum_gen.py"):
        (root / "dialects" / f"{path.stem}.pyi").write_text(path.read_text())
    (root / "dialects" / "gpu.pyi").write_text(UNTYPED)
    # Not generated, since the module has too little type information. In the sources' folder it
    # would hide the others: a checker ignores partial stubs of a package that has stubs of its own.
    shutil.copy(Path(__file__).parents[1] / "python/bindings/_target.pyi", root)
    shutil.copy(PACKAGE / "dialects" / "scalar.py", root / "dialects" / "scalar.pyi")


if __name__ == "__main__":
    main()
