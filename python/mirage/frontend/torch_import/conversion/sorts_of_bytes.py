"""Sorts that stay with PyTorch, of integers that fit into a byte.

PyTorch sorts long lines by their digits, in a pass over the line for each byte of an element.
Integers that are known to fit into a byte, such as the experts of tokens, have the same order as
bytes: one pass instead of the eight of 64 bits.
"""

from __future__ import annotations

from dataclasses import replace

from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.frontend.torch_import.rows.torch_call import Call
from mirage.semantics.ops.op import Value
from mirage.semantics.scalar import DType

SORTS = ("aten.sort", "aten.sort.stable")
WIDER = (DType.I16, DType.I32, DType.I64)


def sort_of_bytes(b: Lowering, call: Call) -> Call | None:
    """Return a sort of wide integers that are known to fit into signed bytes as a sort of these,
    which are emitted to ``b``; None for other calls. Its first result are bytes, too."""
    x = call.args[0] if call.op in SORTS else None
    if not isinstance(x, Value) or x.dtype not in WIDER or call.results[0] != x.type:
        return None
    low, high = b.range_of(x)
    if low < -128 or high > 127:
        return None
    keys = b.cast(x, DType.I8)
    return replace(call, args=(keys, *call.args[1:]), results=(keys.type, call.results[1]))
