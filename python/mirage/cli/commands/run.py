"""``mirage run``: runs an artifact or a program and checks its numbers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli.output import Output
from mirage.cli.programs import HELP, BadProgramError, LoadedProgram, load_program

if TYPE_CHECKING:
    from mirage.runtime.artifact import Artifact

SUMMARY = "run an artifact or a program, on a GPU or in the emulator"
DESCRIPTION = """\
Runs an artifact on random inputs, on the GPU by default, or its PTX in the emulator on the CPU
(--emulate), which also reports out-of-bounds accesses, races and uninitialised reads. A program is
optimized first. The outputs are compared with the program (for an artifact: the one that --program
names) in float64; the exit code is 1 if they are wrong."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("artifact", help=f"folder of an artifact, or a program: {HELP}")
    parser.add_argument("--program", help=f"what the artifact should compute: {HELP}")
    parser.add_argument("--chip", default="sm_90a", help="for a program: sm_80 or sm_90a")
    parser.add_argument("--emulate", action="store_true", help="execute the PTX on the CPU")
    parser.add_argument("--stats", action="store_true", help="with --emulate: print its counters")
    parser.add_argument(
        "--no-checks", action="store_true", help="with --emulate: faster, without race detection"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    parser.add_argument(
        "--tolerance",
        type=float,
        help="largest relative L2 error (default: 2^-7 f16, 2^-5 bf16, 1e-4)",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Runs and compares."""
    if options.stats and not options.emulate:
        raise BadProgramError("expected --emulate together with --stats, got --stats alone")
    artifact, program = _artifact(options, output)
    inputs, want = _problem(artifact, program, options.seed)
    data: dict[str, Any] = {"artifact": str(options.artifact), "name": artifact.manifest.name}
    if options.emulate:
        outputs = _emulate(artifact, inputs, options, output, data)
    else:
        outputs = _launch(artifact, inputs, output, data)
    code = 0
    rows: list[tuple[object, ...]] = []
    data["outputs"] = []
    for i, (spec, y) in enumerate(zip(artifact.manifest.outputs, outputs, strict=True)):
        entry = _describe(y)
        if want is not None:
            error, allowed = (
                _relative_error(y, want[i]),
                options.tolerance or _tolerance(spec.dtype),
            )
            ok = error <= allowed
            code = code if ok else 1
            entry |= {"relative_error": error, "allowed": allowed, "ok": ok}
            rows.append(
                (
                    spec.name,
                    spec.shape,
                    spec.dtype,
                    f"{error:.2e}",
                    "ok" if ok else f"WRONG, allowed {allowed:.1e}",
                )
            )
        else:
            rows.append((spec.name, spec.shape, spec.dtype, f"{entry['norm']:.6g}", ""))
        data["outputs"].append({"name": spec.name, "shape": list(spec.shape), **entry})
    output.table(("output", "shape", "type", "norm" if want is None else "error", ""), rows)
    output.result({**data, "ok": code == 0})
    return code


def _artifact(options: argparse.Namespace, output: Output) -> tuple[Artifact, LoadedProgram | None]:
    """What to run, and the program that it should compute, if that is known."""
    from mirage.runtime.artifact import read_artifact

    compares = None if options.program is None else load_program(options.program)
    if _is_artifact(options.artifact):
        return read_artifact(options.artifact), compares
    from mirage.driver import OptimizeOptions, compile_graph, optimize
    from mirage.semantics.ugraph import Launch

    loaded = load_program(options.artifact)
    settings = OptimizeOptions(chip=options.chip, watch=lambda text: output.say(text, style="dim"))
    written = all(isinstance(op, Launch) for op in loaded.graph.ops)
    optimized = (compile_graph if written else optimize)(loaded.program, settings)
    return optimized.artifact, compares or loaded


def _is_artifact(name: str) -> bool:
    """Folders, and paths that can be nothing else (also where they do not exist)."""
    path = Path(name)
    is_file = ".py" in path.name or ".mlir" in path.name
    return path.is_dir() or path.suffix == ".mirage" or (len(path.parts) > 1 and not is_file)


def _problem(
    artifact: Artifact, program: LoadedProgram | None, seed: int
) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Inputs as arrays, and the expected outputs in float64 if the program is known."""
    import numpy as np

    manifest = artifact.manifest
    if program is None:
        rng = np.random.default_rng(seed)
        shapes = [t.shape for t in manifest.inputs]
        return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes), None
    from mirage.semantics.evaluate import evaluate_floats

    expected = [v.shape for v in program.graph.inputs]
    actual = [t.shape for t in manifest.inputs]
    if expected != actual:
        raise BadProgramError(
            f"{program.spec}: expected inputs of shapes {actual}, as the artifact takes, "
            f"got {expected}"
        )
    inputs = program.inputs(seed)
    return inputs, evaluate_floats(program.graph, inputs)


def _emulate(
    artifact: Artifact,
    inputs: tuple[Any, ...],
    options: argparse.Namespace,
    output: Output,
    data: dict[str, Any],
) -> tuple[Any, ...]:
    import json

    from mirage.emulator import EmulatorError
    from mirage.emulator.artifact import run_artifact

    try:
        result = run_artifact(artifact, inputs, checks=not options.no_checks)
    except EmulatorError as e:
        raise BadProgramError(
            f"{options.artifact}: the emulator stopped: {type(e).__name__}: {e}"
        ) from None
    if options.stats:
        for counters in result.counters:
            output.code(counters.table())
        data["stats"] = [json.loads(c.to_json()) for c in result.counters]
    return result.outputs


def _launch(
    artifact: Artifact, inputs: tuple[Any, ...], output: Output, data: dict[str, Any]
) -> tuple[Any, ...]:
    from mirage.runtime import NoGpuError
    from mirage.runtime.executable import Executable

    try:
        import torch
    except ImportError:
        raise NoGpuError("cannot launch: torch is not installed; use --emulate") from None
    program = Executable(artifact)
    if not torch.cuda.is_available():
        try:
            program.prepare()
        except NoGpuError as e:
            raise NoGpuError(f"{e}; use --emulate") from None
    types = {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f32": torch.float32,
        "f64": torch.float64,
    }
    tensors = [
        torch.from_numpy(x).to(device="cuda", dtype=types[t.dtype])
        for x, t in zip(inputs, artifact.manifest.inputs, strict=True)
    ]
    results = program(inputs=tensors)
    torch.cuda.synchronize()
    data["device"] = torch.cuda.get_device_name()
    output.say(f"ran on {data['device']}")
    return tuple(y.double().cpu().numpy() for y in results)


def _relative_error(got: Any, want: Any) -> float:
    import numpy as np

    difference = float(np.linalg.norm(got.astype(np.float64) - want))
    scale = float(np.linalg.norm(want))
    error = difference / scale if scale else difference
    return error if np.isfinite(error) else float("inf")


def _tolerance(dtype: str) -> float:
    return {"f16": 2.0**-7, "bf16": 2.0**-5}.get(dtype, 1e-4)


def _describe(y: Any) -> dict[str, Any]:
    import numpy as np

    wide = y.astype(np.float64)
    return {"norm": float(np.linalg.norm(wide)), "finite": bool(np.isfinite(wide).all())}
