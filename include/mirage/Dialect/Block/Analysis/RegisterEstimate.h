//===- RegisterEstimate.h - registers that a launch needs -------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_REGISTERESTIMATE_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_REGISTERESTIMATE_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Target/Chip.h"

namespace mirage::block {

/// 32-bit registers that one thread needs for one tile: those of its fragment, 0 for tiles in
/// shared memory and for constants.
int64_t getTileRegisters(mlir::Value tile);

/// 32-bit registers that one thread needs for the tiles of a launch with
/// layouts: the largest sum, over all points of the program, of
///
///   ceil(rows * cols * element bytes / 4 / threads)
///
/// (as the layouts have it: copies count) over the fragments that are alive there, including
/// accumulators of the loops around. Elementwise ops work in place, and broadcast tiles share the
/// registers of their operands. A matmul that reads shared memory holds one step of its operands.
int64_t estimateTileRegisters(kernel::LaunchOp launch);

/// Registers for tiles: the number that a thread can have with this number of warps, minus those of
/// addresses, counters and values in flight.
int64_t getTileRegisterBudget(const Chip &chip, int64_t numWarps);

/// Reorders the ops of each block of the launch, so that fewer registers are
/// needed at a time: among the ops whose operands are available, the one that leaves the fewest
/// alive comes first. Loads to shared memory keep their place before everything else.
void orderForRegisters(kernel::LaunchOp launch);

/// Moves loads to registers before everything else, if that does not take many registers, so that
/// the block waits for memory once: a load after a barrier is not issued before all warps have
/// arrived.
void moveLoadsFirst(kernel::LaunchOp launch);

/// Moves copies to shared memory outside of loops before everything else, if the same number of
/// blocks can run at once without sharing of memory between tiles: all warps would wait idly for a
/// copy after a product or a loop. Returns the number of copies.
int64_t moveCopiesFirst(kernel::LaunchOp launch, int64_t stages, const Chip &chip);

/// Registers of a thread if the warps that do not compute give theirs to those that do: the copying
/// warp and three idle ones form a group of four. If all four copy rows one by one (`written`),
/// they need addresses.
struct RegisterShares {
  int64_t copying, computing;
};
RegisterShares getRegisterShares(const Chip &chip, int64_t warps, bool written);

/// The budget of a launch's warps; with warpgroups, registers can be moved to them.
int64_t getTileRegisterBudget(const Chip &chip, kernel::ScheduleAttr schedule);

/// On launches: registers of threads of the copying and of the other groups, by
/// mirage-pipeline-loops.
constexpr llvm::StringLiteral kRegisterShares = "block.register_shares";

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_REGISTERESTIMATE_H
