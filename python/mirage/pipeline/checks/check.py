"""Compiled programs are run before they are returned: each kernel in the emulator, and the whole
program on this machine's GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mirage.cache import from_plain, key_of, kind_version, shared_store
from mirage.compiler import CompileOptions
from mirage.frontend.program import Program
from mirage.pipeline.checks.emulated_check import (
    WORK,
    TooLargeError,
    at_real_sizes,
    kernel_ops,
    left_unchecked,
    row_stores,
    unchecked,
)
from mirage.pipeline.checks.gpu_check import on_this_gpu
from mirage.pipeline.checks.kernel_check import TIME_UP, KernelCheck, Outcome
from mirage.pipeline.checks.kernel_memory import RowStore
from mirage.pipeline.checks.smaller_check import at_smaller_sizes
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.result import Finalist, Step
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import KernelLaunch
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Op
from mirage.verify.evidence.time_limit import OutOfTime, time_limit

LONGEST = 10.0
"""The seconds that a check may take for one kernel."""

KIND = "check"
CHECKED = 0.2
"""The share of the time left that running the kernels of a compiled program may take."""


@dataclass
class Checker:
    """Checks programs that were compiled for a chip. After ``until`` no more kernels are run. With
    ``use_cache``, kernels that passed before are not run again."""

    program: Program
    chip: str
    use_cache: bool = True
    until: Deadline | None = None
    known: dict[str, KernelCheck] = field(default_factory=dict[str, KernelCheck])

    def check(self, finalist: Finalist, known: Sequence[KernelCheck] = ()) -> Finalist:
        """Return the program with its checks, which its artifacts also contain. After the first
        kernel that fails, no more are checked. ``known`` are the checks of an earlier run: a
        program that passed on this GPU is not run there again."""
        steps: list[Step] = []
        checks: list[KernelCheck] = []
        for step in finalist.steps:
            mine = [] if failed(checks) else self.of_step(step)
            checks += mine
            steps.append(_with_evidence(step, mine))
        if not failed(checks):
            whole = on_this_gpu(self.program, self.chip, finalist.graph, steps, known)
            checks += whole
            steps = [_with_evidence(step, whole) for step in steps]
        return replace(finalist, steps=tuple(steps), checks=tuple(checks))

    def of_step(self, step: Step) -> list[KernelCheck]:
        """Check the kernels of one part in the emulator."""
        if step.compiled is None or step.graph is None:
            return []
        ops, kernels = kernel_ops(step.graph), step.compiled.artifact.manifest.kernels
        if len(ops) != len(kernels):
            return unchecked(step, f"{len(kernels)} kernels are of {len(ops)} ops")
        checks: list[KernelCheck] = []
        for op, kernel in zip(ops, kernels, strict=True):
            stores = row_stores(step.graph, op)
            checks.append(self._of_kernel(op, kernel, step, stores))
            if failed(checks[-1:]):
                break
        return checks

    def _of_kernel(
        self, op: Op, kernel: KernelLaunch, step: Step, stores: Sequence[RowStore]
    ) -> KernelCheck:
        assert step.compiled is not None
        artifact = step.compiled.artifact
        ptx_sha256 = artifact.manifest.modules[kernel.module].ptx_sha256
        key = _key(op, kernel, stores, ptx_sha256, self.chip)
        found = self.known.get(key) or (_read(key) if self.use_cache else None)
        if found is None:
            seconds = LONGEST if self.until is None else min(LONGEST, self.until.left)
            try:
                with time_limit(seconds):
                    found = self._run(op, kernel, artifact, stores)
            except OutOfTime:
                return left_unchecked(kernel, TIME_UP)
            if self.use_cache and found.outcome is not Outcome.FAILED:
                _write(key, found)
        self.known[key] = found
        return replace(found, kernel=kernel.entry)

    def _run(
        self, op: Op, kernel: KernelLaunch, artifact: Artifact, stores: Sequence[RowStore]
    ) -> KernelCheck:
        try:
            return at_real_sizes(op, kernel, artifact, stores)
        except TooLargeError as error:
            options = CompileOptions(self.chip, cubin=False, use_cache=self.use_cache)
            small = None if stores else at_smaller_sizes(op, kernel, artifact, options)
            return small or left_unchecked(kernel, str(error))


def failed(checks: Sequence[KernelCheck]) -> KernelCheck | None:
    """Return the first check that failed, or None."""
    return next((c for c in checks if c.outcome is Outcome.FAILED), None)


def _with_evidence(step: Step, checks: Sequence[KernelCheck]) -> Step:
    """Return the step with the checks in its manifest."""
    if step.compiled is None or not checks:
        return step
    artifact = step.compiled.artifact
    evidence = dict(artifact.manifest.evidence)
    evidence["checks"] = [*evidence.get("checks", ()), *(c.to_json() for c in checks)]
    manifest = replace(artifact.manifest, evidence=evidence)
    return replace(
        step, compiled=replace(step.compiled, artifact=replace(artifact, manifest=manifest))
    )


# ---- earlier results


def _key(
    op: Op, kernel: KernelLaunch, stores: Sequence[RowStore], ptx_sha256: str, chip: str
) -> str:
    graph = KernelGraph("kernel", tuple(dict.fromkeys(op.operands)), (op,), op.results)
    arguments = [a.to_json() | {"map": str(a.map)} for a in kernel.arguments]
    sizes = [kernel.entry, kernel.grid, kernel.block, kernel.shared_bytes]
    rows = [
        (s.result, s.copy.dim, s.part.offset, *(str(v.type) for v in s.copy.operands))
        for s in stores
    ]
    return key_of(
        KIND, kind_version(KIND), WORK, signature(graph), ptx_sha256, chip, sizes, arguments, rows
    )


def _read(key: str) -> KernelCheck | None:
    payload = shared_store().get(KIND, key)
    try:
        return None if payload is None else from_plain(KernelCheck, json.loads(payload))
    except ValueError:
        return None


def _write(key: str, check: KernelCheck) -> None:
    payload = json.dumps(check.to_json()).encode()
    shared_store().put(KIND, key, payload, version=kind_version(KIND), about=check.kernel)
