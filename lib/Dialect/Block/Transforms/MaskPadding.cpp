//===- MaskPadding.cpp - keep padding of fragments out of reductions ------===//

#include "mirage/Dialect/Block/Transforms/HeldTile.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

#include <array>
#include <limits>

namespace mirage::block {
#define GEN_PASS_DEF_MASKPADDING
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {

/// Whether the padding of a value along rows and columns is known to be zero.
/// Nothing is concluded from products: a zero times an infinity is none.
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
  static bool mapsZeroToZero(UnaryFn fn) {
    switch (fn) {
    case UnaryFn::Neg:
    case UnaryFn::Abs:
    case UnaryFn::Sqrt:
    case UnaryFn::Square:
    case UnaryFn::Silu:
    case UnaryFn::Gelu:
    case UnaryFn::GeluTanh:
    case UnaryFn::Relu:
    case UnaryFn::Tanh:
      return true;
    default:
      return false;
    }
  }

  bool compute(Operation *op, int64_t dim) const {
    return TypeSwitch<Operation *, bool>(op)
        .Case<LoadOp>([](LoadOp) { return true; })
        .Case<ReshapeOp, ConvertLayoutOp, CastOp, RunningMaxOp>(
            [&](Operation *same) { return isZero(same->getOperand(0), dim); })
        .Case<TransposeOp>(
            [&](TransposeOp transpose) { return isZero(transpose.getInput(), 1 - dim); })
        .Case<UnaryOp>([&](UnaryOp unary) {
          return mapsZeroToZero(unary.getFn()) && isZero(unary.getInput(), dim);
        })
        .Case<BinaryOp>([&](BinaryOp binary) {
          bool preserves = llvm::is_contained(
              {BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Max, BinaryFn::Min},
              binary.getFn());
          return preserves && llvm::all_of(op->getOperands(), [&](Value operand) {
                   return !isScalar(operand) && isZero(operand, dim) &&
                          getTile(operand).getShape()[dim] ==
                              getTile(binary.getResult()).getShape()[dim];
                 });
        })
        .Case<MaskOp>(
            [&](MaskOp mask) { return mask.getFill().isZero() && isZero(mask.getInput(), dim); })
        .Case<ReduceOp>([&](ReduceOp reduce) { return isZero(reduce.getInput(), dim); })
        .Default(false);
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
                 isSum ? 0.0 : -std::numeric_limits<double>::infinity());
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
