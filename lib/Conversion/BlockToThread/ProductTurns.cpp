//===- ProductTurns.cpp - groups take turns in starting products ----------===//
//
// A turn passes cyclically from group to group (RingLoop.h). For each group
// there is an mbarrier at which the previous group arrives.
//
//===----------------------------------------------------------------------===//

#include "RingLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mirage;

/// Waits until the previous group has started its products of the step; the
/// first group waits for those of the last group in the previous step, except
/// in step 0.
void RingLoop::takeTurn(Value step) {
  Value turns = tiles.turns.lookup(op);
  if (!turns)
    return;
  Value group = tiles.getGroup();
  Value isFirst =
      arith::CmpIOp::create(builder, tiles.loc, arith::CmpIPredicate::eq, group, tiles.index(0));
  Value round = arith::AddIOp::create(
      builder, tiles.loc, step,
      arith::SelectOp::create(builder, tiles.loc, isFirst, tiles.index(1), tiles.index(0)));
  Value parity = arith::RemUIOp::create(builder, tiles.loc, round, tiles.index(2));
  thread::MbarrierWaitOp::create(builder, tiles.loc, turns, group, parity);
}

void RingLoop::passTurn() {
  Value turns = tiles.turns.lookup(op);
  if (!turns)
    return;
  int64_t groups = tiles.launch.getSchedule()->getWarps() / 4;
  Value next = arith::AddIOp::create(builder, tiles.loc, tiles.getGroup(), tiles.index(1));
  next = arith::RemUIOp::create(builder, tiles.loc, next, tiles.index(groups));
  thread::MbarrierArriveOp::create(builder, tiles.loc, turns, next);
}

/// Whether a group passes its turn on when it has its maxima. Groups that share
/// maxima cannot wait for each other's turns before that.
bool RingLoop::passesLate() {
  return !maxima.empty() && phases.getPhase(maxima.back()) == 1 &&
         llvm::none_of(op.getBody().front().without_terminator(), [&](Operation &inner) {
           return isComputed(&inner, 1) && block::needsOtherWarps(&inner);
         });
}

/// The ops after the first products of a step whose last products are deferred.
/// The turn passes when the warps know their maxima, or continue without them.
void RingLoop::emitFirstOps(Value step, bool speculates) {
  if (!speculates && !passesLate()) {
    passTurn();
    return emitOps(1, step);
  }
  waitForRead(1, step);
  if (speculates) {
    passTurn();
    emitSpeculated();
  } else {
    for (Operation &inner : op.getBody().front().without_terminator()) {
      if (!isComputed(&inner, 1))
        continue;
      tiles.emit(&inner);
      if (&inner == maxima.back().getOperation())
        passTurn();
    }
  }
  releaseRead(1, step);
}
