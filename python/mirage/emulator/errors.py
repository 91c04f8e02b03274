"""The errors that the emulator raises. Every check has a type of its own, so that a test can name
it."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.errors import MirageError


@dataclass(frozen=True)
class Site:
    """A place in the PTX: the 1-based line, its text, and the `.loc` in force."""

    line: int
    text: str
    location: str | None = None

    def __str__(self) -> str:
        origin = f" (from {self.location})" if self.location else ""
        return f"ptx line {self.line}: `{self.text}`{origin}"


@dataclass(frozen=True)
class Thread:
    """A thread: the block's index in the grid, the warp in the block, and the lane in the warp
    (None: all)."""

    block: tuple[int, int, int]
    warp: int
    lane: int | None = None

    def __str__(self) -> str:
        lane = "" if self.lane is None else f" lane {self.lane}"
        return f"block {self.block} warp {self.warp}{lane}"


class EmulatorError(MirageError):
    """The base of all errors; `site`, `thread` and `address` are None if they do not apply."""

    def __init__(
        self,
        message: str,
        *,
        site: Site | None = None,
        thread: Thread | None = None,
        address: int | None = None,
    ) -> None:
        parts = [message]
        if address is not None and f"{address:#x}" not in message:
            parts[0] += f"; address {address:#x}"
        if thread is not None:
            parts.append(f"  by {thread}")
        if site is not None:
            parts.append(f"  at {site}")
        super().__init__("\n".join(parts))
        self.site = site
        self.thread = thread
        self.address = address


class PtxSyntaxError(EmulatorError):
    """The text is not PTX; quotes the line."""


class UnknownInstructionError(EmulatorError):
    """An instruction, modifier or directive outside the emulated subset; quotes the line."""


class LaunchError(EmulatorError):
    """The arguments, grid, block, cluster or shared-memory sizes are not valid for the kernel."""


class OutOfBoundsError(EmulatorError):
    """An access outside every allocation of its space."""


class MisalignedAccessError(EmulatorError):
    """An address that is not a multiple of what the instruction requires."""


class UninitialisedReadError(EmulatorError):
    """A register or memory was read before anything was written there."""


class RaceError(EmulatorError):
    """Two warps touched the same shared or global memory, one of them writing, with no order
    between."""


class MissingWaitError(EmulatorError):
    """The result of an asynchronous copy or wgmma was used before the wait that makes it
    visible."""


class MissingFenceError(EmulatorError):
    """A proxy fence, mbarrier-init fence or wgmma.fence is missing between two accesses."""


class DivergenceError(EmulatorError):
    """Lanes or warps that have to execute an instruction together do not."""


class DeadlockError(EmulatorError):
    """Nothing can run; the message lists what each warp waits for."""


class InstructionBudgetError(EmulatorError):
    """`Limits.max_instructions` is used up; the message says where the warps are."""


class MbarrierError(EmulatorError):
    """An mbarrier is used before init, with a wrong count, or overflows its transaction count."""


class DescriptorError(EmulatorError):
    """A tensor map or wgmma matrix descriptor breaks a rule of the hardware."""


class TrapError(EmulatorError):
    """The kernel executed `trap` or a failed device assert."""
