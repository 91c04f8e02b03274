"""The ops with plain attributes only, at one level or both: one row each."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.mlir_io import attributes as a
from mirage.semantics.positions import Gather, Iota, TileGather, TileIota
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Concat,
    LayerNorm,
    Load,
    Mask,
    Matmul,
    Op,
    Reduce,
    Reshape,
    RmsNorm,
    RunningMax,
    Slice,
    Softmax,
    Transpose,
    Unary,
)


@dataclass(frozen=True)
class Row:
    """An op: its class, its name without the dialect, and (field, attribute, codec) for what is no
    operand.
    """

    kind: type[Op]
    mnemonic: str
    fields: tuple[tuple[str, str, a.Codec], ...] = ()
    block: bool = True
    kernel: bool = True


ROWS = (
    Row(Unary, "unary", (("fn", "fn", a.UNARY),)),
    Row(Binary, "binary", (("fn", "fn", a.BINARY),)),
    Row(Cast, "cast"),
    Row(Matmul, "matmul"),
    Row(Reduce, "reduce", (("fn", "fn", a.REDUCE), ("dims", "dims", a.INTEGERS))),
    Row(Transpose, "transpose", (("permutation", "permutation", a.INTEGERS),)),
    Row(Reshape, "reshape"),
    Row(Broadcast, "broadcast"),
    Row(Concat, "concat", (("dim", "dim", a.INTEGER),), block=False),
    Row(Slice, "slice", (("offsets", "offsets", a.INTEGERS),), block=False),
    Row(Softmax, "softmax", (("dim", "dim", a.INTEGER),), block=False),
    Row(RmsNorm, "rms_norm", (("eps", "eps", a.FLOAT), ("dims", "dims", a.INTEGER)), block=False),
    Row(
        LayerNorm, "layer_norm", (("eps", "eps", a.FLOAT), ("dims", "dims", a.INTEGER)), block=False
    ),
    Row(Iota, "iota", (("dim", "dim", a.INTEGER),), block=False),
    Row(Gather, "gather", block=False),
    Row(
        TileIota,
        "iota",
        (("dim", "dim", a.INTEGER), ("axes", "axes", a.NAMES), ("extent", "extent", a.INTEGER)),
        kernel=False,
    ),
    Row(TileGather, "gather", (("map", "map", a.MAP),), kernel=False),
    Row(Load, "load", (("map", "map", a.MAP),), kernel=False),
    Row(
        Mask,
        "mask",
        (
            ("dim", "dim", a.INTEGER),
            ("axes", "axes", a.NAMES),
            ("extent", "extent", a.INTEGER),
            ("fill", "fill", a.FLOAT),
        ),
        kernel=False,
    ),
    Row(RunningMax, "running_max", kernel=False),
)

BY_NAME = {
    **{f"kernel.{row.mnemonic}": row for row in ROWS if row.kernel},
    **{f"block.{row.mnemonic}": row for row in ROWS if row.block},
}
BY_CLASS = {row.kind: row for row in ROWS}
