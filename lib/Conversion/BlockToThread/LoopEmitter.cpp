//===- LoopEmitter.cpp - loops, accumulators and their copies -------------===//
//
// A loop with S stages keeps the copies of the next S - 1 steps in flight:
//
//   copies of the first S - 1 steps, one group each
//   for step:
//     wait until at most S - 2 groups are under way   (this step's have landed)
//     barrier          (for all threads; and all have left the previous step)
//     copies of step + S - 1 into the slot that the previous step read
//     commit           (also when there is nothing left, to keep the count)
//     the step's computation
//
// The indices of copied rows are read one step earlier, and stay in registers.
//
// With as many stages as steps, the copies of all steps are started before the
// loop, and a step waits until at most S - 1 groups are under way.
//
// With one stage the copies of a step are issued after a barrier at its start
// and waited for at once.
//
//===----------------------------------------------------------------------===//

#include "RingLoop.h"
#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/LayoutModel.h"
#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Common/ScalarFacts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mirage;
using block::getShared;
using block::getTile;
using thread::FragmentType;

/// `exp(previous - now)` of two maxima; 1 where both are still minus infinity.
Value TileEmitter::emitFactor(Value previous, Value now) {
  auto type = cast<FragmentType>(now.getType());
  Value lowest = constant(type, -std::numeric_limits<float>::max());
  Value difference = binary(BinaryFn::Sub, binary(BinaryFn::Max, previous, lowest),
                            binary(BinaryFn::Max, now, lowest));
  return thread::UnaryOp::create(builder, loc, type, UnaryFn::Exp, difference);
}

/// The factor, which is held like the maximum, for an accumulator of the type
/// `type`.
Value TileEmitter::spreadFactor(Value factor, block::TileType maximum, block::TileType accumulator,
                                FragmentType type) {
  // Only one element of a padded dimension of size 1 is repeated.
  for (int64_t dim : {0, 1}) {
    auto held = cast<FragmentType>(factor.getType());
    if (held.getShape()[dim] == 1 || maximum.getShape()[dim] != 1 ||
        accumulator.getShape()[dim] == 1)
      continue;
    factor =
        thread::MaskOp::create(builder, loc, held, factor, builder.getI64IntegerAttr(dim), index(0),
                               builder.getI64IntegerAttr(1), builder.getF64FloatAttr(0));
    factor = thread::ReduceOp::create(
        builder, loc, FragmentType::get(builder.getF32Type(), held.getLinearLayout().reduce(dim)),
        ReduceFn::Sum, factor, dim, IntegerAttr());
  }
  return convertTo(factor, type);
}

/// The factor by which an accumulator is multiplied at this step.
Value TileEmitter::getRescaleFactor(Value runningMax, block::TileType tile, FragmentType type) {
  Value &factor = rescaleFactors[runningMax];
  if (!factor)
    factor = emitFactor(previousMax.lookup(runningMax), get(runningMax));
  return spreadFactor(factor, getTile(runningMax), tile, type);
}

/// The accumulator before this step, rescaled if necessary.
Value TileEmitter::emitRescaled(block::AccumulateOp op, int64_t index) {
  Value result = op->getParentOp()->getResult(index), accumulator = accumulators.lookup(result);
  if (Value rescale = op.getRescale(index)) {
    auto type = cast<FragmentType>(accumulator.getType());
    accumulator = thread::RescaleOp::create(
        builder, loc, type, accumulator,
        getRescaleFactor(rescale, getTile(result), type.withPartial(false)));
  }
  return accumulator;
}

void TileEmitter::emitAccumulate(block::AccumulateOp op, SmallVectorImpl<Value> &next) {
  for (auto [index, value] : llvm::enumerate(op.getValues())) {
    FragmentType type = typeOf(op->getParentOp()->getResult(index));
    Value fragment = castTo(get(value), type.getElementType());
    switch (op.getFn(index)) {
    case block::AccumulateFn::Last:
      next.push_back(trueMax.contains(value) ? trueMax.lookup(value) : fragment);
      break;
    case block::AccumulateFn::Max:
      next.push_back(binary(BinaryFn::Max, emitRescaled(op, index), fragment));
      break;
    case block::AccumulateFn::Sum:
      next.push_back(accumulated.contains(value)
                         ? fragment
                         : binary(BinaryFn::Add, emitRescaled(op, index), fragment));
      break;
    }
  }
}

/// The value of `expr` at positions and integers that the block has read.
static Value emitStepNumber(OpBuilder &builder, Location loc, AffineExpr expr,
                            ArrayRef<Value> positions, ArrayRef<Value> scalars) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  if (auto number = dyn_cast<AffineConstantExpr>(expr))
    return index(number.getValue());
  if (auto position = dyn_cast<AffineDimExpr>(expr))
    return positions[position.getPosition()];
  if (auto scalar = dyn_cast<AffineSymbolExpr>(expr))
    return scalars[scalar.getPosition()];
  auto pair = cast<AffineBinaryOpExpr>(expr);
  Value lhs = emitStepNumber(builder, loc, pair.getLHS(), positions, scalars);
  Value rhs = emitStepNumber(builder, loc, pair.getRHS(), positions, scalars);
  if (expr.getKind() == AffineExprKind::Add)
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  if (expr.getKind() == AffineExprKind::Mul)
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  // floor(x / c) of a negative x is -1 - floor((-1 - x) / c).
  Value isNegative = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, lhs, index(0));
  auto mirrored = [&](Value value) -> Value {
    return arith::SelectOp::create(builder, loc, isNegative,
                                   arith::SubIOp::create(builder, loc, index(-1), value), value);
  };
  return mirrored(arith::DivUIOp::create(builder, loc, mirrored(lhs), rhs));
}

LoopSteps TileEmitter::getSteps(block::LoopOp op) {
  int64_t extent = op.getExtent();
  std::optional<AffineMap> steps = op.getSteps();
  if (launch.getSchedule()->usesWarpgroups())
    if (block::LoadOp shifted = block::getShiftedLoad(op))
      return getShiftedSteps(op, shifted);
  if (!steps)
    return {index(0), index(extent), index(extent)};
  SmallVector<Value> positions;
  for (Attribute axis : op.getStepAxesAttr())
    positions.push_back(position.lookup(cast<StringAttr>(axis).getValue()));
  SmallVector<Value> read;
  for (Value value : op.getStepValues())
    read.push_back(scalars.lookup(value));
  auto clamp = [&](Value value, Value least, Value most) -> Value {
    return arith::MinSIOp::create(builder, loc, arith::MaxSIOp::create(builder, loc, value, least),
                                  most);
  };
  auto number = [&](unsigned result) {
    return emitStepNumber(builder, loc, steps->getResult(result), positions, read);
  };
  Value first = clamp(number(0), index(0), index(extent - 1));
  Value end = clamp(number(1), arith::AddIOp::create(builder, loc, first, index(1)), index(extent));
  return {first, end, arith::SubIOp::create(builder, loc, end, first), false};
}

//===----------------------------------------------------------------------===//
// Loops whose tiles all warps copy
//===----------------------------------------------------------------------===//

StagedLoop TileEmitter::getStagedLoop(block::LoopOp op) {
  StagedLoop loop{op, getSteps(op), int64_t(op.getStages().value_or(1)), {}, {}, {}, {}};
  for (Value tile : block::getStagedTiles(op))
    loop.loads.push_back({tile.getDefiningOp(), allocate(tile)});
  findLookupsAhead(loop);
  return loop;
}

/// One group of copies: the tiles of `step` into `slot`, if `when` holds.
void TileEmitter::copyStep(const StagedLoop &loop, Value step, Value slot, Value when) {
  position[block::LoopOp(loop.op).getAxis()] = step;
  for (auto [load, ring] : loop.loads)
    copyToShared(load, thread::SlotOp::create(builder, load->getLoc(), ring, slot), when,
                 loop.getIndices(load));
  commitCopies();
}

/// Before the loop: the copies of its first steps.
void TileEmitter::startCopies(StagedLoop &loop) {
  if (loop.loads.empty()) {
    if (!pendingGroup.empty())
      waitForAllCopies();
    return;
  }
  if (!loop.hasRing())
    return;
  // Warps may still read tiles that the previous run of this loop left in the
  // ring.
  if (isa<block::LoopOp>(loop.op->getParentOp()))
    thread::BarrierOp::create(builder, loc);
  int64_t started = loop.rotates() ? loop.stages - 1 : loop.stages;
  for (int64_t ahead = 0; ahead < started; ++ahead) {
    Value step = arith::AddIOp::create(builder, loc, loop.steps.first, index(ahead));
    Value exists;
    if (!loop.steps.all && ahead > 0)
      exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, step, loop.steps.end);
    copyStep(loop, step, index(ahead), exists);
  }
  if (loop.rotates())
    readIndicesAhead(loop, arith::AddIOp::create(builder, loc, loop.steps.first, index(started)));
}

/// At the start of a step: waits for its copies, and starts those of a later one.
void TileEmitter::continueCopies(StagedLoop &loop, Value step) {
  if (loop.rotates()) {
    thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(loop.stages - 2));
    thread::BarrierOp::create(builder, loc);
    Value ahead = arith::AddIOp::create(builder, loc, step, index(loop.stages - 1));
    Value exists =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, ahead, loop.steps.end);
    copyStep(loop, ahead, loop.fillSlot, exists);
    readIndicesAhead(loop, arith::AddIOp::create(builder, loc, step, index(loop.stages)));
  } else if (loop.hasRing()) {
    thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(loop.stages - 1));
    thread::BarrierOp::create(builder, loc);
    commitCopies(); // to keep the count
  } else if (!loop.loads.empty()) {
    thread::BarrierOp::create(builder, loc);
    copyStep(loop, step, loop.readSlot, Value());
    thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(0));
    thread::BarrierOp::create(builder, loc);
  }
  // The waits above cover all earlier groups too.
  pendingGroup.clear();
  position[block::LoopOp(loop.op).getAxis()] = step;
  for (auto [load, ring] : loop.loads)
    sharedViews[load->getResult(0)] = {
        thread::SlotOp::create(builder, load->getLoc(), ring, loop.readSlot), false};
}

/// The slots to read and to fill at this step.
void TileEmitter::setSlots(StagedLoop &loop, scf::ForOp steps) {
  ValueRange carried = steps.getRegionIterArgs();
  if (loop.rotates()) {
    loop.readSlot = carried[carried.size() - 2];
    loop.fillSlot = carried.back();
  } else if (loop.hasRing()) {
    loop.readSlot = arith::SubIOp::create(builder, loc, steps.getInductionVar(), loop.steps.first);
  } else {
    loop.readSlot = index(0);
  }
}

/// The slots to read and to fill at the next step.
void TileEmitter::addNextSlots(const StagedLoop &loop, SmallVectorImpl<Value> &next) {
  for (Value slot : {loop.readSlot, loop.fillSlot}) {
    Value successor = arith::AddIOp::create(builder, loc, slot, index(1));
    Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, successor,
                                        index(loop.stages));
    next.push_back(arith::SelectOp::create(builder, loc, wraps, index(0), successor));
  }
}

SmallVector<Value> TileEmitter::getInitialSums(block::LoopOp op) {
  auto accumulate = cast<block::AccumulateOp>(op.getBody().front().getTerminator());
  SmallVector<Value> initial;
  for (auto [number, result] : llvm::enumerate(op.getResults())) {
    bool isMax = accumulate.getFn(number) == block::AccumulateFn::Max;
    initial.push_back(
        constant(typeOf(result), getIdentity(isMax ? CumulateFn::Max : CumulateFn::Sum)));
  }
  return initial;
}

void TileEmitter::emitLoop(block::LoopOp op) {
  extents[op.getAxis()] = op.getExtent();
  if (rings.count(op))
    return RingLoop(*this, op).emit();
  Block &body = op.getBody().front();
  StagedLoop staged = getStagedLoop(op);
  startCopies(staged);

  // Loop-carried: accumulators, running maxima, indices, slots to read and to fill.
  SmallVector<Value> initial = getInitialSums(op);
  SmallVector<block::RunningMaxOp> maxima(body.getOps<block::RunningMaxOp>());
  addInitialMaxima(maxima, initial);
  size_t firstAhead = initial.size();
  for (const StagedLoop::Ahead &read : staged.ahead)
    initial.push_back(read.indices);
  if (staged.rotates()) {
    initial.push_back(index(0));
    initial.push_back(index(staged.stages - 1));
  }

  auto loop =
      scf::ForOp::create(builder, loc, staged.steps.first, staged.steps.end, index(1), initial);
  builder.setInsertionPointToStart(loop.getBody());
  ValueRange carried = loop.getRegionIterArgs();
  for (auto [result, value] : llvm::zip(op.getResults(), carried))
    accumulators[result] = value;
  setMaxima(maxima, carried.drop_front(op.getNumResults()));
  for (auto [read, value] : llvm::zip(staged.ahead, carried.drop_front(firstAhead)))
    read.indices = value;
  setSlots(staged, loop);
  continueCopies(staged, loop.getInductionVar());

  emitBody(body);

  SmallVector<Value> next;
  emitAccumulate(cast<block::AccumulateOp>(body.getTerminator()), next);
  addMaxima(maxima, next);
  for (const StagedLoop::Ahead &read : staged.ahead)
    next.push_back(read.indices);
  if (staged.rotates())
    addNextSlots(staged, next);
  scf::YieldOp::create(builder, loc, next);
  builder.setInsertionPointAfter(loop);
  for (auto [result, value] : llvm::zip(op.getResults(), loop.getResults()))
    fragments[result] = value;
  setMaxima(maxima, loop.getResults().drop_front(op.getNumResults()));
  settleMaxima(op);
}
