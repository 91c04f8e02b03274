"""Predicted times and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from mirage.cost.first_bytes import after_another
from mirage.cost.target import Target


@dataclass(frozen=True)
class CostReport:
    """A predicted time in µs and its parts."""

    time: float
    launches: int = 1
    dram: float = 0.0
    l2: float = 0.0
    compute: float = 0.0
    chain: float = 0.0
    launch: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    shared: int = 0
    registers: int = 0
    blocks: int = 0
    memory_first: bool = True
    """Whether it first waits for memory, and not only for L2."""
    early: bool = True
    """Whether it may start before the previous kernel has ended."""
    parts: tuple[CostReport, ...] = field(default=())

    @property
    def bound(self) -> str:
        """The limiting resource of the (largest) kernel."""
        if self.parts:
            return max(self.parts, key=lambda p: p.time).bound
        kinds = {"dram": self.dram, "l2": self.l2, "compute": self.compute, "latency": self.chain}
        return max(kinds, key=lambda k: kinds[k])

    def behind(self, target: Target, early: bool = True) -> float:
        """Return the additional µs if this kernel follows another one."""
        first = self.parts[0] if self.parts else self
        return (
            after_another(target, first.memory_first) if early and first.early else target.combine
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "parts"}
        return {**own, "bound": self.bound, "parts": [p.to_json() for p in self.parts]}

    @staticmethod
    def sequence(parts: tuple[CostReport, ...], target: Target, early: bool = True) -> CostReport:
        """Return the cost of kernels that run one after the other; ``early`` says whether each of
        them may start before the previous one has ended."""
        if len(parts) == 1:
            return parts[0]
        return CostReport(
            time=sum(p.time for p in parts) + sum(p.behind(target, early) for p in parts[1:]),
            launches=sum(p.launches for p in parts),
            dram=sum(p.dram for p in parts),
            l2=sum(p.l2 for p in parts),
            compute=sum(p.compute for p in parts),
            chain=sum(p.chain for p in parts),
            launch=sum(p.launch for p in parts),
            bytes_read=sum(p.bytes_read for p in parts),
            bytes_written=sum(p.bytes_written for p in parts),
            shared=max((p.shared for p in parts), default=0),
            registers=max((p.registers for p in parts), default=0),
            blocks=max((p.blocks for p in parts), default=0),
            parts=parts,
        )
