//===- Passes.td - ThreadTransforms passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandRings : Pass<"mirage-expand-rings", "::mlir::ModuleOp"> {
  let summary = "replace rings by the tiles and mbarriers that they stand for";
  let description = [{
    A ring of n slots becomes an n-slot shared tile for each of its tiles and two
    arrays of n mbarriers. *full* counts one arrival, that of the producer, which
    announces the bytes to come; *empty* counts one arrival of each reading
    warp. Step s uses slot s mod n; with r = s / n,

    - `ring_fill` waits for phase r - 1 of *empty* (parity r + 1: in the first
      round there is nothing to wait for), announces the bytes on *full* and
      starts the copies;
    - `ring_wait` waits for phase r of *full* (parity r);
    - `ring_release` arrives at *empty*.

    A parity names one of two phases. That is enough: a side is never more than
    one phase ahead of the other, as the fill of round r + 1 waits for the
    releases of round r, and those come after the waits for the fill of round r.

    Where a ring has writers, *full* counts the threads of their copies, their warps, and
    one arrival for each fill of a step; `ring_acquire` waits as `ring_fill` does else,
    `ring_publish` arrives at *full* for stores and, of a ring with `copies`, for copies
    when they are done (`copy_arrive`), and `ring_wait` goes on with a fence, behind which products see both.
    Each writer waits for the releases that all of them had to fill for, so that none of
    them is more than a phase ahead either.

    Of a ring of a cluster each block's *empty* counts the warps of all blocks, which
    arrive at those of all blocks, and *full* counts all bytes that come to the block,
    whoever copies them. A copy that comes from elsewhere counts in the right phase, even
    before the block has announced its bytes: the phase is over when the announcement has been
    made, and its sender has waited for this block's warps to release the round before.
    `cluster_barrier`s come after the mbarriers are initialised, and before the end of
    the kernel.
  }];
  let statistics = [Statistic<"numRings", "rings", "rings replaced">];
  let dependentDialects = ["::mirage::thread::ThreadDialect", "::mlir::arith::ArithDialect"];
}

def PlanSharedMemory : Pass<"mirage-plan-shared-memory", "::mlir::ModuleOp"> {
  let summary = "give shared tiles and scratch areas their offsets";
  let description = [{
    Precondition: GPU functions of thread ops without rings
    (`mirage-expand-rings`). Shared allocations live from their first to their
    last use, those used in a loop that they are defined outside of through all
    of it; the scratch area of an op lives during the op, mbarriers to the end
    of the function. Roles run at the same time: what one of them uses lives
    through all of them. The exception is a role beside others that do nothing
    but start copies into tiles that it reads: it waits for each of them, so
    the tiles live from the start of the roles to its last use, and what it uses
    alone as in a function without roles.
    Offsets are those of a dynamic storage allocation (`SharedMemoryProblem.h`):
    exact by branch and bound for few buffers, first fit by size otherwise.
    Where memory is used again, a barrier is inserted before the new owner's
    first write unless one is there.

    The bytes that a function needs are noted as `thread.shared_bytes` and in
    the `kernel.invoke`s of the function. An error lists the tiles when they
    exceed what the chip has; the remedy is smaller tiles or fewer stages.
  }];
  let options = [Option<"chip", "chip", "std::string", "::mirage::defaultChip", "chip (sm_90a) or card (h200)">];
  let statistics = [Statistic<"numBuffers", "buffers", "tiles and scratch areas placed">,
                    Statistic<"numBarriers", "barriers", "barriers inserted">];
  let dependentDialects = ["::mirage::thread::ThreadDialect"];
}

def OverlapLaunches : Pass<"mirage-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "let kernels start before those before them have ended";
  let description = [{
    On chips with dependent launches each kernel of a graph but the first becomes
    `dependent`: its blocks start as soon as all blocks of the kernel before it
    have started and there is room, and wait (`thread.dependent_wait`) until that
    kernel has ended and what it wrote can be seen. What a launch costs is thus
    hidden behind the end of the kernel before. So are the first loads of the graph's
    inputs (weights, above all), which nothing in the graph writes, and what sets up
    barriers in shared memory: they stand before the wait, all others after it.

    A kernel lets the next one start (`thread.dependent_launch`) once it has waited
    itself if that one loads inputs before it waits: its loads fill what the last
    blocks leave idle (on an H200 a decoding step of Llama takes 3 % less). Where it
    would only wait, a kernel with loops lets it start after the last of them:
    blocks that wait already take from those that still load what they need
    (attention over split keys took up to 17 % longer).

    *Order.* A kernel lets the next one start after its own wait only. So when a kernel has passed its wait, all kernels before the one
    it waited for have ended as well: memory that is used again is used in order.
    Nothing but views may stand between two kernels that overlap.
  }];
  let options = [Option<"chip", "chip", "std::string", "::mirage::defaultChip", "chip (sm_90a) or card (h200)">];
  let statistics = [Statistic<"numDependent", "dependent", "kernels that start early">];
  let dependentDialects = ["::mirage::thread::ThreadDialect"];
}

def GrantRegisters : Pass<"mirage-grant-registers", "::mlir::ModuleOp"> {
  let summary = "let kernels of few blocks have the registers that nobody else needs";
  let description = [{
    ptxas takes it that as many blocks run on a multiprocessor as fit, and loads in
    several rounds, each of which waits for device memory, rather than have fewer of
    them. Of a small grid a multiprocessor has one or two blocks, though. Where all
    blocks can run at once and each thread may have at least 128 registers all the
    same, a kernel says how many blocks share a multiprocessor (`nvvm.minctasm`), so
    that all its loads are under way together: one row of 256 times a matrix and
    two factors took 3.3 instead of 5.0 µs on an H200, decoding of one sequence 12.9
    instead of 14.0, most others as long as before
    (`benchmarks/results/h200_limits.md`). With fewer registers the assembler would rather spill. Products
    of warpgroups need what they need, and say nothing.

    The grid counts as it is spread over the chip's card of the fewest multiprocessors.
  }];
  let options = [Option<"chip", "chip", "std::string", "::mirage::defaultChip", "chip (sm_90a) or card (h200)">];
  let statistics = [Statistic<"numGranted", "granted", "kernels that say how many blocks share registers">];
}

def CheckChip : Pass<"mirage-check-chip", "::mlir::ModuleOp"> {
  let summary = "refuse kernels that ask for more than the chip can do";
  let description = [{
    Each op whose instructions only some chips have says which ability it needs
    (`Needs.h`). An op that needs what the chip lacks (`Chip.h`) is an error; the
    remedy is another chip, or a schedule that does without (`engine = warp`).

    So is a `thread.wgmma` in a loop whose left factor stands in registers and is
    the same at all steps, unless a product of a factor that steps make is issued
    beside it. ptxas 13.0 gives such registers to other values while the loop runs
    (attention whose queries get a bias first was wrong on an H200, without a
    message); with both factors in use at once it does not.
  }];
  let options = [Option<"chip", "chip", "std::string", "::mirage::defaultChip", "chip (sm_90a) or card (h200)">];
}

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
