"""Loops of products whose ops have stages and places, executed with all checks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lowering import check_mlir, compile_mlir
from mirage import ir
from mirage.compiler.errors import CompileError
from mirage.emulator.run_artifact import check_artifact
from mirage.mlir_io import graphs_of, read_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from thorough import some_of
from written_kernels.warpgroup_loops import HiddenLoop, computed_factor

PLACED = re.compile(r"(%[psrco] = block\.(?:matmul|unary|reduce|cast) [^:\n]*)( : )")


def by_hand(text: str, order: str, late: str = "") -> str:
    """The module with places for the loop's ops, which are named by letters."""

    def place(found: re.Match[str]) -> str:
        name = found[1][1]
        if name not in order:
            return found[0]
        stage = int(name in late)
        attributes = f"block.order = {order.index(name)} : i64, block.stage = {stage} : i64"
        return f"{found[1]} {{{attributes}}}{found[2]}"

    return PLACED.sub(place, text)


@pytest.mark.parametrize(
    ("order", "late"),
    some_of([("psrco", ""), ("pscor", ""), ("posrc", "o"), ("porsc", "o"), ("prsco", "")], every=2),
)
def test_by_hand(order: str, late: str) -> None:
    """Ops in other orders, the second product late or not, give the same numbers."""
    text = HiddenLoop(also_sum=True, stages=2).text()
    with ir.Context(load_on_create_dialects=()):
        (graph,) = (read_graph(op).graph for op in graphs_of(ir.Module.parse(text).operation))
    artifact = compile_mlir(by_hand(text, order, late))

    def expected(*inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(x) for x in evaluate_floats(graph, list(inputs)))

    check_artifact(artifact, expected, tolerance=5e-3)


def test_places_change_the_code() -> None:
    """A row sum after the second product's start instead of before it."""
    text = HiddenLoop(also_sum=True, stages=2).text()
    codes = {compile_mlir(by_hand(text, o)).ptx() for o in ("psrco", "pscor")}
    assert len(codes) == 2


def test_factors_of_flags() -> None:
    """A step's products run while the next step's flags become factors."""
    flags = "!block.tile<64x64xf32>"
    text = re.sub(r"      %u = .*\n", "", computed_factor(4, 3)).replace("%u", "%a")
    text = text.replace("64x256xf16", "64x256xi1")
    text = re.sub(r"(%a = .*)!block.tile<64x64xf16>", rf"\1{flags}", text)
    check_mlir(text)


def test_late_products_cannot_follow_their_next_factor() -> None:
    """They would read the factor of another step."""
    text = HiddenLoop(also_sum=True, stages=2).text()
    with pytest.raises(CompileError, match="executed before a value that it reads"):
        compile_mlir(by_hand(text, "pscro", "o"))
