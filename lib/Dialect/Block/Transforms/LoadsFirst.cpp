//===- LoadsFirst.cpp - loads that wait for memory together ---------------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"
#include "mirage/Dialect/Block/Analysis/SharedBytes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

/// Registers of a thread that tiles may take: six blocks of four warps still
/// fit on a multiprocessor.
static constexpr int64_t comfortable = 64;
/// Registers of a thread that a tile may take even if others take more than that, in order to be
/// available when a loop ends: the sum to which a projection is added.
static constexpr int64_t small = 2;

/// With separate warps for copies and for computation, products leave few registers: loads into
/// registers for ops after a loop come after the loop.
static void moveLoadsToUsers(Block &body) {
  auto isLoaded = [](Operation &op) {
    Operation *made = &op;
    while (isa<ReshapeOp, CastOp, BroadcastOp>(made)) {
      made = made->getOperand(0).getDefiningOp();
      if (!made)
        return false;
    }
    return isa<LoadOp>(made) && !getShared(made->getResult(0));
  };
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body))) {
    if (op.use_empty() || !isLoaded(op))
      continue;
    Operation *first = nullptr;
    for (Operation *user : op.getUsers()) {
      Operation *within = body.findAncestorOpInBlock(*user);
      if (!first || within->isBeforeInBlock(first))
        first = within;
    }
    op.moveBefore(first);
  }
}

void mirage::block::moveLoadsFirst(kernel::LaunchOp launch) {
  if (launch.getSchedule()->usesWarpgroups())
    return moveLoadsToUsers(launch.getBody().front());
  Block &body = launch.getBody().front();
  int64_t most = std::max(comfortable, estimateTileRegisters(launch) + small);
  Operation *place = &body.front();
  for (LoadOp load : llvm::make_early_inc_range(body.getOps<LoadOp>())) {
    if (load == place || getShared(load.getResult())) {
      if (load == place)
        place = place->getNextNode();
      continue;
    }
    Operation *next = load->getNextNode();
    load->moveBefore(place);
    if (estimateTileRegisters(launch) > most)
      load->moveBefore(next);
  }
}

/// Bytes of shared memory that each block of a multiprocessor takes in addition to its own.
static constexpr int64_t reserved = 1024;

int64_t mirage::block::moveCopiesFirst(kernel::LaunchOp launch, int64_t stages, const Chip &chip) {
  Block &body = launch.getBody().front();
  Operation *place = &body.front();
  while (isa<LoadOp, GatherOp>(place))
    place = place->getNextNode();
  SmallVector<Operation *> late;
  for (Operation &op : llvm::make_range(place->getIterator(), body.end()))
    if (isa<LoadOp, GatherOp>(op) && getShared(op.getResult(0)) &&
        llvm::all_of(op.getOperands(), llvm::IsaPred<BlockArgument>))
      late.push_back(&op);
  SharedBytes bytes(launch, stages);
  int64_t atOnce = bytes.outside + std::max(bytes.loops, bytes.scratch);
  int64_t threads = 32 * launch.getSchedule()->getWarps();
  int64_t together = std::min<int64_t>(llvm::divideCeil(launch.getNumBlocks(), chip.getFewestSms()),
                                       std::min(chip.threadsSm / threads, chip.blocksSm));
  if (atOnce > chip.sharedBlock || together * (atOnce + reserved) > chip.sharedSm)
    return 0;
  for (Operation *op : late)
    op->moveBefore(place);
  return late.size();
}
