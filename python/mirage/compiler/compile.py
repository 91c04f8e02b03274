"""Compiles a chosen µGraph: block and thread passes, NVVM, PTX, artifact."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import mirage
from mirage.compiler import kept_artifacts
from mirage.compiler.chips import default_chip
from mirage.compiler.collect import Names, collect
from mirage.compiler.culprits import kernels_at, lines_of, lines_of_functions
from mirage.compiler.errors import CompileError, PtxasError, UnsupportedChipError
from mirage.compiler.ptxas import (
    MOST_REGISTERS,
    WHOLE_UNITS,
    AssemblerReport,
    ask_for_registers,
    assemble,
    find_ptxas,
    functions_in,
    ptxas_version,
)
from mirage.cost.target import UnknownTargetError, name_in_table, target_for
from mirage.runtime.serialization.artifact import Artifact, sha256
from mirage.runtime.serialization.manifest import IndexBound
from mirage.semantics.index_bounds import index_bounds

if TYPE_CHECKING:
    from mirage import ir
    from mirage.semantics.ugraph import KernelGraph

PASSES = ("mirage-lower-block", "mirage-thread-to-ptx")
"""The passes from form ``selected`` (or ``scheduled``) to ``binary``; each takes the chip as an
option, and the first one whether the graph follows others."""

log = logging.getLogger("mirage.compiler")


@dataclass(frozen=True)
class CompileOptions:
    """``chip``: a chip or card of the table, by default this machine's GPU. ``cubin``: also
    assemble machine code if ptxas is available. ``use_cache``: reuse earlier results. ``follows``:
    kernels of other graphs run before and after, so the first kernel may start early, too.
    """

    chip: str = field(default_factory=default_chip)
    cubin: bool = True
    use_cache: bool = True
    follows: bool = False

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "chip", name_in_table(self.chip))
        except UnknownTargetError as e:
            raise UnsupportedChipError(str(e)) from None

    @property
    def code_chip(self) -> str:
        """The chip for which code is generated."""
        return target_for(self.chip).chip


@dataclass(frozen=True)
class Compiled:
    """An artifact, and remarks on it for people."""

    artifact: Artifact
    from_cache: bool = False
    notes: tuple[str, ...] = ()
    is_final: bool = True
    """Whether another run would have the same result: not if the assembler had no room for its
    files."""

    @property
    def spilled_bytes(self) -> int:
        """The bytes of registers that the assembler spilled, in all kernels; 0 if it did not
        run."""
        resources = self.artifact.manifest.resources.values()
        return sum(r["spill_stores"] + r["spill_loads"] for r in resources)


def compile_graph(
    graph: KernelGraph,
    options: CompileOptions | None = None,
    *,
    parameters: Mapping[int, str] | None = None,
    evidence: Mapping[str, Any] | None = None,
    prediction: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compile a µGraph whose computation is entirely in launches.

    ``parameters`` names the inputs that are weights. ``evidence`` and ``prediction`` (JSON data) go
    into the manifest. Raises :class:`CompileError`.
    """
    from mirage.mlir_io import graph_to_text

    names = Names(tuple(v.name for v in graph.inputs), (), dict(parameters or {}))
    text = graph_to_text(graph, form="selected")
    compiled = compile_text(text, options, names=names, evidence=evidence, prediction=prediction)
    bounds = tuple(IndexBound(*found) for found in index_bounds(graph))
    manifest = replace(compiled.artifact.manifest, bounds=bounds)
    return replace(compiled, artifact=replace(compiled.artifact, manifest=manifest))


def compile_module(
    module: ir.Module, options: CompileOptions | None = None, **about: Any
) -> Compiled:
    """Compile the kernel graph in ``module``, which is not changed; see :func:`compile_text`."""
    text = module.operation.get_asm(enable_debug_info=False, use_local_scope=True)
    return compile_text(text, options, **about)


def compile_text(
    text: str,
    options: CompileOptions | None = None,
    *,
    names: Names | None = None,
    evidence: Mapping[str, Any] | None = None,
    prediction: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compile a module with one kernel graph in form ``selected`` or later, given as MLIR text.

    Raises :class:`CompileError`.
    """
    options = options or CompileOptions()
    names = names or Names()
    ptxas = find_ptxas() if options.cubin else None
    settings = {
        "cubin": ptxas_version(ptxas) if ptxas else None,
        "names": [names.inputs, names.outputs, sorted(names.parameters.items())],
        "follows": options.follows,
    }
    key = kept_artifacts.cache_key(text, options.code_chip, settings)
    found = kept_artifacts.lookup(key) if options.use_cache else None
    if found is None:
        compiled = _compile(text, options, names)
    else:
        compiled = Compiled(found, from_cache=True, notes=spill_notes(found.manifest.resources))
    if options.use_cache and found is None and compiled.is_final:
        kept_artifacts.store(key, compiled.artifact)
    manifest = replace(
        compiled.artifact.manifest, evidence=dict(evidence or {}), prediction=dict(prediction or {})
    )
    return replace(compiled, artifact=replace(compiled.artifact, manifest=manifest))


def lower(text: str, chip: str, *, follows: bool = False) -> ir.Module:
    """Lower ``text`` (form ``selected`` or later) to form ``binary``. Raises :class:`CompileError`
    with the diagnostics.
    """
    from mirage import ir, passmanager

    with ir.Context(load_on_create_dialects=()):  # parsing and passes load what they need
        try:
            module = ir.Module.parse(text)
            first, last = PASSES
            options = f"chip={chip} follows={str(follows).lower()}"
            pipeline = f"{first}{{{options}}},{last}{{chip={chip}}}"
            passmanager.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        except ir.MLIRError as e:
            message = f"lowering to {chip} failed: {_diagnostics(e)}"
            raise CompileError(message, kernels_at(text, lines_of(e))) from None
        except ValueError as e:  # a pass that this build of the compiler does not have
            raise CompileError(f"lowering to {chip} failed: {e}") from None
        return module


def _diagnostics(error: Any) -> str:
    lines = [error.message]
    for d in error.error_diagnostics:
        lines.append(f"{d.location}: {d.message}")
        notes = (n.message for n in d.notes)
        lines.extend(f"  note: {n}" for n in notes if not n.startswith("see current operation"))
    return "\n".join(line for line in lines if line)


def _compile(text: str, options: CompileOptions, names: Names) -> Compiled:
    module = lower(text, options.code_chip, follows=options.follows)
    artifact = collect(module, f"mirage {mirage.__version__}", options.code_chip, names)
    if not options.cubin:
        return Compiled(artifact)
    try:
        return with_machine_code(artifact)
    except PtxasError as error:
        lines = lines_of_functions(module, error.entries)
        raise PtxasError(error.message, error.entries, kernels_at(text, lines)) from None
    except OSError as error:
        why = f"ptxas has no room for its files ({error.strerror or error})"
        _warn_once(f"{why}: the driver compiles kernels on loading")
        return Compiled(
            artifact, notes=(f"{why}: the driver compiles it on loading",), is_final=False
        )


@cache
def _warn_once(text: str) -> None:
    log.warning("%s", text)


def with_machine_code(artifact: Artifact) -> Compiled:
    """Return ``artifact`` with a cubin for each PTX file, if ptxas is available. Raises
    :class:`PtxasError`, and ``OSError`` if there is no room for files.
    """
    files = dict(artifact.files)
    reports: list[AssemblerReport] = []
    modules = list(artifact.manifest.modules)
    for i, module in enumerate(modules):
        ptx = files[module.ptx].decode()
        report = assemble(ptx, artifact.manifest.chip)
        if report is None:
            return Compiled(
                artifact, notes=("no ptxas for this PTX: the driver compiles it on loading",)
            )
        ptx, report = without_spills(ptx, report, artifact.manifest.chip)
        if report.serialized:
            raise PtxasError(
                "expected products of warpgroups that run at the same time, but the assembler "
                f"makes them wait for each other: {'; '.join(report.serialized)}",
                functions_in(report.serialized),
            )
        name = module.ptx.removesuffix(".ptx") + ".cubin"
        files[module.ptx], files[name] = ptx.encode(), report.cubin
        modules[i] = replace(
            module,
            ptx_sha256=sha256(files[module.ptx]),
            cubin=name,
            cubin_sha256=sha256(report.cubin),
        )
        reports.append(report)
    resources = {e.name: {**vars(e), "ptxas": r.version} for r in reports for e in r.entries}
    manifest = replace(artifact.manifest, modules=tuple(modules), resources=resources)
    return Compiled(Artifact(manifest, files), notes=spill_notes(resources))


def without_spills(ptx: str, report: AssemblerReport, chip: str) -> tuple[str, AssemblerReport]:
    """Return PTX that requests another number of registers, if that avoids at least half of the
    spilled bytes; otherwise the given PTX."""
    best = ptx, report
    asked = (ask_for_registers(ptx, report.entries, n) for n in (MOST_REGISTERS, WHOLE_UNITS))
    for changed in dict.fromkeys(text for text in asked if text is not None):
        again = assemble(changed, chip) if best[1].spills else None
        if again is not None and 2 * again.spilled <= best[1].spilled:
            best = changed, again
    return best


def spill_notes(resources: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a remark for each kernel whose registers did not suffice."""
    spilled = {name: r["spill_stores"] + r["spill_loads"] for name, r in resources.items()}
    return tuple(f"{name}: {n} bytes of registers are spilled" for name, n in spilled.items() if n)
