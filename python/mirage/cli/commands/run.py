"""``mirage run``: runs an artifact or a program and checks its numbers."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli.artifacts import add_chip_argument
from mirage.cli.given_inputs import given_inputs
from mirage.cli.output import Output
from mirage.cli.programs import HELP, LoadedProgram
from mirage.cli.python_files import BadProgramError
from mirage.cli.run_model import run_model
from mirage.cli.runnable import Runnable, is_artifact, runnable
from mirage.cli.tensor_archives import (
    DTYPES,
    check_kind,
    check_writable,
    read_tensors,
    write_tensors,
)
from mirage.runtime.loading import is_model
from mirage.runtime.serialization.manifest import TORCH_NAMES

if TYPE_CHECKING:
    from mirage.emulator import Counters

SUMMARY = "run an artifact or a program, on a GPU or in the emulator"
DESCRIPTION = """\
Runs an artifact on random inputs or those of a file (--inputs), on the GPU by default, or its PTX
in the emulator on the CPU (--emulate), which also reports out-of-bounds accesses, races and
uninitialised reads. A program is optimized first. The outputs are compared with the program (for an
artifact: the one that --program names) in float64; the exit code is 1 if they are wrong. A whole
model (of `mirage export`) is called once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("artifact", help=f"folder of an artifact, or a program: {HELP}")
    parser.add_argument("--program", help=f"what the artifact should compute: {HELP}")
    add_chip_argument(parser, what="for a program: ")
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help=".npz or .safetensors file with the inputs by their names, instead of random ones; "
        "weights that the program holds may be left out",
    )
    parser.add_argument(
        "--outputs",
        type=Path,
        metavar="FILE",
        help=".npz or .safetensors file to write the outputs to, by their names",
    )
    parser.add_argument("--emulate", action="store_true", help="execute the PTX on the CPU")
    parser.add_argument("--stats", action="store_true", help="with --emulate: print its counters")
    parser.add_argument(
        "--no-checks", action="store_true", help="with --emulate: faster, without race detection"
    )
    parser.add_argument(
        "--check-indices",
        action="store_true",
        help="say which input has an index that is outside of its dimension, in place of running",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    parser.add_argument(
        "--tolerance",
        type=float,
        help="largest relative L2 error (default: 2^-7 f16, 2^-5 bf16, 1e-4)",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Run and compare."""
    if options.stats and not options.emulate:
        raise BadProgramError("expected --emulate together with --stats, got --stats alone")
    if options.outputs is not None:
        check_kind(options.outputs)
    if is_artifact(options.artifact) and is_model(options.artifact):
        return run_model(options, output)
    tensors = None if options.inputs is None else read_tensors(options.inputs)
    what, program = runnable(options, output)
    if options.outputs is not None:
        check_writable(options.outputs, {spec.name: spec.dtype for spec in what.outputs})
    inputs, want = _problem(what, program, options, tensors)
    if options.check_indices:
        _check_indices(what, inputs)
    data: dict[str, Any] = {"artifact": str(options.artifact), "name": what.name}
    if options.emulate:
        outputs = _emulate(what, inputs, options, output, data)
    else:
        outputs = _launch(what, inputs, output, data)
    code = 0
    rows: list[tuple[object, ...]] = []
    data["outputs"] = []
    for i, (spec, y) in enumerate(zip(what.outputs, outputs, strict=True)):
        entry = _describe(y)
        if want is not None:
            error, unknown = _relative_error(y, want[i], spec.dtype)
            allowed = options.tolerance or _tolerance(spec.dtype)
            ok = error <= allowed
            code = code if ok else 1
            entry |= {"relative_error": error, "allowed": allowed, "ok": ok, "not_numbers": unknown}
            fine = f"ok, {unknown} not a number in the program" if unknown else "ok"
            rows.append(
                (
                    spec.name,
                    spec.shape,
                    spec.dtype,
                    f"{error:.2e}",
                    fine if ok else f"WRONG, allowed {allowed:.1e}",
                )
            )
        else:
            rows.append((spec.name, spec.shape, spec.dtype, f"{entry['norm']:.6g}", ""))
        data["outputs"].append({"name": spec.name, "shape": list(spec.shape), **entry})
    output.table(("output", "shape", "type", "norm" if want is None else "error", ""), rows)
    if options.outputs is not None:
        pairs = zip(what.outputs, outputs, strict=True)
        write_tensors(options.outputs, {s.name: y.astype(DTYPES[s.dtype]) for s, y in pairs})
        output.say(f"outputs: {options.outputs}")
        data["written"] = str(options.outputs)
    output.result({**data, "ok": code == 0})
    return code


def _problem(
    what: Runnable,
    program: LoadedProgram | None,
    options: argparse.Namespace,
    tensors: dict[str, Any] | None,
) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Return inputs as arrays, and the expected outputs in float64 if the program is known."""
    import numpy as np

    shapes = [w.shape for w in what.inputs]
    if program is None:
        if tensors is not None:
            return given_inputs(options.inputs, tensors, what.inputs), None
        rng = np.random.default_rng(options.seed)
        return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes), None
    from mirage.semantics.evaluation.evaluate import evaluate_floats

    expected = [v.shape for v in program.graph.inputs]
    if expected != shapes:
        raise BadProgramError(
            f"{program.spec}: expected inputs of shapes {shapes}, as the artifact takes, "
            f"got {expected}"
        )
    inputs = program.inputs(options.seed)
    if tensors is not None:
        held = {p.index for p in program.program.parameters}
        wanted = [
            replace(w, own=x if i in held else None)
            for i, (w, x) in enumerate(zip(what.inputs, inputs, strict=True))
        ]
        inputs = given_inputs(options.inputs, tensors, wanted)
    return inputs, evaluate_floats(program.graph, inputs)


def _check_indices(what: Runnable, inputs: tuple[Any, ...]) -> None:
    """Raise :class:`~mirage.runtime.errors.ArgumentIndexError` for an index that is outside of its
    dimension."""
    from mirage.runtime.arguments.index_check import IndexCheck

    if what.artifact is None:
        raise BadProgramError(
            "expected one artifact for --check-indices, got a program of several parts; write it "
            "with `mirage export`, and run that"
        )
    manifest = what.artifact.manifest
    IndexCheck(manifest.bounds, manifest.inputs)(_tensors(what, inputs, "cpu"))


def _emulate(
    what: Runnable,
    inputs: tuple[Any, ...],
    options: argparse.Namespace,
    output: Output,
    data: dict[str, Any],
) -> tuple[Any, ...]:
    import json

    from mirage.emulator import EmulatorError
    from mirage.emulator.run_artifact import run_artifact

    checks = not options.no_checks
    all_counters: list[Counters] = []
    try:
        if what.artifact is not None:
            result = run_artifact(what.artifact, inputs, checks=checks)
            all_counters.extend(result.counters)
            outputs = result.outputs
        else:
            outputs = _emulate_program(what, inputs, checks, all_counters)
    except EmulatorError as e:
        raise BadProgramError(
            f"{options.artifact}: the emulator stopped: {type(e).__name__}: {e}"
        ) from None
    if options.stats:
        for counters in all_counters:
            output.code(counters.table())
        data["stats"] = [json.loads(c.to_json()) for c in all_counters]
    return outputs


def _emulate_program(
    what: Runnable, inputs: tuple[Any, ...], checks: bool, counters: list[Counters]
) -> tuple[Any, ...]:
    from mirage.pipeline.commands.emulate import emulate

    assert what.optimized is not None
    tensors = _tensors(what, inputs, "cpu")
    results = emulate(what.optimized, tensors, checks=checks, counters=counters)
    return _arrays(results)


def _tensors(what: Runnable, inputs: tuple[Any, ...], device: str) -> list[Any]:
    """Return the inputs as tensors."""
    import torch

    return [
        torch.tensor(x).to(device=device, dtype=getattr(torch, TORCH_NAMES[w.dtype]))
        for x, w in zip(inputs, what.inputs, strict=True)
    ]


def _arrays(results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors among the results."""
    import torch

    tensors = (y for y in results if isinstance(y, torch.Tensor))
    return tuple(
        (y.detach().double() if y.is_floating_point() else y.detach()).cpu().numpy()
        for y in tensors
    )


def _launch(
    what: Runnable, inputs: tuple[Any, ...], output: Output, data: dict[str, Any]
) -> tuple[Any, ...]:
    from mirage.runtime import NoGpuError
    from mirage.runtime.launching.executable import Executable

    try:
        import torch
    except ImportError:
        raise NoGpuError("cannot launch: torch is not installed; use --emulate") from None
    parts = (what.artifact,) if what.optimized is None else what.optimized.artifacts
    if not torch.cuda.is_available():
        try:
            for part in parts:
                if part is not None:
                    Executable(part).prepare()
        except NoGpuError as e:
            raise NoGpuError(f"{e}; use --emulate") from None
        if what.optimized is None or not parts:
            raise NoGpuError("cannot launch: torch sees no GPU; use --emulate")
    tensors = _tensors(what, inputs, "cuda")
    program = what.optimized
    if program is None:
        assert what.artifact is not None
        results = Executable(what.artifact)(inputs=tensors)
    else:
        results = program(inputs=tensors)
    torch.cuda.synchronize()
    data["device"] = torch.cuda.get_device_name()
    output.say(f"ran on {data['device']}")
    return _arrays(results)


def _relative_error(got: Any, want: Any, dtype: str) -> tuple[float, int]:
    """Return the norm of the difference over the norm of ``want``, and the number of elements that
    are not compared: those for which the program gives NaN. Infinite elements, also those that the
    type makes infinite, must be equal."""
    import numpy as np

    y, x = got.astype(np.float64), np.asarray(want, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        held = x.astype(DTYPES[dtype]).astype(np.float64)
    known, infinite = np.isfinite(held), np.isinf(held)
    difference = float(np.linalg.norm(np.where(known, y, 0.0) - np.where(known, x, 0.0)))
    scale = float(np.linalg.norm(np.where(known, x, 0.0)))
    error = difference / scale if scale else difference
    same = np.isfinite(error) and bool((y == held)[infinite].all())
    return error if same else float("inf"), int(np.isnan(held).sum())


def _tolerance(dtype: str) -> float:
    return {"f16": 2.0**-7, "bf16": 2.0**-5}.get(dtype, 1e-4)


def _describe(y: Any) -> dict[str, Any]:
    import numpy as np

    wide = y.astype(np.float64)
    return {"norm": float(np.linalg.norm(wide)), "finite": bool(np.isfinite(wide).all())}
