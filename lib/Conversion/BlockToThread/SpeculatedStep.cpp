//===- SpeculatedStep.cpp - exponentials before their maximum -------------===//
//
// The ops after a step's first products, computed with the number of the
// previous step in place of the maximum, and again with the maximum if a warp's
// row sums exceed the limit (SpeculatedMaxima.h).
//
//===----------------------------------------------------------------------===//

#include "RingLoop.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mirage;
using block::getTile;
using thread::FragmentType;

/// The fragments that are computed from the maximum and needed afterwards.
SmallVector<Value> RingLoop::getSpeculated() const {
  SmallVector<Value> values;
  for (Operation *use : speculation->uses) {
    bool isInside =
        llvm::is_contained(late, use) || llvm::all_of(use->getUsers(), [&](Operation *user) {
          return llvm::is_contained(speculation->uses, user) && !llvm::is_contained(late, user);
        });
    if (!isInside)
      values.push_back(use->getResult(0));
  }
  return values;
}

void RingLoop::emitUses() {
  for (Operation *use : speculation->uses)
    if (!llvm::is_contained(late, use))
      tiles.emit(use);
}

/// The maximum of the steps so far, for which nothing in this step waits.
Value RingLoop::emitMaximumApart() {
  block::RunningMaxOp running = speculation->running;
  for (Operation *made : speculation->maximum)
    if (made != running.getOperation())
      tiles.emit(made);
  Value step = tiles.castTo(tiles.get(running.getInput()), builder.getF32Type());
  Value &most = tiles.trueMax[running.getResult()];
  return most = tiles.binary(BinaryFn::Max, most, step);
}

void RingLoop::emitSpeculated() {
  Value maximum = speculation->running.getResult();
  Value previous = tiles.previousMax.lookup(maximum);
  for (Operation &inner : op.getBody().front().without_terminator())
    if (isComputed(&inner, 1) && !llvm::is_contained(speculation->maximum, &inner) &&
        !llvm::is_contained(speculation->uses, &inner))
      tiles.emit(&inner);

  tiles.fragments[maximum] = previous;
  emitUses();
  SmallVector<Value> values = getSpeculated(), held = {previous};
  held.push_back(tiles.constant(cast<FragmentType>(previous.getType()), 1));
  for (Value value : values)
    held.push_back(tiles.get(value));
  Value most = speculation->needsMaximum ? emitMaximumApart() : Value();
  Value again = thread::ExceedsOp::create(builder, tiles.loc, tiles.get(speculation->sums),
                                          builder.getF64FloatAttr(block::speculationLimit));
  auto branch = scf::IfOp::create(builder, tiles.loc, TypeRange(ValueRange(held)), again,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, tiles.loc, held);
    builder.setInsertionPointToStart(branch.thenBlock());
    if (most)
      tiles.fragments[maximum] = most;
    else
      for (Operation *made : speculation->maximum)
        tiles.emit(made);
    emitUses();
    SmallVector<Value> exact = {tiles.get(maximum)};
    exact.push_back(tiles.emitFactor(previous, exact.front()));
    for (Value value : values)
      exact.push_back(tiles.get(value));
    scf::YieldOp::create(builder, tiles.loc, exact);
  }
  ResultRange results = branch.getResults();
  tiles.fragments[maximum] = results[0];
  tiles.rescaleFactors[maximum] = results[1];
  for (auto [value, result] : llvm::zip_equal(values, results.drop_front(2)))
    tiles.fragments[value] = result;
}
