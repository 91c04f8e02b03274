//===- KernelFolds.cpp - folders and canonicalizations --------------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::kernel;

namespace {

/// The value of a kernel.constant that is a double, not a number close to one.
std::optional<double> constantValue(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (constant && !constant->hasAttr("exact"))
    return constant.getValue().convertToDouble();
  return std::nullopt;
}

bool isIdentity(ArrayRef<int64_t> permutation) {
  for (auto [i, dim] : llvm::enumerate(permutation))
    if (static_cast<int64_t>(i) != dim)
      return false;
  return true;
}

/// neg(neg(x)) = x.
struct FoldDoubleNegation : OpRewritePattern<UnaryOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(UnaryOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<UnaryOp>();
    if (op.getFn() != UnaryFn::Neg || !inner || inner.getFn() != UnaryFn::Neg ||
        inner.getInput().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, inner.getInput());
    return success();
  }
};

/// x * 1, x / 1, x + 0, x - 0 = x, and the mirror images of the commutative ones.
struct FoldNeutralOperand : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BinaryOp op, PatternRewriter &rewriter) const override {
    double neutral;
    switch (op.getFn()) {
    case BinaryFn::Mul:
    case BinaryFn::Div:
      neutral = 1.0;
      break;
    case BinaryFn::Add:
    case BinaryFn::Sub:
      neutral = 0.0;
      break;
    default:
      return failure();
    }
    bool commutes = op.getFn() == BinaryFn::Mul || op.getFn() == BinaryFn::Add;
    Value kept;
    if (constantValue(op.getRhs()) == neutral)
      kept = op.getLhs();
    else if (commutes && constantValue(op.getLhs()) == neutral)
      kept = op.getRhs();
    if (!kept || kept.getType() != op.getResult().getType())
      return failure();
    rewriter.replaceOp(op, kept);
    return success();
  }
};

struct FoldTransposeOfTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t dim : op.getPermutation())
      permutation.push_back(inner.getPermutation()[dim]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getResult().getType(), inner.getInput(),
                                             permutation);
    return success();
  }
};

struct FoldReshapeOfReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getResult().getType(), inner.getInput());
    return success();
  }
};

} // namespace

// The complete number: constants with the same double but different `exact` numbers stay separate.
OpFoldResult ConstantOp::fold(FoldAdaptor) {
  if ((*this)->hasAttr("exact"))
    return (*this)->getAttrDictionary();
  return getValueAttr();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType() ? getInput() : OpFoldResult();
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  bool isInput = getDims().empty() && getInput().getType() == getType();
  return isInput ? OpFoldResult(getInput()) : OpFoldResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  return isIdentity(getPermutation()) ? OpFoldResult(getInput()) : OpFoldResult();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType() ? getInput() : OpFoldResult();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType() ? getInput() : OpFoldResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType() ? getInput() : OpFoldResult();
}

void UnaryOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldDoubleNegation>(context);
}

void BinaryOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldNeutralOperand>(context);
}

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldTransposeOfTranspose>(context);
}

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldReshapeOfReshape>(context);
}
