"""Runs the PTX that the compiler emits on a CPU, and reports the bugs that a GPU hides.

Needs NumPy and ml_dtypes only: neither the compiler, nor torch, nor a GPU.

    from mirage.emulator import Emulator, Limits, TensorMap, Uninitialised, EmulatorError

    module = Emulator(ptx_text)               # parses; EmulatorError quotes the offending line
    result = module.launch(
        "kernel_name",
        grid=(4, 1, 1), block=(128, 1, 1), cluster=(1, 1, 1), shared_bytes=49152,
        args=[a, b, Uninitialised(c), 64, 0.5],
        limits=Limits(max_instructions=10_000_000),
        checks=True,
    )
    print(result.stats.table())               # Counters; .to_json() for machines

Arguments, one for each parameter of the entry, in order:

* a NumPy array (float16/32/64, ml_dtypes.bfloat16, float8, integers, bool), passed as a global
  pointer to its first element and written in place. Every array is a separate allocation: an access
  outside the memory that its elements span is an error. The same array (or views of one base)
  passed twice is one allocation.
* ``Uninitialised(array)``: the same, filled with NaN poison first; reading an element before the
  kernel wrote it is an error.
* ``Dependent(array)``: an array that the previous grid of a programmatic dependent launch writes;
  accessing it before ``griddepcontrol.wait`` is an error.
* an int, float, bool or NumPy scalar for a scalar parameter.
* ``TensorMap(array, box=..., swizzle=...)`` for a ``__grid_constant__ CUtensorMap`` parameter
  (``.param .align 64 .b8 p[128]``); its array becomes an allocation like any other.
* ``bytes`` for any other by-value aggregate.

Checks (``checks=True``) raise a subclass of ``EmulatorError`` that names the instruction, block,
warp, lane, address and, if there is a ``.loc``, the source location:

* PtxSyntaxError, UnknownInstructionError: malformed PTX; PTX outside the subset
* LaunchError: arguments, sizes, limits
* OutOfBoundsError, MisalignedAccessError: any space
* UninitialisedReadError: registers, memory
* RaceError: shared memory, two warps
* MissingWaitError, MissingFenceError: async copies, mbarriers, wgmma; proxies
* DivergenceError: barriers and .aligned instructions
* DeadlockError, InstructionBudgetError: who waits for what; endless loops
* MbarrierError, DescriptorError: misuse of an mbarrier; tensor maps, wgmma descriptors
* TrapError: trap, failed assert

With ``checks=False`` only what is needed to run stays (bounds, deadlock, budget). See
docs/emulator.md for what is exact and what is not.
"""

from mirage.emulator.counters import Counters
from mirage.emulator.emulator import Emulator, LaunchResult
from mirage.emulator.errors import (
    DeadlockError,
    DescriptorError,
    DivergenceError,
    EmulatorError,
    InstructionBudgetError,
    LaunchError,
    MbarrierError,
    MisalignedAccessError,
    MissingFenceError,
    MissingWaitError,
    OutOfBoundsError,
    PtxSyntaxError,
    RaceError,
    TrapError,
    UninitialisedReadError,
    UnknownInstructionError,
)
from mirage.emulator.launch_arguments import Dependent, Uninitialised
from mirage.emulator.launch_limits import Limits
from mirage.emulator.tensor_map import TensorMap

__all__ = [
    "Counters",
    "DeadlockError",
    "Dependent",
    "DescriptorError",
    "DivergenceError",
    "Emulator",
    "EmulatorError",
    "InstructionBudgetError",
    "LaunchError",
    "LaunchResult",
    "Limits",
    "MbarrierError",
    "MisalignedAccessError",
    "MissingFenceError",
    "MissingWaitError",
    "OutOfBoundsError",
    "PtxSyntaxError",
    "RaceError",
    "TensorMap",
    "TrapError",
    "Uninitialised",
    "UninitialisedReadError",
    "UnknownInstructionError",
]
