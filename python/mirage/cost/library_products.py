"""The times of products that a library computes (cuBLAS, as PyTorch calls it), for comparison with
kernels that are found.

A library chooses among tiles that it was tuned for, so no tiles are chosen here: a product takes
its bytes or its work at a share of the chip's rates, whichever takes longer, plus a time until both
run at these rates. The share and that time are set from the products of f16 in
``benchmarks/results/h200_products.json``, of 16 to 4096 rows; f32 has the rate of ordinary
multiplications, TF32 half of that of 16 bits, and numbers of 8 bits twice that.
"""

from __future__ import annotations

from mirage.cost.copy_kernels import product_work
from mirage.cost.cost_report import CostReport
from mirage.cost.target import Target
from mirage.semantics.ugraph import Contraction, Op

SHARE = 0.9
"""The share of the full rate that a library's large products reach."""
START = 4.0
"""The µs until a product reads at the full rate, and from its last read to its end."""


def library_product(op: Op, target: Target) -> CostReport:
    """Predict the cost of a product that a library computes."""
    read = float(sum(v.type.bytes for v in op.operands))
    written = float(sum(v.type.bytes for v in op.results))
    dram, compute = (read + written) / target.dram_bytes, product_work(op) / _rate(op, target)
    return CostReport(
        time=target.launch + max(START + dram, compute),
        dram=dram,
        compute=compute,
        chain=START,
        launch=target.launch,
        bytes_read=read,
        bytes_written=written,
    )


def _rate(op: Op, target: Target) -> float:
    """Return the floating-point operations of all SMs in a µs."""
    half = max(target.mma_group, target.mma_half)
    size = op.operands[0].dtype.bytes
    if size > 2:
        rate = half / 2.0 if isinstance(op, Contraction) and op.rounds_factors else 2.0 * target.alu
    else:
        rate = 2.0 * half if size == 1 and target.mma_group else half
    return SHARE * target.sms * rate
