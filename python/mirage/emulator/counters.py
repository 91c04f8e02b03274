"""The work of a launch, counted as a profiler would count it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass
class Counters:
    """Counters of one launch. Instructions are warp-instructions unless said otherwise.

    `global_sectors` are 32-byte sectors that a warp's accesses touch, `global_bytes` the bytes that
    the lanes requested: bytes / (32 * sectors) is the coalescing efficiency. `shared_wavefronts` is
    the number of passes that shared accesses take, `bank_conflicts` how many of them exceed the
    minimum for the bytes moved. `tensor_core_ops` are multiply-adds. `declared_registers` are those
    of each type that PTX declares, `live_registers` the most 32-bit ones of a thread that hold
    values at a time.
    """

    kernel: str = ""
    blocks: int = 0
    warps: int = 0
    instructions: int = 0
    instructions_by_class: dict[str, int] = field(default_factory=dict[str, int])
    global_load_bytes: int = 0
    global_load_sectors: int = 0
    global_store_bytes: int = 0
    global_store_sectors: int = 0
    global_atomics: int = 0
    async_copy_bytes: int = 0
    bulk_copy_bytes: int = 0
    shared_load_bytes: int = 0
    shared_store_bytes: int = 0
    shared_wavefronts: int = 0
    bank_conflicts: int = 0
    block_barriers: int = 0
    cluster_barriers: int = 0
    mbarrier_waits: int = 0
    tensor_core_ops: int = 0
    peak_bytes_in_flight_per_block: int = 0
    declared_registers: dict[str, int] = field(default_factory=dict[str, int])
    live_registers: int = 0
    shared_bytes: int = 0

    def to_json(self) -> str:
        """Return all counters as a JSON object with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True)

    def table(self) -> str:
        """Return the counters as aligned text, one per line; nested ones are indented."""
        rows: list[tuple[str, str]] = []
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                rows.append((name, ""))
                rows.extend((f"  {key}", str(n)) for key, n in sorted(value.items()))
            else:
                rows.append((name, f"{value:,}" if isinstance(value, int) else str(value)))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in rows)
