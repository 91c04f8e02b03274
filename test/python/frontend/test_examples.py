"""The examples can be imported, and their programs are as described."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mirage.cli.programs import load_program
from mirage.semantics.check import check_graph
from mirage.semantics.ugraph import Matmul, RmsNorm, Softmax, Transpose
from thorough import some_of

EXAMPLES = Path(__file__).parents[3] / "examples"

KINDS = {
    "rms_linear.py": [RmsNorm, Transpose, Matmul],
    "attention.py": [Matmul, Softmax, Matmul],
    "swiglu.py": None,
    "lora.py:lora": None,
}


@pytest.mark.parametrize("name", some_of(KINDS, every=2))
def test_program(name: str) -> None:
    program = load_program(str(EXAMPLES / name))
    check_graph(program.graph)
    if KINDS[name] is not None:
        assert [type(op) for op in program.graph.ops] == KINDS[name]
    places = {Path(p.file).name for p in program.program.locations.values()}
    assert places == {name.partition(":")[0]}


def test_importing_mirage_loads_nothing_heavy() -> None:
    """Running an artifact must not need torch-mlir, the bindings or torch until they are used."""
    code = (
        "import sys, mirage, mirage.runtime, mirage.semantics, mirage.emulator\n"
        "mirage.float16\n"
        "bad = [m for m in ('torch', 'torch_mlir', 'mirage.ir', 'mirage._mlir_libs') if m in "
        "sys.modules]\n"
        "assert not bad, bad\n"
        "assert 'superoptimize' in dir(mirage.GraphBuilder) and 'from_torch' in dir(mirage)\n"
        "try: mirage.nothing\n"
        "except AttributeError as e: assert \"'nothing'\" in str(e)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
