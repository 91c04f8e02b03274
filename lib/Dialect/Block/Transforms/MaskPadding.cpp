//===- MaskPadding.cpp - keep padding of fragments out of reductions ------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Common/ScalarFacts.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

#include <array>

namespace mirage::block {
#define GEN_PASS_DEF_MASKPADDING
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {

/// Whether the padding of a value along rows and columns is known to be zero.
/// Nothing is concluded from products: zero times infinity is not zero.
class ZeroPaddingAnalysis {
public:
  explicit ZeroPaddingAnalysis(kernel::LaunchOp launch) {
    launch.getBody().walk<WalkOrder::PostOrder>([&](Operation *op) {
      if (auto loop = dyn_cast<LoopOp>(op))
        return visitLoop(loop);
      if (op->getNumResults() == 1 && isa<TileType>(op->getResult(0).getType()))
        for (int64_t dim : {0, 1})
          zero[op->getResult(0)][dim] = compute(op, dim);
    });
  }

  bool isZero(Value value, int64_t dim) const {
    auto it = zero.find(value);
    return it != zero.end() && it->second[dim];
  }

private:
  bool compute(Operation *op, int64_t dim) const {
    // Loads fill elements outside of the tensor with zeros. Reshapes that only add or drop units,
    // and reductions, do not change the padding along each dimension.
    if (isa<LoadOp, GatherOp, IntegersOp>(op))
      return true;
    if (isa<ReshapeOp, ReduceOp>(op))
      return isZero(op->getOperand(0), dim);
    auto tile = dyn_cast<TileOpInterface>(op);
    return tile && tile.isZeroAtZero() && llvm::all_of(op->getOpOperands(), [&](OpOperand &use) {
             return isZeroAlong(tile, use, dim);
           });
  }

  /// Whether the padding along the dimension of the operand that is `dim` of the
  /// result is zero.
  bool isZeroAlong(TileOpInterface tile, OpOperand &use, int64_t dim) const {
    if (isScalar(use.get()))
      return false;
    for (unsigned from : {0u, 1u})
      if (tile.getResultDim(use.getOperandNumber(), from) == dim)
        return isZero(use.get(), from) &&
               getTile(use.get()).getShape()[from] == getTile(tile->getResult(0)).getShape()[dim];
    return false;
  }

  void visitLoop(LoopOp loop) {
    auto accumulate = cast<AccumulateOp>(loop.getBody().front().getTerminator());
    for (auto [index, value] : llvm::enumerate(accumulate.getValues()))
      for (int64_t dim : {0, 1})
        zero[loop.getResult(index)][dim] = isZero(value, dim) && !accumulate.getRescale(index);
  }

  DenseMap<Value, std::array<bool, 2>> zero;
};

struct MaskPadding : block::impl::MaskPaddingBase<MaskPadding> {
  void runOnOperation() override {
    WalkResult walk = getOperation()->walk([&](kernel::LaunchOp launch) {
      if (failed(checkLayouts(launch)))
        return WalkResult::interrupt();
      run(launch);
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }

private:
  static bool isPadded(Value value, int64_t dim) {
    thread::FragmentType fragment = getFragment(value);
    return fragment && fragment.getShape()[dim] != getTile(value).getShape()[dim];
  }

  void run(kernel::LaunchOp launch) {
    ZeroPaddingAnalysis padding(launch);
    IRRewriter rewriter(launch.getContext());
    auto fill = [&](OpOperand &operand, int64_t dim, double value) {
      if (!isPadded(operand.get(), dim))
        return;
      Operation *user = operand.getOwner();
      rewriter.setInsertionPoint(user);
      operand.set(MaskOp::create(rewriter, user->getLoc(), operand.get().getType(), operand.get(),
                                 rewriter.getI64IntegerAttr(dim), rewriter.getStrArrayAttr({}),
                                 rewriter.getI64IntegerAttr(getTile(operand.get()).getShape()[dim]),
                                 rewriter.getF64FloatAttr(value)));
      ++numMasks;
    };
    launch.getBody().walk([&](Operation *op) {
      if (auto reduce = dyn_cast<ReduceOp>(op)) {
        bool isSum = reduce.getFn() == ReduceFn::Sum;
        Value input = reduce.getInput();
        for (int64_t dim : reduce.getDims())
          if (!isSum || !padding.isZero(input, dim))
            fill(reduce.getInputMutable(), dim,
                 getIdentity(isSum ? CumulateFn::Sum : CumulateFn::Max));
      } else if (auto cumulate = dyn_cast<CumulateOp>(op); cumulate && cumulate.getReversed()) {
        bool isSum = cumulate.getFn() == CumulateFn::Sum;
        if (!isSum || !padding.isZero(cumulate.getInput(), cumulate.getDim()))
          fill(cumulate.getInputMutable(), cumulate.getDim(), getIdentity(cumulate.getFn()));
      } else if (auto matmul = dyn_cast<MatmulOp>(op)) {
        if (!padding.isZero(matmul.getLhs(), 1))
          fill(matmul.getLhsMutable(), 1, 0.0);
        if (!padding.isZero(matmul.getRhs(), 0))
          fill(matmul.getRhsMutable(), 0, 0.0);
      }
    });
  }
};
} // namespace
