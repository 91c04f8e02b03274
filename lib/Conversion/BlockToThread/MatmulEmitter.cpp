//===- MatmulEmitter.cpp - matrix products --------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/LoopSchedule.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mirage;
using block::getShared;
using block::getTile;
using thread::FragmentType;
using thread::LinearLayout;
using thread::WarpGrid;

/// `layout` for the warps of `like`; further warps hold copies.
static LinearLayout withWarpsOf(const LinearLayout &layout, const LinearLayout &like) {
  LinearLayout::Basis warp(layout.getWarp());
  warp.resize(like.getWarp().size());
  return LinearLayout(LinearLayout::Basis(layout.getReg()), LinearLayout::Basis(layout.getLane()),
                      warp, layout.getRepeat());
}

/// The rows `row`.. and columns `col`.. of an operand as the fragment `part`.
/// For an operand in registers, `whole` is the type of the whole operand.
Value TileEmitter::getProductOperand(Value operand, bool isTransposed, FragmentType whole,
                                     FragmentType part, int64_t row, int64_t col) {
  if (getShared(operand)) {
    SharedView view = getSharedView(operand);
    bool transposed = view.transposed != isTransposed;
    auto at = transposed ? builder.getDenseI64ArrayAttr({col, row})
                         : builder.getDenseI64ArrayAttr({row, col});
    return thread::LoadSharedOp::create(builder, loc, part, view.tile, at, transposed);
  }
  Value fragment = get(operand);
  if (isTransposed) {
    auto type = cast<FragmentType>(fragment.getType());
    fragment = thread::TransposeOp::create(
        builder, loc, type.withLayout(type.getLinearLayout().transpose()), fragment);
  }
  if (fragment.getType() != whole)
    fragment = thread::ConvertLayoutOp::create(builder, loc, whole, fragment, IntegerAttr());
  if (whole == part)
    return fragment;
  return thread::SliceOp::create(builder, loc, part, fragment,
                                 builder.getDenseI64ArrayAttr({row, col}));
}

/// The number of instructions of a warp whose elements along K a thread reads
/// together, for factors in shared memory. If the rows of both run along K and
/// start at odd elements, most words that it reads are then parts of two pairs,
/// and in different banks (getSkewedPad).
int64_t TileEmitter::countTogether(Value lhs, Value rhs, bool swapped, int64_t k, WarpGrid grid) {
  constexpr int64_t together = 4;
  if (!getShared(lhs) || !getShared(rhs))
    return 1;
  // Nothing is read yet, so that no copies are waited for.
  SharedView left = sharedViews.lookup(lhs), right = sharedViews.lookup(rhs);
  bool alongRows = left.transposed == swapped && right.transposed != swapped;
  bool odd = llvm::all_of(ArrayRef{left.tile, right.tile}, [](Value tile) {
    return cast<thread::SharedType>(tile.getType()).startsAtOddElements();
  });
  bool divides = k % (thread::mmaInstructionK(2) * grid.k * together) == 0;
  return alongRows && odd && divides ? together : 1;
}

/// The value to which the product is added: the loop's accumulator if the
/// result is only accumulated, otherwise zero.
Value TileEmitter::getAccumulator(block::MatmulOp op, FragmentType productType) {
  if (op->hasOneUse()) {
    OpOperand &use = *op->getUses().begin();
    if (auto accumulate = dyn_cast<block::AccumulateOp>(use.getOwner())) {
      int64_t number = use.getOperandNumber();
      Value result = number < (int64_t)accumulate.getValues().size()
                         ? accumulate->getParentOp()->getResult(number)
                         : Value();
      Value rescale = result ? accumulate.getRescale(number) : Value();
      if (result && accumulate.getFn(number) == block::AccumulateFn::Sum &&
          accumulate->getBlock() == op->getBlock() &&
          (!rescale || block::isDeferred(op) || get(rescale))) {
        // The accumulator of a deferred product was rescaled at the end of the
        // previous step.
        Value accumulator =
            block::isDeferred(op) ? accumulators.lookup(result) : emitRescaled(accumulate, number);
        accumulated.insert(op.getResult());
        if (op.getSwapped()) {
          auto type = cast<FragmentType>(accumulator.getType());
          accumulator = thread::TransposeOp::create(
              builder, loc, type.withLayout(type.getLinearLayout().transpose()), accumulator);
        }
        return accumulator;
      }
    }
  }
  return constant(productType, 0);
}

/// Starts the product; the loop waits for it (RingLoop.cpp).
void TileEmitter::emitWarpgroupMatmul(block::MatmulOp op) {
  SharedView rhs = getSharedView(op.getRhs()), lhs;
  if (getShared(op.getLhs()))
    lhs = getSharedView(op.getLhs());
  else
    lhs.tile = get(op.getLhs());
  FragmentType type = typeOf(op.getResult());
  Value sum = getAccumulator(op, type);
  bool promoted = block::isPromoted(op);
  fragments[op.getResult()] = thread::WgmmaOp::create(
      builder, loc, sum.getType(), lhs.tile, rhs.tile, sum, lhs.transposed, rhs.transposed,
      /*from_zero=*/!promoted && !accumulated.contains(op.getResult()), promoted);
}

void TileEmitter::emitMatmul(block::MatmulOp op) {
  FragmentType result = typeOf(op.getResult());
  if (op.getWarpgroup())
    return emitWarpgroupMatmul(op);
  waitForTiles(op->getOperands());
  bool swapped = op.getSwapped();
  ArrayRef<int64_t> warps = *op.getWarps();
  WarpGrid grid{warps[swapped ? 1 : 0], warps[swapped ? 0 : 1], warps[2]};
  Value lhs = swapped ? op.getRhs() : op.getLhs(), rhs = swapped ? op.getLhs() : op.getRhs();
  Type element = getTile(lhs).getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;

  LinearLayout product = result.getLinearLayout();
  if (swapped)
    product = product.transpose();
  int64_t m = product.getExtent(0), n = product.getExtent(1);
  // K of the operands in their padded form.
  int64_t k;
  if (FragmentType fragment = typeOf(op.getLhs()))
    k = fragment.getCols();
  else if (FragmentType right = typeOf(op.getRhs()))
    k = right.getRows();
  else {
    SharedView view = getSharedView(op.getLhs());
    auto shared = cast<thread::SharedType>(view.tile.getType());
    k = view.transposed ? shared.getRows() : shared.getCols();
  }

  auto typeFor = [&](const LinearLayout &layout) {
    return FragmentType::get(element, withWarpsOf(layout, product));
  };
  // Step by step along K, so that few operand registers are alive at a time.
  // Warps that share K own contiguous parts of it, which operands in registers
  // cannot be sliced across.
  bool inShared = getShared(lhs) && getShared(rhs);
  int64_t together = countTogether(lhs, rhs, swapped, k, grid);
  auto lhsType = [&](int64_t depth) {
    return typeFor(thread::mmaLhsLayout(m, depth, bytes, grid, together));
  };
  auto rhsType = [&](int64_t depth) {
    return typeFor(thread::mmaRhsLayout(depth, n, bytes, grid, together));
  };
  int64_t step = thread::mmaInstructionK(bytes) * grid.k * together;
  if (grid.k > 1 && !inShared)
    step = k;
  FragmentType wholeLhs = lhsType(k), wholeRhs = rhsType(k), partLhs = lhsType(step),
               partRhs = rhsType(step);
  FragmentType productType = FragmentType::get(builder.getF32Type(), product, grid.k > 1);
  Value sum = getAccumulator(op, productType);
  for (int64_t at = 0; at < k; at += step) {
    Value a = getProductOperand(lhs, swapped, wholeLhs, partLhs, 0, at);
    Value b = getProductOperand(rhs, swapped, wholeRhs, partRhs, at, 0);
    sum = thread::MmaOp::create(builder, loc, sum.getType(), a, b, sum, op.getTf32());
  }
  if (swapped)
    sum = thread::TransposeOp::create(
        builder, loc, FragmentType::get(builder.getF32Type(), result.getLinearLayout(), grid.k > 1),
        sum);
  fragments[op.getResult()] = sum;
}
