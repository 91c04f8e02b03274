//===- RingLoop.cpp - loops of warpgroups over rings ----------------------===//

#include "RingLoop.h"

#include "mirage/Dialect/Block/Analysis/LoopSchedule.h"
#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mirage;
using block::getShared;
using block::getTile;
using thread::FragmentType;

RingLoop::RingLoop(TileEmitter &tiles, block::LoopOp op)
    : tiles(tiles), builder(tiles.builder), op(op),
      accumulate(cast<block::AccumulateOp>(op.getBody().front().getTerminator())), phases(op),
      rings(tiles.rings.lookup(op)), maxima(op.getBody().front().getOps<block::RunningMaxOp>()),
      deferred(phases.isDeferred() && phases.getCount() > 1),
      factorsOverlap(phases.isDeferred() && phases.getCount() == 1) {
  // With a single slot, nothing would arrive for the next step before this one
  // is released. Factors of the first products are computed before any wait.
  auto isHeld = [](block::MatmulOp product) { return !getShared(product.getLhs()); };
  ArrayRef<block::MatmulOp> last = phases.getProducts(phases.getCount());
  overlaps = !deferred && op.getStages().value_or(1) > 1 &&
             llvm::all_of(last, block::isOnlySummed) &&
             (phases.getCount() > 1 || factorsOverlap || llvm::none_of(last, isHeld));
  if (deferred || factorsOverlap)
    findLate();
  if (!deferred)
    return;
  if (op->hasAttr(block::kSpeculates))
    speculation = block::getSpeculatedStep(op);
}

void RingLoop::emit() {
  if (!tiles.pendingGroup.empty())
    tiles.waitForAllCopies();
  steps = tiles.getSteps(op);
  tiles.stepsHere[op] = steps.count;
  if (deferred)
    emitDeferredLoop(getInitial());
  else
    emitPlainLoop(getInitial());
  for (Value result : op.getResults())
    tiles.fragments[result] = tiles.accumulators[result];
  tiles.settleMaxima(op);
}

//===----------------------------------------------------------------------===//
// What one step carries to the next
//===----------------------------------------------------------------------===//

SmallVector<Value> RingLoop::getInitial() {
  SmallVector<Value> initial = tiles.getInitialSums(op);
  tiles.addInitialMaxima(maxima, initial);
  return initial;
}

void RingLoop::setCarried(ValueRange values) {
  for (Value result : op.getResults()) {
    tiles.accumulators[result] = values.front();
    values = values.drop_front();
  }
  values = tiles.setMaxima(maxima, values);
  if (deferred && !values.empty())
    for (auto [factor, value] : llvm::zip_equal(phases.getHeldFactors(), values))
      tiles.fragments[factor] = value;
}

SmallVector<Value> RingLoop::getCarried() {
  SmallVector<Value> next;
  tiles.emitAccumulate(accumulate, next);
  tiles.addMaxima(maxima, next);
  if (deferred)
    for (Value factor : phases.getHeldFactors())
      next.push_back(tiles.get(factor));
  return next;
}

/// The loop's result to which the product is added.
Value RingLoop::getSum(block::MatmulOp product) {
  return op.getResult(product->getUses().begin()->getOperandNumber());
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void RingLoop::emitPlainLoop(SmallVector<Value> carried) {
  int64_t last = phases.getCount();
  auto loop =
      scf::ForOp::create(builder, tiles.loc, tiles.index(0), steps.count, tiles.index(1), carried);
  Group previous;
  if (overlaps) {
    llvm::append_range(previous.products, phases.getProducts(last));
    for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
      if (loads.byProducts && (loads.last == last || loads.byOps))
        previous.rings.push_back(ring);
    previous.isPrevious = true;
  }
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    setCarried(loop.getRegionIterArgs());
    enterStep(step);
    if (overlaps) {
      previous.step = step;
      underWay = {previous};
    }
    emitPhases(0, last, step);
    endStep(step);
    SmallVector<Value> next = getCarried();
    scf::YieldOp::create(builder, tiles.loc, next);
  }
  underWay.clear();
  setCarried(loop.getResults());
  if (overlaps) {
    previous.isPrevious = false;
    previous.step = arith::SubIOp::create(builder, tiles.loc, steps.count, tiles.index(1));
    for (block::MatmulOp product : previous.products)
      tiles.fragments[product.getResult()] = tiles.accumulators[getSum(product)];
    underWay = {previous};
    finish(1);
    for (block::MatmulOp product : previous.products)
      tiles.accumulators[getSum(product)] = tiles.get(product.getResult());
  }
}

void RingLoop::emitDeferredLoop(SmallVector<Value> carried) {
  int64_t last = phases.getCount();
  // The first step, after which there is nothing to rescale.
  setCarried(carried);
  enterStep(tiles.index(0));
  emitOps(0, tiles.index(0));
  waitForSlots(1, tiles.index(0));
  takeTurn(tiles.index(0));
  start(1, tiles.index(0));
  emitBesideProducts(1, tiles.index(0));
  finish(1);
  emitFirstOps(tiles.index(0), /*speculates=*/false);
  emitPhases(2, last - 1, tiles.index(0));
  endStep(tiles.index(0));
  emitLate();
  for (block::MatmulOp product : phases.getProducts(last)) {
    tiles.fragments[product.getResult()] = tiles.accumulators[getSum(product)];
    tiles.accumulated.insert(product.getResult());
  }
  carried = getCarried();

  auto loop =
      scf::ForOp::create(builder, tiles.loc, tiles.index(1), steps.count, tiles.index(1), carried);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    Value previous = arith::SubIOp::create(builder, tiles.loc, step, tiles.index(1));
    setCarried(loop.getRegionIterArgs());
    enterStep(step);
    emitOps(0, step);
    waitForSlots(1, step);
    takeTurn(step);
    start(1, step);
    waitForSlots(last, previous);
    start(last, previous);
    emitBesideProducts(1, step);
    finish(1);
    emitFirstOps(step, speculation.has_value());
    emitPhases(2, last - 1, step);
    finishDeferred();
    endStep(step);
    scf::YieldOp::create(builder, tiles.loc, getCarried());
  }
  setCarried(loop.getResults());
  Value step = arith::SubIOp::create(builder, tiles.loc, steps.count, tiles.index(1));
  waitForSlots(last, step);
  takeTurn(steps.count);
  start(last, step);
  passTurn();
  finish(underWay.size());
  for (block::MatmulOp product : phases.getProducts(last))
    tiles.accumulators[getSum(product)] = tiles.get(product.getResult());
}

/// The f32 values of which late ops make factors.
SmallVector<Value> RingLoop::getLateOperands() {
  llvm::SetVector<Value> passed;
  for (Operation *made : late)
    for (Value operand : made->getOperands())
      if (Value fragment = tiles.get(operand);
          fragment && !llvm::is_contained(late, operand.getDefiningOp()) &&
          cast<FragmentType>(fragment.getType()).getElementType().isF32())
        passed.insert(operand);
  return passed.takeVector();
}

/// Waits for the deferred products, makes the factors of the next ones, and
/// rescales their sums.
void RingLoop::finishDeferred() {
  ArrayRef<block::MatmulOp> products = phases.getProducts(phases.getCount());
  auto getIndex = [](block::MatmulOp product) {
    return product->getUses().begin()->getOperandNumber();
  };
  // The factor that rescales the sums is computed while the products run.
  for (block::MatmulOp product : products)
    if (Value rescale = accumulate.getRescale(getIndex(product))) {
      Value sum = getSum(product);
      tiles.getRescaleFactor(rescale, getTile(sum), tiles.typeOf(sum));
    }
  if (!underWay.empty()) {
    SmallVector<Value> passed = getLateOperands();
    // The assembler moves arithmetic after the wait for products, where nothing
    // else runs. It does not move it across a branch, such as that of a wait
    // for a slot.
    for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
      if (loads.first == phases.getCount() && loads.byProducts) {
        thread::RingWaitOp::create(builder, tiles.loc, ring,
                                   tiles.getRingStep(op, underWay.front().step));
        break;
      }
    finish(underWay.size(), passed);
  }
  emitLate();
  for (block::MatmulOp product : products) {
    tiles.accumulators[getSum(product)] = tiles.get(product.getResult());
    tiles.fragments[product.getResult()] = tiles.emitRescaled(accumulate, getIndex(product));
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void RingLoop::enterStep(Value step) {
  tiles.position[op.getAxis()] = arith::AddIOp::create(builder, tiles.loc, steps.first, step);
  tiles.rescaleFactors.clear();
}

/// The phases with their products; the last products stay in flight if they
/// overlap with the next step.
void RingLoop::emitPhases(int64_t first, int64_t last, Value step) {
  for (int64_t phase = first; phase <= last; ++phase) {
    if (phase > 0) {
      waitForSlots(phase, step);
      start(phase, step);
      emitBesideProducts(phase, step);
      bool stays = overlaps && phase == phases.getCount();
      finish(underWay.size() - (stays ? 1 : 0));
    }
    if (phase == 0 && factorsOverlap)
      emitFactors(step);
    else
      emitOps(phase, step);
  }
}

/// Computes the factors of a step's products while those of the previous step run.
void RingLoop::emitFactors(Value step) {
  waitForRead(0, step);
  for (Operation &inner : op.getBody().front().without_terminator())
    if (isComputed(&inner, 0))
      tiles.emit(&inner);
  finish(underWay.size(), getLateOperands());
  emitLate();
  releaseRead(0, step);
}

bool RingLoop::hasBesideProducts(int64_t phase) {
  return llvm::any_of(op.getBody().front(), [&](Operation &inner) {
    return phases.getPhase(&inner) == phase && phases.isBesideProducts(&inner);
  });
}

/// The ops of the phase that do not wait for its products.
void RingLoop::emitBesideProducts(int64_t phase, Value step) {
  if (!hasBesideProducts(phase))
    return;
  waitForReads(phase, step);
  for (Operation &inner : op.getBody().front().without_terminator())
    if (phases.getPhase(&inner) == phase && phases.isBesideProducts(&inner))
      tiles.emit(&inner);
}

void RingLoop::emitOps(int64_t phase, Value step) {
  waitForRead(phase, step);
  for (Operation &inner : op.getBody().front().without_terminator())
    if (isComputed(&inner, phase))
      tiles.emit(&inner);
  releaseRead(phase, step);
}

/// Whether the op is computed in the phase, as a separate op.
bool RingLoop::isComputed(Operation *inner, int64_t phase) const {
  return phases.getPhase(inner) == phase && !isa<block::MatmulOp>(inner) && !isView(inner) &&
         !phases.isBesideProducts(inner) && !llvm::is_contained(late, inner);
}

/// Waits for the slots that ops other than products read first in the phase.
void RingLoop::waitForReads(int64_t phase, Value step) {
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
    if (loads.first == phase && (!loads.byProducts || phase == 0))
      waitForSlot(loads, ring, step);
}

/// The same, if ops beside the products have not waited for them.
void RingLoop::waitForRead(int64_t phase, Value step) {
  if (!hasBesideProducts(phase))
    waitForReads(phase, step);
}

void RingLoop::releaseRead(int64_t phase, Value step) {
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
    if (loads.last == phase && !loads.byProducts)
      release(ring, step);
}

/// Releases the slots that both products and other ops of the step have read.
void RingLoop::endStep(Value step) {
  if (overlaps)
    return;
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings))
    if (loads.byProducts && loads.byOps)
      release(ring, step);
}

/// Whether the op reads tiles of rings, which are released before late ops.
bool RingLoop::readsRing(Operation *inner) const {
  return llvm::any_of(inner->getOperands(), [&](Value operand) {
    Operation *made = operand.getDefiningOp();
    return made && made->getBlock() == inner->getBlock() && isView(made);
  });
}

void RingLoop::findLate() {
  for (Operation &inner : llvm::reverse(op.getBody().front().without_terminator())) {
    if (inner.getNumResults() != 1 || isa<block::MatmulOp, block::ConstantOp>(inner) ||
        isView(&inner) || inner.use_empty() || readsRing(&inner) ||
        getTile(inner.getResult(0)).getElementType().getIntOrFloatBitWidth() == 32)
      continue;
    bool isLate = llvm::all_of(inner.getUsers(), [&](Operation *user) {
      auto product = dyn_cast<block::MatmulOp>(user);
      return (product && block::isDeferred(product)) || llvm::is_contained(late, user);
    });
    if (isLate)
      late.push_back(&inner);
  }
  std::reverse(late.begin(), late.end());
}

void RingLoop::emitLate() {
  for (Operation *made : late)
    tiles.emit(made);
}
