"""Passes on graphs with a dynamic size: each keeps it, or refuses graphs that do not hold for all
sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mirage import ir
from mirage.passes import registry
from mirage.passes.registry import add_to, names
from mirage.passmanager import PassManager

DYNAMIC = "dynamic = #kernel.dynamic<bound = 16, tensors = [0]>"

ROWS = f"""
kernel.graph @f(%x: tensor<16x32xf16>, %w: tensor<32x16xf16>) -> tensor<16x16xf16>
    attributes {{form = #kernel.form<reference>, {DYNAMIC}}} {{
  %0 = kernel.matmul %x, %w : (tensor<16x32xf16>, tensor<32x16xf16>) -> tensor<16x16xf16>
  %1 = kernel.unary exp %0 : (tensor<16x16xf16>) -> tensor<16x16xf16>
  kernel.return %1 : tensor<16x16xf16>
}}
"""

COLUMNS = f"""
kernel.graph @f(%x: tensor<16x32xf16>) -> tensor<16x32xf16>
    attributes {{form = #kernel.form<reference>, {DYNAMIC}}} {{
  %0 = kernel.softmax %x dim 0 : (tensor<16x32xf16>) -> tensor<16x32xf16>
  kernel.return %0 : tensor<16x32xf16>
}}
"""

ORDER = (
    "mirage-search",
    "mirage-stabilize",
    "mirage-skip-steps",
    "mirage-shortlist",
    "mirage-verify",
    "mirage-rank",
    "mirage-select",
)


def run(text: str, *passes: str, watch: Callable[[str, str], Any] = lambda name, text: None) -> str:
    with ir.Context():
        module = ir.Module.parse(text)
        for name in passes:
            manager = PassManager("builtin.module")
            add_to(manager, name, **({"max_candidates": 2} if name == "mirage-search" else {}))
            manager.run(module.operation)
            watch(name, str(module))
        return str(module)


def test_the_order_has_all_passes() -> None:
    folder = Path(registry.__file__).parent  # other tests register their own passes
    files = (n.removeprefix("mirage-").replace("-", "_") for n in names())
    assert len(ORDER) == sum((folder / f"{file}.py").exists() for file in files)
    assert {*ORDER} <= {*names()}


def test_each_pass_keeps_the_size() -> None:
    kept: dict[str, bool] = {}

    def watch(name: str, text: str) -> None:
        kept[name] = DYNAMIC in text

    text = run(ROWS, *ORDER, watch=watch)
    assert kept == dict.fromkeys(ORDER, True)
    assert "kernel.launch" in text


def test_kernels_whose_rows_depend_on_each_other_are_refused() -> None:
    with pytest.raises(ir.MLIRError) as caught:
        run(COLUMNS, *ORDER)
    message = str(caught.value)
    assert "expected kernels whose rows do not depend on each other, as the graph is dynamic" in (
        message
    )
    assert "leave the attribute 'dynamic' out" in message
