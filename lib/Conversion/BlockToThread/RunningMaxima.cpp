//===- RunningMaxima.cpp - running maxima that a loop carries -------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/LazyMaxima.h"
#include "mirage/Dialect/Block/Analysis/SpeculatedMaxima.h"

#include <limits>

using namespace mlir;
using namespace mirage;
using block::getFragment;
using block::getTile;
using thread::FragmentType;

/// Whether a number is carried in addition to the maximum, and used in its
/// place.
static bool isCarriedToo(block::RunningMaxOp running) {
  auto loop = cast<block::LoopOp>(running->getParentOp());
  if (!loop->hasAttr(block::kSpeculates))
    return block::isLazy(running);
  std::optional<block::SpeculatedStep> step = block::getSpeculatedStep(loop);
  return step && step->needsMaximum;
}

void TileEmitter::addInitialMaxima(ArrayRef<block::RunningMaxOp> maxima,
                                   SmallVectorImpl<Value> &values) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (block::RunningMaxOp running : maxima)
    values.append(isCarriedToo(running) ? 2 : 1, constant(typeOf(running.getResult()), -infinity));
}

ValueRange TileEmitter::setMaxima(ArrayRef<block::RunningMaxOp> maxima, ValueRange values) {
  for (block::RunningMaxOp running : maxima) {
    previousMax[running.getResult()] = values.front();
    values = values.drop_front();
    if (!isCarriedToo(running))
      continue;
    trueMax[running.getResult()] = values.front();
    values = values.drop_front();
  }
  return values;
}

void TileEmitter::addMaxima(ArrayRef<block::RunningMaxOp> maxima, SmallVectorImpl<Value> &values) {
  for (block::RunningMaxOp running : maxima) {
    values.push_back(get(running.getResult()));
    if (isCarriedToo(running))
      values.push_back(trueMax.lookup(running.getResult()));
  }
}

void TileEmitter::emitRunningMax(block::RunningMaxOp op) {
  Value result = op.getResult(), input = castTo(get(op.getInput()), builder.getF32Type());
  Value previous = previousMax.lookup(result);
  if (!isCarriedToo(op)) {
    fragments[result] = binary(BinaryFn::Max, previous, input);
    return;
  }
  auto type = cast<FragmentType>(previous.getType());
  Value most = trueMax[result] = binary(BinaryFn::Max, trueMax.lookup(result), input);
  Value reach = binary(BinaryFn::Add, previous, constant(type, block::lazySlack));
  Value moves = binary(BinaryFn::Lt, reach, most);
  Value stays = thread::UnaryOp::create(builder, loc, type, UnaryFn::Not, moves);
  Value now = binary(BinaryFn::Keep, moves, most);
  fragments[result] = binary(BinaryFn::Add, now, binary(BinaryFn::Keep, stays, previous));
}

/// After the loop: its sums are those of the maximum.
void TileEmitter::settleMaxima(block::LoopOp op) {
  auto accumulate = cast<block::AccumulateOp>(op.getBody().front().getTerminator());
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    Value rescale = accumulate.getRescale(index);
    if (!rescale || !trueMax.count(rescale))
      continue;
    FragmentType type = typeOf(result);
    Value factor = spreadFactor(emitFactor(previousMax.lookup(rescale), trueMax.lookup(rescale)),
                                getTile(rescale), getTile(result), type.withPartial(false));
    fragments[result] =
        thread::RescaleOp::create(builder, loc, type, fragments.lookup(result), factor);
  }
}
