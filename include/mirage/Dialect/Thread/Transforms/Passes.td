//===- Passes.td - ThreadTransforms passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD

include "mirage/Dialect/Common/ChipOption.td"

include "mlir/Pass/PassBase.td"

def ExpandRings : Pass<"mirage-expand-rings", "::mlir::ModuleOp"> {
  let summary = "replace rings by tiles and mbarriers";
  let description = [{
    A ring of n slots becomes an n-slot shared tile for each of its tiles and two
    arrays of n mbarriers. *full* counts one arrival, that of the producer, which
    announces the bytes to come; *empty* counts one arrival of each reading
    warp. Step s uses slot s mod n. With r = s / n,

    - `ring_fill` waits for phase r - 1 of *empty* (parity r + 1: in the first
      round there is nothing to wait for), announces the bytes on *full* and
      starts the copies;
    - `ring_wait` waits for phase r of *full* (parity r);
    - `ring_release` arrives at *empty*.

    A parity distinguishes only two phases. That is enough: neither side is ever more
    than one phase ahead of the other, because the fill of round r + 1 waits for the
    releases of round r, and those come after the waits for the fill of round r.

    If a ring has writers, *full* counts the threads of their copies, their warps, and
    one arrival for each fill of a step. `ring_acquire` waits as `ring_fill` does
    otherwise. `ring_publish` arrives at *full* for stores and, if the ring has `copies`,
    for copies when they are done (`copy_arrive`). `ring_wait` ends with a fence, after
    which products see both. Each writer waits for the releases of the round before, and
    readers release a slot only after all writers have filled it, so no writer is more
    than one phase ahead of another either.

    For a ring of a cluster, *empty* of each block counts the warps of all blocks, each
    of which arrives at *empty* of every block. *full* counts all bytes that arrive in
    the block, whichever block copies them. A copy from another block counts in the right
    phase even if this block has not announced its bytes yet: the phase cannot end before
    the announcement, and the sender has waited until the warps of this block have
    released the round before. `cluster_barrier`s are inserted after the mbarriers are
    initialised, and before the end of the kernel.
  }];
  let statistics = [Statistic<"numRings", "rings", "rings replaced">];
  let dependentDialects = ["::mirage::thread::ThreadDialect", "::mlir::arith::ArithDialect"];
}

def PlanSharedMemory : Pass<"mirage-plan-shared-memory", "::mlir::ModuleOp"> {
  let summary = "give shared tiles and scratch areas their offsets";
  let description = [{
    Precondition: GPU functions of thread ops without rings
    (`mirage-expand-rings`). A shared allocation lives from its first to its last
    use; if it is used in a loop but defined outside of it, it lives through the
    whole loop. The scratch area of an op lives during the op, and mbarriers live
    until the end of the function. Roles run at the same time, so everything that
    one of them uses lives through all of them. There is one exception: a role next to others that
    only start copies into tiles that it reads. It waits for each of these copies, so the tiles live
    from the start of the roles to its last use, and tiles that only it uses live as in a function
    without roles.

    Offsets are the solution of a dynamic storage allocation problem
    (`SharedMemoryProblem.h`): exact by branch and bound for few buffers, first fit
    by size otherwise. Where memory is reused, a barrier is inserted before the new
    owner's first write, unless there is one already.

    The number of bytes that a function needs is recorded as `thread.shared_bytes`
    and in the `kernel.invoke`s of the function. If the chip has less, an error lists
    the tiles; the remedy is smaller tiles or fewer stages.
  }];
  let options = [ChipOption];
  let statistics = [Statistic<"numBuffers", "buffers", "tiles and scratch areas placed">,
                    Statistic<"numBarriers", "barriers", "barriers inserted">];
  let dependentDialects = ["::mirage::thread::ThreadDialect"];
}

def OrderColumns : Pass<"mirage-order-columns", "::mlir::ModuleOp"> {
  let summary = "access rows that start anywhere in vectors, with a different order of columns";
  let description = [{
    Rows of 1023 elements of 2 bytes start at odd elements, so that threads would load and
    store them element by element. Where a kernel has whole rows in registers, and the order of
    columns does not matter, because ops are elementwise or reduce whole rows, the columns may be in
    any order that is the same for all tiles. So each row begins with its first multiple of 16
    bytes, from which on threads have vectors; at most 14 elements of a row are accessed one by one
    (`ordered` in `thread.load_global`).

    Tiles are connected by elementwise ops. They are ordered together if all loads and stores among
    them access whole rows at equal places of tensors with equal strides that start at multiples of
    16 bytes, and every other op is a reduction or a broadcast along rows, a constant, or a mask of
    elements after the end of rows.
  }];
  let statistics = [Statistic<"numOrdered", "ordered", "groups of tiles whose columns are ordered">];
}

def OverlapLaunches : Pass<"mirage-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "let kernels start before the previous ones have ended";
  let description = [{
    On chips with dependent launches, each kernel of a graph except the first becomes
    `dependent`: its blocks start as soon as all blocks of the previous kernel have
    started and there is room, and then wait (`thread.dependent_wait`) until that
    kernel has ended and its results are visible. The cost of a launch is thus hidden
    behind the end of the previous kernel. The same applies to the first loads of data that exists
    when the kernel starts, and to the set-up of barriers in shared memory: these come before the
    wait, and everything else comes after it. The graph's inputs (mainly weights) exist, and so do
    the results of kernels before the previous one (for example the indices of rows of weights,
    which may thus be loaded early, too).

    A kernel lets the next one start (`thread.dependent_launch`) at its start, or right
    after its own wait, however much work it still has: once all of its blocks run, the next
    kernel's blocks cannot take the place of any of them. If these are few, the launch must spread
    them evenly among the multiprocessors, since the hardware gives them to those with the most
    room: on an H200, decoding with keys split among 128 or 256 blocks takes up to 15 % less time
    than with a start after the last loop if they are spread, and up to 16 % more if they are not
    (`benchmarks/results/h200_limits.md`).

    *Order.* When a kernel has passed its wait, the previous kernel has ended, which had waited
    itself: so all earlier kernels have ended, and memory is reused in order. Only views may be
    between two kernels that overlap.

    *Waiting.* A kernel lets the next one start after its own wait, so that at most one other kernel
    is still running then. A kernel without a loop that waits for others of its graph lets the next
    one start before its wait: then the next one, if it has something to load that none of these
    kernels writes, loads it while this one waits. All blocks of the next one must fit at once. The
    weights of a projection come while attention runs, and its parts are combined in between. So a
    kernel that streams inputs and follows such a kernel does not run at the same time.

    *Beside.* A kernel may share no memory with the previous one that either of them writes: for
    example, the product of the queries after that of the values. It then works at once, lets the
    next one start at once, and waits before it ends, because later kernels wait only for this one.
    The next kernel starts while both run, so it waits first, unless it shares no such memory with
    either. `beside = n` on the call states how many kernels may run while it works; the placement
    of intermediate tensors in memory must keep the results of this kernel separate from everything
    that these touch. On an H200, steps of Llama 3 8B and Gemma 2 9B with and without this rule
    differ by at most 0.7 %. A kernel that is called in several places waits first.

    *Other graphs.* With `follows`, the graph is one of several that are launched one
    after the other: its first kernel waits before it touches anything, so it may be launched as a
    dependent one after any kernel, and its last one lets the next start.
  }];
  let options = [ChipOption, Option<"follows", "follows", "bool", "false",
                                    "kernels of other graphs run before and after">];
  let statistics = [Statistic<"numDependent", "dependent", "kernels that start early">,
                    Statistic<"numBeside", "beside", "kernels that work beside others">];
  let dependentDialects = ["::mirage::thread::ThreadDialect"];
}

def PackBlocks : Pass<"mirage-pack-blocks", "::mlir::ModuleOp"> {
  let summary = "let several small blocks whose warps do not meet run as one";
  let description = [{
    A multiprocessor holds few blocks at once (`blocksSm`), so blocks of one or two warps leave it
    with little to wait for, and each has to be started. If a kernel has no shared memory and no
    barrier, a thread stores at most 32 bytes, and the grid is at least twice as large as what runs
    at once, as many of its blocks as divide the grid and have at most 256 threads together become one (`thread.packed`). The number
    of a block is then that of its share of the threads.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let options = [ChipOption];
  let statistics = [Statistic<"numPacked", "packed", "kernels whose blocks are several">];
}

def GrantRegisters : Pass<"mirage-grant-registers", "::mlir::ModuleOp"> {
  let summary = "let kernels with few blocks use registers that no other block needs";
  let description = [{
    ptxas assumes that as many blocks as possible run on each multiprocessor. To make
    more of them fit, it splits loads into several rounds, each of which waits for device
    memory. With a small grid, however, a multiprocessor has only one or two blocks. If
    all blocks can run at once even with 128 registers for each thread, the pass states
    how many blocks share a multiprocessor (`nvvm.minctasm`), so that all loads of a
    block are in flight together. On an H200, one row of 256 times a matrix and two
    factors took 3.3 instead of 5.0 µs, decoding of one sequence took 12.9 instead of
    14.0 µs, and most others took as long as before (`benchmarks/results/h200_limits.md`).
    With fewer registers, the assembler would spill instead. Kernels with products of
    warpgroups are not changed: they need as many registers as their sums take.

    The number of blocks on a multiprocessor is computed for the card of this chip that
    has the fewest multiprocessors.
  }];
  let options = [ChipOption];
  let statistics = [Statistic<"numGranted", "granted", "kernels that say how many blocks share registers">];
}

def CheckChip : Pass<"mirage-check-chip", "::mlir::ModuleOp"> {
  let summary = "refuse kernels that need more than the chip can do";
  let description = [{
    Each op whose instructions only some chips have declares which ability it needs
    (`Needs.h`). An op that needs an ability that the chip lacks (`Chip.h`) is an error;
    the remedy is another chip, or a schedule that does not need it (`engine = warp`).

    It is also an error if the left factor of a `thread.wgmma` in a loop is in registers
    and is the same at all steps, unless a product whose left factor is computed at each
    step is issued together with it. ptxas 13.0 reuses the registers of such a factor for
    other values while the loop runs (attention with a bias added to its queries gave
    wrong results on an H200, without any message); it does not do so if both factors
    are in use at the same time.
  }];
  let options = [ChipOption];
}

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
