//===- BlockLoops.cpp - verifiers of loops and of what they accumulate ----===//

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Common/Shapes.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

/// Sums of positions and integers times constants, and quotients of such sums by
/// constants, rounded down.
static bool isStepNumber(AffineExpr expr) {
  if (isa<AffineDimExpr, AffineSymbolExpr, AffineConstantExpr>(expr))
    return true;
  auto pair = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!pair || !isStepNumber(pair.getLHS()) || !isStepNumber(pair.getRHS()))
    return false;
  auto factor = dyn_cast<AffineConstantExpr>(pair.getRHS());
  return expr.getKind() == AffineExprKind::Add ||
         (expr.getKind() == AffineExprKind::Mul && factor) ||
         (expr.getKind() == AffineExprKind::FloorDiv && factor && factor.getValue() > 0);
}

LogicalResult LoopOp::verify() {
  auto launch = (*this)->getParentOfType<kernel::LaunchOp>();
  if (!launch)
    return emitOpError("expected to be inside of kernel.launch");
  std::optional<AffineMap> steps = getSteps();
  if (steps.has_value() != getStepAxes().has_value())
    return emitOpError("expected steps together with the axes that they depend on");
  if (!steps && !getStepValues().empty())
    return emitOpError("expected integers together with the steps that they bound");
  if (!steps)
    return success();
  if (steps->getNumDims() != getStepAxes()->size() ||
      steps->getNumSymbols() != getStepValues().size() || steps->getNumResults() != 2)
    return emitOpError("expected steps from ")
           << getStepAxes()->size() << " positions and " << getStepValues().size()
           << " integers to a first one and an end, got " << getStepsAttr();
  if (!llvm::all_of(steps->getResults(), isStepNumber))
    return emitOpError("expected steps as sums of multiples, divided by constants and rounded "
                       "down, got ")
           << getStepsAttr();
  llvm::StringSet<> seen;
  for (Value value : getStepValues())
    if (!value.getDefiningOp<ScalarOp>())
      return emitOpError("expected steps that depend on integers which the block reads "
                         "(block.scalar), got another value");
  for (Attribute axis : getStepAxesAttr()) {
    StringRef name = cast<StringAttr>(axis).getValue();
    if (!launch.getGridExtent(name))
      return emitOpError("expected steps that depend on axes of the grid, got '") << name << "'";
    if (!seen.insert(name).second)
      return emitOpError("expected steps that name an axis once, got '") << name << "' twice";
  }
  return success();
}

std::pair<int64_t, int64_t> LoopOp::getStepRange(ArrayRef<int64_t> positions) {
  int64_t extent = getExtent();
  if (!getSteps())
    return {0, extent};
  assert(!hasStepsAtRunTime() && "what the block reads is not known");
  SmallVector<Attribute> given, numbers;
  for (int64_t position : positions)
    given.push_back(IntegerAttr::get(IndexType::get(getContext()), position));
  LogicalResult folded = getSteps()->constantFold(given, numbers);
  assert(succeeded(folded) && "the verifier knows what folds");
  (void)folded;
  int64_t first = std::clamp<int64_t>(cast<IntegerAttr>(numbers[0]).getInt(), 0, extent - 1);
  return {first, std::clamp<int64_t>(cast<IntegerAttr>(numbers[1]).getInt(), first + 1, extent)};
}

LogicalResult LoopOp::verifyRegions() {
  auto accumulate = cast<AccumulateOp>(getBody().front().getTerminator());
  if (accumulate.getValues().getTypes() != getResultTypes())
    return emitOpError("expected results of the accumulated types (")
           << accumulate.getValues().getTypes() << "), got (" << getResultTypes() << ")";
  if (getBody().getNumArguments() != 0)
    return emitOpError("expected a body without arguments, got ") << getBody().getNumArguments();
  return success();
}

Value AccumulateOp::getRescale(int64_t index) {
  for (auto [position, value] : llvm::zip(getRescaled(), getRescales()))
    if (position == index)
      return value;
  return Value();
}

AccumulateFn AccumulateOp::getFn(int64_t index) {
  return cast<AccumulateFnAttr>(getFns()[index]).getValue();
}

LogicalResult AccumulateOp::verify() {
  if (getFns().size() != getValues().size())
    return emitOpError("expected one function for each value, got ")
           << getFns().size() << " for " << getValues().size() << " values";
  if (getRescaled().size() != getRescales().size())
    return emitOpError("expected one accumulator for each rescale, got ")
           << getRescaled().size() << " for " << getRescales().size();
  for (auto [index, rescale] : llvm::zip(getRescaled(), getRescales())) {
    if (index < 0 || index >= static_cast<int64_t>(getValues().size()))
      return emitOpError("expected to rescale an accumulator below ")
             << getValues().size() << ", got " << index;
    if (getFn(index) != AccumulateFn::Sum)
      return emitOpError("expected only sums to be rescaled, got ")
             << stringifyAccumulateFn(getFn(index));
    if (Type sum = getValues()[index].getType(); cast<TileType>(sum).getElementType().isInteger())
      return emitOpError("expected a sum of floats to be rescaled, got ") << sum;
    auto running = rescale.getDefiningOp<RunningMaxOp>();
    if (!running || running->getParentOp() != (*this)->getParentOp())
      return emitOpError("expected to rescale by a block.running_max of the same loop");
    ArrayRef<int64_t> factors = cast<TileType>(rescale.getType()).getShape(),
                      sums = cast<TileType>(getValues()[index].getType()).getShape();
    auto shape = broadcastShapes(factors, sums);
    if (!shape || ArrayRef<int64_t>(*shape) != sums)
      return emitOpError("expected a rescale that broadcasts to ")
             << formatShape(sums) << ", got " << formatShape(factors);
  }
  return success();
}

LogicalResult RunningMaxOp::verify() {
  if (!isa<LoopOp>((*this)->getParentOp()))
    return emitOpError("expected to be directly inside of block.loop");
  return success();
}
