"""The limits on the resources of one launch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """`max_instructions`: warp-instructions for the whole launch; `max_shared_bytes`: shared memory
    of a block (227 KiB on sm_90); `max_resident_bytes`: host memory for the blocks that are
    executed in parallel (further blocks run afterwards, as on a full GPU)."""

    max_instructions: int = 200_000_000
    max_shared_bytes: int = 232_448
    max_resident_bytes: int = 256 << 20
