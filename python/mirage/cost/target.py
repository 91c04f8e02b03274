"""The cost model's facts about a GPU: one row of the table in ``include/mirage/Target/Chip.h``.

The table is in C++, where the code generator asks it what a chip can do; here the same rows are
read for the search and the cost model. :func:`target_for` finds a row by name, and
:func:`target_of_device` that of a GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from difflib import get_close_matches

from mirage import _target
from mirage.errors import MirageError

DEFAULT_CHIP = _target.DEFAULT_CHIP
"""The chip for which code is generated if no chip is named and there is no GPU."""


CHIPS: tuple[str, ...] = tuple(row["chip"] for row in _target.chips())
"""The chips for which code is generated."""


class UnknownTargetError(MirageError, LookupError):
    """A chip is not in the table."""


@dataclass(frozen=True)
class Target:
    """A GPU. Times in µs, rates per µs, sizes in bytes."""

    name: str
    chip: str
    capability: tuple[int, int]  # compute capability
    abilities: frozenset[str]  # mechanisms that not all chips have
    product: str  # words in the driver's name for it
    # whether rates and latencies are fitted to measurements; otherwise they are from data sheets
    measured: bool
    sms: int
    dram_bytes: float  # streaming read, bytes per µs
    l2_bytes: float  # bytes per µs that all SMs together read from L2
    sm_bytes: float  # bytes per µs that one SM can take in
    box_l2_bytes: float  # the two for what the tensor memory accelerator copies
    box_sm_bytes: float
    l2_size: int
    mma_half: float  # flop per µs of one SM, f16/bf16 operands
    mma_group: float  # the same where four warps multiply from shared memory; 0: they cannot
    mma_f32: float  # the same for f32 operands (three tf32 products each)
    alu: float  # f32 lane operations per µs of one SM
    sfu: float  # special-function results per µs of one SM
    shared_bytes: float  # shared-memory bytes per µs of one SM
    shared_block: int  # shared memory that one block may have
    shared_sm: int  # shared memory of one SM
    registers_sm: int
    registers_thread: int
    threads_block: int
    threads_sm: int
    blocks_sm: int
    launch: float  # an empty kernel in graph replay
    latency: float  # first byte from DRAM
    clock: float  # clocks per µs
    chain: float  # factor on the latency of dependent instructions
    step: float  # clocks of one loop step besides its work (waiting, barrier, copy issue)
    ring_step: float  # the same if one warp keeps a ring of tiles filled for the others
    step_latency: float  # µs until the data that a loop step requested arrives
    step_warp: float  # more of them for each warp
    exchange: float  # clocks of a reduction across the lanes and warps of a block
    exchange_warp: float  # more of them for each warp
    gather: float  # clocks for each value of another warp that a thread adds up
    combine: float  # extra time of a dependent kernel
    block_start: float  # µs between the starts of two blocks of four warps on one SM
    flight: float  # bytes in flight per SM that sustain 0.7 of DRAM's bandwidth
    # additional µs of a block that multiplies without a loop: nothing is loaded meanwhile
    alone: float
    spill_bytes: float  # bytes per µs that all SMs together spill and read back

    @property
    def has_warpgroups(self) -> bool:
        """Whether groups of four warps can multiply tiles in shared memory."""
        return "warpgroup_mma" in self.abilities

    @property
    def has_clusters(self) -> bool:
        """Whether blocks can read and write each other's shared memory."""
        return "clusters" in self.abilities

    @property
    def starts_early(self) -> bool:
        """Whether a kernel may start before the one that it depends on has ended."""
        return "dependent_launch" in self.abilities

    @property
    def flight_total(self) -> float:
        """The bytes in flight on the whole chip that sustain 0.7 of DRAM's bandwidth."""
        return self.flight * self.sms


def _read() -> dict[str, Target]:
    known = {f.name for f in fields(Target)}
    rows: dict[str, Target] = {}
    for row in _target.cards():
        if set(row) != known:
            raise ImportError(
                f"the compiled half of mirage has other columns than mirage.cost.Target "
                f"({', '.join(sorted(set(row) ^ known))}); build it again"
            )
        row["abilities"] = frozenset(row["abilities"])
        target = Target(**row)
        rows[target.name] = target
        rows.setdefault(target.chip, target)
    return rows


TARGETS = _read()
"""All rows by the names of cards and chips; the first card of a chip represents the chip."""

H200, A100 = TARGETS["h200"], TARGETS["a100"]


def target_for(name: str) -> Target:
    """Return the row of a chip (``sm_90a``) or card (``h200``). A card's name may also be its
    product name or the driver's name (``NVIDIA H100 PCIe``). Raises :class:`UnknownTargetError`."""
    plain = _plain(name)
    cards = {_plain(known): target for known, target in TARGETS.items()}
    target = TARGETS.get(name) or cards.get(plain) or _of_driver(name)
    if target is None:
        close = get_close_matches(plain, cards, 1)
        hint = f"; did you mean {cards[close[0]].name}?" if close else ""
        raise UnknownTargetError(f"expected {_target.known_chips()}, got {name!r}{hint}")
    return target


def name_in_table(name: str) -> str:
    """Return the table's name of a chip or card. Raises :class:`UnknownTargetError`."""
    return name if name in TARGETS else target_for(name).name


def _plain(name: str) -> str:
    """Return a card's name without its maker, its series and the separators between words."""
    words = re.split(r"[\s_-]+", name.lower())
    return "".join(w for w in words if w not in ("nvidia", "geforce", "tesla", "sxm"))


def _of_driver(name: str) -> Target | None:
    """Return the card that a driver calls ``name``. The first card of a chip represents any card of
    that chip, so it does not count as found."""
    for target in {t.chip: t for t in reversed(TARGETS.values())}.values():
        card = _target.card_of_device(*target.capability, name)
        if card is not None and card != TARGETS[target.chip].name:
            return TARGETS[card]
    return None


def target_of_device(capability: tuple[int, int], device: str) -> Target:
    """Return the row of the GPU that the driver calls ``device``: that of its card, or else of its
    chip. Raises :class:`UnknownTargetError` if the table has no row for its compute capability.
    """
    card = _target.card_of_device(*capability, device)
    if card is None:
        known = ", ".join(
            f"{major}.{minor} ({chip})"
            for chip, (major, minor) in {t.chip: t.capability for t in TARGETS.values()}.items()
        )
        raise UnknownTargetError(
            f"expected a GPU of compute capability {known}, got {device} of "
            f"{capability[0]}.{capability[1]}; name a chip whose code it runs (chip='sm_80') or "
            "add a row to the table (docs/chips.md)"
        )
    return TARGETS[card]
