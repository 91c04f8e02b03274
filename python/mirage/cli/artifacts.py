"""Options and texts about artifacts that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli.command_options import add_option
from mirage.cli.output import Output

if TYPE_CHECKING:
    from mirage.compiler import Compiled, CompileOptions


def add_chip_argument(parser: argparse.ArgumentParser, what: str = "") -> None:
    """Add ``--chip``, to be read with :func:`chip_of`; ``what`` says what it is for."""
    from mirage.pipeline.options import OptimizeOptions

    add_option(parser, OptimizeOptions, "chip", what=what)


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--output``, the folder of the artifact."""
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the artifact (default: NAME.mirage)"
    )


def chip_of(options: argparse.Namespace) -> str:
    """Return the requested chip, or the default."""
    from mirage.compiler import default_chip

    return default_chip() if options.chip is None else str(options.chip)


def add_compile_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`compile_options` reads."""
    from mirage.pipeline.options import OptimizeOptions

    add_chip_argument(parser)
    add_option(parser, OptimizeOptions, "cubin")
    add_option(parser, OptimizeOptions, "use_cache", "cache")


def compile_options(options: argparse.Namespace) -> CompileOptions:
    """Return the options of the compiler."""
    from mirage.compiler import CompileOptions

    return CompileOptions(chip_of(options), cubin=options.cubin, use_cache=options.use_cache)


def describe(output: Output, compiled: Compiled, path: Path) -> None:
    """Describe an artifact in words."""
    manifest = compiled.artifact.manifest
    ptx = sum(len(compiled.artifact.files[m.ptx]) for m in manifest.modules)
    output.table(
        ("kernel", "grid", "threads", "shared bytes"),
        [
            (
                k.entry,
                "x".join(map(str, k.grid)),
                k.block[0] * k.block[1] * k.block[2],
                k.shared_bytes,
            )
            for k in manifest.kernels
        ],
    )
    cached = " (from the cache)" if compiled.from_cache else ""
    output.say(
        f"{ptx:,} bytes of PTX {manifest.ptx_version} for {manifest.chip}{cached}, "
        f"{manifest.workspace_bytes:,} bytes of workspace"
    )
    for note in compiled.notes:
        output.say(f"note: {note}")
    output.say(f"artifact: {path}")


def describe_json(compiled: Compiled, path: Path) -> dict[str, Any]:
    """Describe an artifact as data."""
    manifest = compiled.artifact.manifest
    return {
        "artifact": str(path),
        "name": manifest.name,
        "chip": manifest.chip,
        "ptx_version": manifest.ptx_version,
        "ptx_bytes": sum(len(compiled.artifact.files[m.ptx]) for m in manifest.modules),
        "workspace_bytes": manifest.workspace_bytes,
        "from_cache": compiled.from_cache,
        "notes": list(compiled.notes),
        "kernels": [
            {
                "entry": k.entry,
                "grid": list(k.grid),
                "block": list(k.block),
                "shared_bytes": k.shared_bytes,
            }
            for k in manifest.kernels
        ],
        "resources": dict(manifest.resources),
    }
