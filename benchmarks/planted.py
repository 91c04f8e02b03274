"""Programs with an error, which a tool that looks for such errors has to report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

LOAD = re.compile(r"(ld\.global\S*\s+(?:\{[^}]*\}|\S+),\s*\[%rd\d+)(?:\+(\d+))?\]")
FURTHER = 16
"""Bytes: elements beyond the last row of a tensor, for all types and aligned loads."""


def plant_reads(source: Path, target: Path) -> int:
    """Write a copy of a model's artifact whose kernels read slightly further on than they should:
    beyond the end of a tensor where they read its last elements. Return the number of changed
    loads."""
    from mirage.runtime.models.model_artifact import read_model, write_model
    from mirage.runtime.serialization.artifact import sha256

    model, count = read_model(source), 0
    parts = dict(model.parts)
    for folder, part in parts.items():
        files, modules = dict(part.files), list(part.manifest.modules)
        for i, module in enumerate(modules):
            text, changed = LOAD.subn(_moved, part.ptx(i))
            count += changed
            files[module.ptx] = text.encode()
            modules[i] = replace(module, ptx_sha256=sha256(files[module.ptx]))
        manifest = replace(part.manifest, modules=tuple(modules))
        parts[folder] = replace(part, manifest=manifest, files=files)
    write_model(replace(model, parts=parts), target)
    return count


def _moved(load: re.Match[str]) -> str:
    return f"{load[1]}+{int(load[2] or 0) + FURTHER}]"
