"""The examples in the ops' documentation parse and verify: every op of the dialects is in one.

An example uses values that it does not define. The parser knows their expected types, and its
message names both types if a definition does not fit, so definitions are added until the example is
accepted.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mirage import ir

ROOT = Path(__file__).parents[3]
DIALECTS = ("kernel", "block", "thread")
_SECTION = re.compile(r"^### `(\w+\.\w+)` \(.*?(?=^### |^## |\Z)", re.M | re.S)
_EXAMPLE = re.compile(r"```mlir\n(.*?)```", re.S)

_ROW8 = "lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]"
_LAYOUTS = {
    "layout": f"reg = [[0, 1], [8, 0]], {_ROW8}",
    "part": f"reg = [[0, 1], [8, 0]], {_ROW8}",
    "rows": "reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]]",
    "blocked": "reg = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]]",
    "transposed": "reg = [[1, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]",
    "lhs": f"reg = [[0, 1], [8, 0], [0, 8]], {_ROW8}",
    "rhs": "reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]",
    "acc": f"reg = [[0, 1], [8, 0]], {_ROW8}",
}
"""The meaning of the aliases in the examples of fragments of 16 x 8 (rows: 16 x 1)."""
_WIDER = {
    "16x16": "repeat = [1, 2]",
    "64x64": "warp = [[16, 0], [32, 0]], repeat = [1, 8]",
}
"""The same layouts on other shapes."""
_SPLIT = "warp = [[0, 0]]"
"""The change of a layout that makes its fragments partial sums of two warps."""

_VALUES = "// values used and not defined\n"
_LAUNCH = """
%in = "test.def"() : () -> tensor<4096x6144xf16>
{out} = kernel.launch(%in) grid [n = 128, s = 2] : (tensor<4096x6144xf16>) -> {result} {{
^bb0(%gw: tensor<4096x6144xf16>):
  %scalar = block.constant 1.0 : !block.tile<f32>
  %one = block.broadcast %scalar : (!block.tile<f32>) -> !block.tile<1x1xf32>
  {values}{body}
}}
"""
_LOOP = """
  %sum = block.loop [k = 64] {{
    {values}{body}
    block.accumulate sum %one : !block.tile<1x1xf32>
  }} : !block.tile<1x1xf32>
"""
_ONE = "  block.store %one [[n], [s]] : !block.tile<1x1xf32>"
_KERNELS = """
gpu.module @kernels {
  gpu.func @f(%a: memref<64x32xf16>, %b: memref<64x32xf16>) kernel { gpu.return }
}
"""


def examples(dialect: str) -> dict[str, list[str]]:
    """The examples in the reference of a dialect, by op."""
    text = (ROOT / "docs" / "reference" / f"{dialect}.md").read_text()
    return {m[1]: _EXAMPLE.findall(m[0]) for m in _SECTION.finditer(text)}


ALL = [
    pytest.param(op, example, id=op)
    for dialect in DIALECTS
    for op, found in examples(dialect).items()
    for example in found
]


def spell_layouts(text: str) -> str:
    """``text`` with the aliases of layouts replaced by layouts for their shapes."""

    def spell(match: re.Match[str]) -> str:
        shape, element, name, partial = match.groups()
        split = name == "layout" and ", partial" in text
        if name not in _LAYOUTS:
            raise KeyError(f"an example uses a layout #{name} that this test does not know")
        wider = "" if name == "lhs" else _WIDER.get(shape, "")
        parts = [_LAYOUTS[name], wider, _SPLIT if split else ""]
        layout = ", ".join(part for part in parts if part)
        return f"<{shape}x{element}, #thread.layout<{layout}>{partial or ''}>"

    return re.sub(r"<(\d+x\d+)x(\w+), #(\w+)(, partial)?>", spell, text)


def in_context(op: str, example: str) -> str:
    """Return ``example`` in a valid place for its op, with a mark where values that it uses are
    defined."""
    if op == "kernel.invoke":
        return _VALUES + _KERNELS + example
    if not op.startswith("block."):
        return _VALUES + example
    out = "%out"
    result, body = "tensor<128x2xf32>", f"{example}{_ONE}"
    if op in ("block.load", "block.mask", "block.running_max"):
        body = _LOOP.format(values=_VALUES, body=example) + _ONE
    elif op == "block.accumulate":
        maximum = "%m = block.running_max %rows : !block.tile<16x1xf32>\n"
        types = "!block.tile<16x64xf32>, !block.tile<16x1xf32>, !block.tile<16x1xf32>"
        body = f"%r:3 = block.loop [k = 2] {{\n{_VALUES}{maximum}{example}}} : {types}\n{_ONE}"
    elif op == "block.store":
        out, result, body = "%out:2", "(tensor<16x6144xf32>, tensor<16x1xf32>)", example
    if op == "block.loop":  # the launch's parameters are the only tensors in it
        body = body.replace("%gx", "%gv")
    values = "" if _VALUES in body else _VALUES
    return _LAUNCH.format(out=out, result=result, values=values, body=body)


def parse(text: str) -> ir.Module:
    """Parse ``text``, preceded by definitions of values that it uses but does not define."""
    types: dict[str, str] = {}
    for _ in range(64):
        head = "".join(f'%{n} = "test.def"() : () -> {t}\n' for n, t in types.items())
        try:
            return ir.Module.parse(text.replace(_VALUES, head))
        except ir.MLIRError as error:
            message = str(error)
        if found := re.search(
            r"use of value '%(\w+)' expects different type than prior uses: '(.*?)' vs '", message
        ):
            types[found[1]] = found[2]
            continue
        lines = text.replace(_VALUES, head).splitlines()
        names = [
            re.match(r"%(\w+)", lines[int(line) - 1][int(column) - 1 :])
            for line, column in re.findall(
                r"(\d+):(\d+)\W+use of undeclared SSA value name", message
            )
        ]
        if not names:
            raise AssertionError(f"{message}\nin\n{text.replace(_VALUES, head)}")
        types |= {name[1]: "none" for name in names if name}
    raise AssertionError(f"no types found for {types} in\n{text}")


@pytest.mark.parametrize(("op", "example"), ALL)
def test_example(op: str, example: str) -> None:
    assert op in example
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = parse(in_context(op, spell_layouts(example)))
        assert module.operation.verify()


def test_every_op_is_in_an_example() -> None:
    for dialect in DIALECTS:
        found = examples(dialect)
        assert len(found) > 10
        written = "".join(example for of_op in found.values() for example in of_op)
        # Terminators that the syntax leaves out cannot be written.
        missing = {op for op in found if op not in written} - {"thread.end"}
        assert not missing
