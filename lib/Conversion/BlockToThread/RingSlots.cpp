//===- RingSlots.cpp - slots of rings and the products that read them -----===//

#include "RingLoop.h"

#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mirage;
using block::getShared;

bool RingLoop::isView(Operation *inner) const {
  return inner->getNumResults() == 1 && isa<block::TileType>(inner->getResult(0).getType()) &&
         getShared(inner->getResult(0));
}

void RingLoop::waitForSlots(int64_t phase, Value step) {
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
    if (loads.first == phase && loads.byProducts)
      waitForSlot(loads, ring, step);
}

void RingLoop::waitForSlot(const block::RingLoads &loads, Value ring, Value step) {
  auto wait = thread::RingWaitOp::create(builder, tiles.loc, ring, tiles.getRingStep(op, step));
  auto emitViews = [&](auto &self, Value value) -> void {
    for (Operation *user : value.getUsers())
      if (isView(user)) {
        tiles.emit(user);
        self(self, user->getResult(0));
      }
  };
  for (auto [number, tile] : llvm::enumerate(wait.getTiles())) {
    Value loaded = loads.loads[number]->getResult(0);
    if (auto load = dyn_cast<block::LoadOp>(loads.loads[number]); load && block::isShifted(load))
      tiles.clearBeyondRows(load, tile, step, steps.count);
    tiles.sharedViews[loaded] = {tile, false};
    emitViews(emitViews, loaded);
  }
}

void RingLoop::start(int64_t phase, Value step) {
  Group group;
  llvm::append_range(group.products, phases.getProducts(phase));
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
    if (loads.byProducts && !loads.byOps && loads.last == phase)
      group.rings.push_back(ring);
  group.step = step;
  for (block::MatmulOp product : group.products) {
    // A sum whose products of the previous step are in flight continues from
    // there.
    for (Group &before : underWay)
      before.isContinued |= before.isPrevious && llvm::is_contained(before.products, product);
    tiles.emit(product);
  }
  if (!llvm::all_of(group.products, block::isPromoted))
    thread::WgmmaCommitOp::create(builder, tiles.loc);
  underWay.push_back(std::move(group));
}

/// Waits for the first `count` groups in flight, except products that have been
/// waited for. The values `passed` are computed before the wait, and their
/// users after it.
void RingLoop::finish(size_t count, ArrayRef<Value> passed) {
  if (count == 0)
    return;
  SmallVector<Value> waited;
  SmallVector<Value *> places;
  for (Group &group : MutableArrayRef(underWay).take_front(count))
    if (!group.isContinued)
      for (block::MatmulOp product : group.products)
        if (!block::isPromoted(product))
          places.push_back(group.isPrevious ? &tiles.accumulators[getSum(product)]
                                            : &tiles.fragments[product.getResult()]);
  for (Value value : passed)
    places.push_back(&tiles.fragments[value]);
  for (Value *place : places)
    waited.push_back(*place);
  bool isUnderWay = llvm::any_of(ArrayRef(underWay).take_front(count), [](const Group &group) {
    return !llvm::all_of(group.products, block::isPromoted);
  });
  if (isUnderWay || !places.empty()) {
    auto wait = thread::WgmmaWaitOp::create(
        builder, tiles.loc, TypeRange(ValueRange(waited)),
        builder.getI64IntegerAttr(int64_t(underWay.size() - count)), waited);
    for (auto [place, value] : llvm::zip_equal(places, wait.getResults()))
      *place = value;
  }
  for (Group &group : MutableArrayRef(underWay).take_front(count))
    for (Value ring : group.rings)
      release(ring, group.step, group.isPrevious);
  underWay.erase(underWay.begin(), underWay.begin() + count);
}

/// Releases the slot of a step, or of the one before it if there is one.
void RingLoop::release(Value ring, Value step, bool isPrevious) {
  OpBuilder::InsertionGuard guard(builder);
  if (isPrevious) {
    Value isLater =
        arith::CmpIOp::create(builder, tiles.loc, arith::CmpIPredicate::ugt, step, tiles.index(0));
    auto branch = scf::IfOp::create(builder, tiles.loc, isLater, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
    step = arith::SubIOp::create(builder, tiles.loc, step, tiles.index(1));
  }
  thread::RingReleaseOp::create(builder, tiles.loc, ring, tiles.getRingStep(op, step));
}
